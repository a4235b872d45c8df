// Python objects with tensors of the fake torch, which they exchange as torch's own do.
#include <Python.h>
//
#include "dlpack.h"
#include "fake_torch.h"

using namespace kernelcore;
using namespace kernelcore::fake;

namespace {

constexpr uint8_t kCodes[] = {kDLBool, kDLInt, kDLUInt, kDLFloat};  // by ScalarKind

PyObject* g_type = nullptr;  // called with the address of a tensor

DLTensor describe(Tensor& tensor) {
  const DTypeTraits& traits = traits_of(static_cast<DType>(tensor.dtype));
  DLTensor found{};
  found.data = tensor.data;
  found.device = {tensor.device_type == kCpu ? kDLCPU : kDLCUDA, tensor.device_index};
  found.ndim = static_cast<int32_t>(tensor.sizes.size());
  found.dtype = {kCodes[static_cast<size_t>(traits.kind)],
                 static_cast<uint8_t>(8 * traits.size_bytes), 1};
  found.shape = tensor.sizes.data();
  found.strides = tensor.strides.data();
  return found;
}

int lend(void* object, DLTensor* out) {
  PyObject* handle = PyObject_GetAttrString(static_cast<PyObject*>(object), "handle");
  if (handle == nullptr) return -1;
  *out = describe(*static_cast<Tensor*>(PyLong_AsVoidPtr(handle)));
  Py_DECREF(handle);
  return 0;
}

int refuse(void*, DLManagedTensorVersioned**) {
  PyErr_SetString(PyExc_BufferError, "no test asks for that");
  return -1;
}

int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
             void (*set_error)(void*, const char*, const char*)) {
  int32_t dtype = -1;
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeTraits& traits = traits_of(static_cast<DType>(i));
    bool is_same = kCodes[static_cast<size_t>(traits.kind)] == prototype->dtype.code &&
                   8 * traits.size_bytes == prototype->dtype.bits;
    if (is_same) dtype = i;
  }
  std::vector<int64_t> strides(static_cast<size_t>(prototype->ndim), 1);
  for (size_t k = strides.size(); k-- > 1;) strides[k - 1] = strides[k] * prototype->shape[k];
  Tensor* made = nullptr;
  int32_t device = prototype->device.device_type == kDLCPU ? kCpu : kCuda;
  if (aoti_torch_empty_strided(prototype->ndim, prototype->shape, strides.data(), dtype, device,
                               prototype->device.device_id, &made) != 0) {
    set_error(context, "MemoryError", "out of memory");
    return -1;
  }
  *out = new DLManagedTensorVersioned{};
  (*out)->dl_tensor = describe(*made);
  (*out)->manager_ctx = made;
  return 0;
}

int adopt(DLManagedTensorVersioned* managed, void** out) {
  *out = PyObject_CallFunction(g_type, "N", PyLong_FromVoidPtr(managed->manager_ctx));
  delete managed;
  return *out == nullptr ? -1 : 0;
}

int find_stream(DLDeviceType, int32_t device, void** out) {
  *out = stream_of(device);
  return 0;
}

}  // namespace

/// The exchange API of `type`, whose instances have the address of a tensor as their `handle`.
FAKE PyObject* fake_tensor_api(PyObject* type) {
  static const DLPackExchangeAPI api{
      .header = {{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, nullptr},
      .managed_tensor_allocator = allocate,
      .managed_tensor_from_py_object_no_sync = refuse,
      .managed_tensor_to_py_object_no_sync = adopt,
      .dltensor_from_py_object_no_sync = lend,
      .current_work_stream = find_stream,
  };
  Py_INCREF(type);
  g_type = type;
  return PyCapsule_New(const_cast<DLPackExchangeAPI*>(&api), "dlpack_exchange_api", nullptr);
}
