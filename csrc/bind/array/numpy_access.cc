#include "bind/array/numpy_access.h"

#include "bind/array/buffer_protocol.h"
#include "bind/array/builtin_call.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

// What programs are compiled against that use NumPy's macros, since its first version.
struct NumpyDescriptor {
  PyObject head;
  PyTypeObject* scalar_type;
  char kind;
  char letter;
  char byte_order;
  char former_flags;
  int number;
};

struct NumpyArray {
  PyObject head;
  void* data;
  int ndim;
  Py_ssize_t* shape;
  Py_ssize_t* stride_bytes;
  PyObject* base;
  NumpyDescriptor* descriptor;
  int flags;
};

constexpr unsigned kIsContiguous = 0x1;
constexpr unsigned kIsFortran = 0x2;
constexpr unsigned kIsWriteable = 0x400;
constexpr unsigned kWarnsOfWrites = 0x80000000;

template <class Integer>
constexpr int integer_dtype() {
  constexpr bool kIsSigned = std::is_signed_v<Integer>;
  switch (sizeof(Integer)) {
    case 1:
      return static_cast<int>(kIsSigned ? DType::kInt8 : DType::kUInt8);
    case 2:
      return static_cast<int>(kIsSigned ? DType::kInt16 : DType::kUInt16);
    case 4:
      return static_cast<int>(kIsSigned ? DType::kInt32 : DType::kUInt32);
    default:
      return static_cast<int>(kIsSigned ? DType::kInt64 : DType::kUInt64);
  }
}

// By NumPy's number of a type; -1: not one of kernels.
constexpr int kDTypes[] = {
    static_cast<int>(DType::kBool),      integer_dtype<signed char>(),
    integer_dtype<unsigned char>(),      integer_dtype<short>(),
    integer_dtype<unsigned short>(),     integer_dtype<int>(),
    integer_dtype<unsigned int>(),       integer_dtype<long>(),
    integer_dtype<unsigned long>(),      integer_dtype<long long>(),
    integer_dtype<unsigned long long>(), static_cast<int>(DType::kFloat32),
    static_cast<int>(DType::kFloat64),
};
constexpr int kHalfNumber = 23;

int dtype_of(const NumpyDescriptor& descriptor) {
  if (descriptor.byte_order != '=' && descriptor.byte_order != '|') return -1;
  if (descriptor.number == kHalfNumber) return static_cast<int>(DType::kFloat16);
  bool is_known =
      descriptor.number >= 0 && descriptor.number < static_cast<int>(std::size(kDTypes));
  return is_known ? kDTypes[descriptor.number] : -1;
}

/// Strides as buffers have them: those of axes with one element are what the others make them.
void read_strides(const NumpyArray& array, unsigned flags, ArrayInfo& info) {
  ArrayView& view = info.view;
  if ((flags & kIsContiguous) != 0) {
    view.set_contiguous(static_cast<size_t>(info.item_bytes));
    return;
  }
  int64_t stride = info.item_bytes;
  for (int k = 0; k < view.ndim; ++k) {
    view.stride_bytes[k] = (flags & kIsFortran) != 0 ? stride : array.stride_bytes[k];
    stride *= view.shape[k];
  }
}

/// Whether an array that `type` makes says the same of itself as its buffer.
bool is_laid_out(PyTypeObject* type) {
  nb::object shape = nb::make_tuple(2, 3);
  nb::object made = call_function(reinterpret_cast<PyObject*>(type), shape.ptr());
  ArrayInfo read{};
  ArrayInfo expected{};
  Py_buffer buffer;
  if (!made.is_valid() || !export_buffer(made.ptr(), &buffer)) {
    PyErr_Clear();
    return false;
  }
  bool is_read = read_buffer(buffer, expected) && read_numpy(made.ptr(), read);
  PyBuffer_Release(&buffer);
  return is_read && read.view.data == expected.view.data && read.dtype == expected.dtype &&
         read.view.ndim == 2 && read.view.shape[0] == 2 && read.view.shape[1] == 3 &&
         !read.is_read_only;
}

}  // namespace

bool is_numpy_array(PyTypeObject* type) {
  return is_class_of(type, "numpy", "ndarray") && is_laid_out(type);
}

bool read_numpy(PyObject* object, ArrayInfo& info) {
  const auto& array = *reinterpret_cast<const NumpyArray*>(object);
  info.dtype = dtype_of(*array.descriptor);
  if (info.dtype < 0 || array.ndim > kMaxArrayDims) return false;
  auto flags = static_cast<unsigned>(array.flags);
  info.item_bytes = static_cast<int64_t>(size_bytes(static_cast<DType>(info.dtype)));
  info.view.data = array.data;
  info.view.ndim = array.ndim;
  for (int k = 0; k < array.ndim; ++k) info.view.shape[k] = array.shape[k];
  read_strides(array, flags, info);
  info.device = {kDLCPU, 0};
  info.is_read_only = (flags & kIsWriteable) == 0 || (flags & kWarnsOfWrites) != 0;
  info.has_lazy_sign = false;
  return true;
}

}  // namespace kernelcore::bind
