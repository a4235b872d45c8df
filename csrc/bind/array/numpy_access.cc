#include <array>
#include <type_traits>

#include "bind/array/builtin_call.h"
#include "bind/array/memory_protocols.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

// The layout that NumPy's macros compile into programs, unchanged since its first version.
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

template <class... Types>
constexpr std::array<int, sizeof...(Types)> dtypes_of() {
  auto kind = [](auto zero) {
    using T = decltype(zero);
    if (std::is_same_v<T, bool>) return ScalarKind::kBool;
    if (std::is_floating_point_v<T>) return ScalarKind::kFloat;
    return std::is_signed_v<T> ? ScalarKind::kInt : ScalarKind::kUInt;
  };
  return {dtype_of(kind(Types{}), sizeof(Types))...};
}

// By NumPy's type number.
constexpr auto kDTypes =
    dtypes_of<bool, signed char, unsigned char, short, unsigned short, int, unsigned int, long,
              unsigned long, long long, unsigned long long, float, double>();
constexpr int kHalfNumber = 23;

int dtype_of_numbers(const NumpyDescriptor& descriptor) {
  if (descriptor.byte_order != '=' && descriptor.byte_order != '|') return -1;
  if (descriptor.number == kHalfNumber) return static_cast<int>(DType::kFloat16);
  bool is_known = descriptor.number >= 0 && descriptor.number < static_cast<int>(kDTypes.size());
  return is_known ? kDTypes[static_cast<size_t>(descriptor.number)] : -1;
}

/// Strides as buffers have them: an axis of one element gets the stride of contiguous memory.
void read_strides(const NumpyArray& array, unsigned flags, ArrayView& view) {
  if ((flags & kIsContiguous) != 0) return view.set_contiguous();
  int64_t stride = view.item_bytes;
  for (int k = 0; k < view.ndim; ++k) {
    view.stride_bytes[k] = (flags & kIsFortran) != 0 ? stride : array.stride_bytes[k];
    stride *= view.shape[k];
  }
}

/// Whether reading an array of `type` by the struct agrees with the buffer protocol.
bool is_laid_out(PyTypeObject* type) {
  nb::object shape = nb::make_tuple(2, 3);
  nb::object made = call_function(reinterpret_cast<PyObject*>(type), shape.ptr());
  ArrayInfo read{};
  ArrayInfo expected{};
  Keeper kept = made.is_valid() ? keep_buffer(made.ptr(), expected) : nullptr;
  bool is_read = kept != nullptr && read_numpy(made.ptr(), read);
  PyErr_Clear();
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
  info.dtype = dtype_of_numbers(*array.descriptor);
  if (info.dtype < 0 || array.ndim > kMaxArrayDims) return false;
  auto flags = static_cast<unsigned>(array.flags);
  info.view.item_bytes = static_cast<int64_t>(size_bytes(static_cast<DType>(info.dtype)));
  info.view.data = array.data;
  info.view.ndim = array.ndim;
  for (int k = 0; k < array.ndim; ++k) info.view.shape[k] = array.shape[k];
  read_strides(array, flags, info.view);
  info.device = {kDLCPU, 0};
  info.is_read_only = (flags & kIsWriteable) == 0 || (flags & kWarnsOfWrites) != 0;
  info.has_lazy_sign = false;
  return true;
}

}  // namespace kernelcore::bind
