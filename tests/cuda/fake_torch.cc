// Torch's stable C functions over tensors of the fake driver's memory, with a record of their
// calls.
#include "fake_torch.h"

#include <cstring>
#include <exception>

#include "core/memory/array_view.h"

using namespace kernelcore;
using namespace kernelcore::fake;

FAKE Result cuDevicePrimaryCtxRetain(ContextHandle*, DeviceHandle);
FAKE Result cuCtxPushCurrent_v2(ContextHandle);
FAKE Result cuCtxPopCurrent_v2(ContextHandle*);
FAKE Result cuMemAlloc_v2(DevicePointer*, size_t);
FAKE Result cuMemFree_v2(DevicePointer);
FAKE Result cuThreadExchangeStreamCaptureMode(int*);

namespace {

thread_local bool t_grad_mode = true;
ArrayView view_of(const Tensor& tensor) {
  ArrayView view{};
  view.data = tensor.data;
  view.ndim = static_cast<int>(tensor.sizes.size());
  view.item_bytes = static_cast<int64_t>(size_bytes(static_cast<DType>(tensor.dtype)));
  for (size_t k = 0; k < tensor.sizes.size(); ++k) {
    view.shape[k] = tensor.sizes[k];
    view.stride_bytes[k] = tensor.strides[k] * view.item_bytes;
  }
  return view;
}

/// Calls `use` with the address of every element, in row-major order.
template <class Use>
void each_element(const Tensor& tensor, Use&& use) {
  ArrayView view = view_of(tensor);
  int64_t count = view.numel();
  for (int64_t position = 0; position < count; ++position) {
    auto* address = static_cast<char*>(view.data);
    int64_t rest = position;
    for (int k = view.ndim - 1; k >= 0; --k) {
      address += rest % view.shape[k] * view.stride_bytes[k];
      rest /= view.shape[k];
    }
    use(address);
  }
}

void transfer(const Tensor& tensor, char* host, bool is_read) {
  Access access;
  size_t bytes = size_bytes(static_cast<DType>(tensor.dtype));
  each_element(tensor, [&](char* element) {
    is_read ? std::memcpy(host, element, bytes) : std::memcpy(element, host, bytes);
    host += bytes;
  });
}

}  // namespace

namespace kernelcore::fake {

void*& stream_of(int device) {
  static void* streams[kDevices] = {};
  return streams[device];
}

}  // namespace kernelcore::fake

// What tests ask of it.
FAKE void fake_torch_stream(int device, void* stream) {
  stream_of(device) = stream;
}
FAKE void fake_torch_fill(const Tensor* tensor, char* bytes) {
  transfer(*tensor, bytes, false);
}
FAKE void fake_torch_read(const Tensor* tensor, char* bytes) {
  transfer(*tensor, bytes, true);
}
/// Calls a boxed kernel; returns the text of what it throws, or null.
FAKE const char* fake_torch_call(void (*function)(uint64_t*, uint64_t, uint64_t, const void*),
                                 uint64_t* stack, const void* context) {
  static std::string text;
  try {
    function(stack, 0, 0, context);
    return nullptr;
  } catch (const std::exception& error) {
    text = error.what();
    return text.c_str();
  }
}

FAKE int32_t aoti_torch_empty_strided(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                                      int32_t dtype, int32_t device_type, int32_t device_index,
                                      Tensor** out) {
  if (state().is_idle) {
    *out = new Tensor{.data = out, .dtype = dtype, .device_type = device_type};
    (*out)->sizes.assign(sizes, sizes + ndim);
    (*out)->strides.assign(strides, strides + ndim);
    return 0;
  }
  std::string shape;
  for (int64_t k = 0; k < ndim; ++k) shape += (k == 0 ? "" : "x") + std::to_string(sizes[k]);
  if (note("aoti_torch_empty_strided", device_type, device_index, shape) != 0) return 1;
  auto* made = new Tensor{};
  made->dtype = dtype;
  made->device_type = device_type;
  made->device_index = device_index;
  made->sizes.assign(sizes, sizes + ndim);
  made->strides.assign(strides, strides + ndim);
  auto [begin, end] = view_of(*made).byte_span();
  if (device_type == kCpu) {
    made->host.resize(end - begin);
    made->data = made->host.data();
  } else if (end != begin) {
    ContextHandle context = nullptr;
    DevicePointer pointer = 0;
    cuDevicePrimaryCtxRetain(&context, device_index);
    int mode = 2;
    cuCtxPushCurrent_v2(context);
    cuThreadExchangeStreamCaptureMode(&mode);
    cuMemAlloc_v2(&pointer, end - begin);
    cuThreadExchangeStreamCaptureMode(&mode);
    cuCtxPopCurrent_v2(&context);
    made->data = host(pointer);
  }
  *out = made;
  return 0;
}
FAKE int32_t aoti_torch_delete_tensor_object(Tensor* tensor) {
  if (state().is_idle) {
    delete tensor;
    return 0;
  }
  note("aoti_torch_delete_tensor_object");
  // A graph keeps the memory that it was captured with.
  bool is_free = state().captures.empty();
  if (is_free && tensor->device_type != kCpu && tensor->data != nullptr) {
    cuMemFree_v2(reinterpret_cast<DevicePointer>(tensor->data));
  }
  delete tensor;
  return 0;
}
FAKE int32_t aoti_torch_copy_(Tensor* target, Tensor* source, int32_t) {
  if (note("aoti_torch_copy_", t_grad_mode) != 0) return 1;
  std::vector<char> bytes(static_cast<size_t>(view_of(*source).numel()) * 8);
  transfer(*source, bytes.data(), true);
  transfer(*target, bytes.data(), false);
  return 0;
}
FAKE int32_t aoti_torch_get_current_cuda_stream(int32_t device, void** stream) {
  note("aoti_torch_get_current_cuda_stream", device);
  *stream = stream_of(device);
  return 0;
}
FAKE int32_t aoti_torch_get_data_ptr(Tensor* tensor, void** data) {
  *data = tensor->data;
  return 0;
}
FAKE int32_t aoti_torch_get_dim(Tensor* tensor, int64_t* ndim) {
  *ndim = static_cast<int64_t>(tensor->sizes.size());
  return 0;
}
FAKE int32_t aoti_torch_get_sizes(Tensor* tensor, int64_t** sizes) {
  *sizes = tensor->sizes.data();
  return 0;
}
FAKE int32_t aoti_torch_get_strides(Tensor* tensor, int64_t** strides) {
  *strides = tensor->strides.data();
  return 0;
}
// A fake tensor has no storage apart from its elements, so these fail.
FAKE int32_t aoti_torch_get_storage_size(Tensor*, int64_t*) {
  return 1;
}
FAKE int32_t aoti_torch_get_storage_offset(Tensor*, int64_t*) {
  return 1;
}
FAKE int32_t aoti_torch_get_dtype(Tensor* tensor, int32_t* dtype) {
  *dtype = tensor->dtype;
  return 0;
}
FAKE int32_t aoti_torch_get_device_type(Tensor* tensor, int32_t* type) {
  *type = tensor->device_type;
  return 0;
}
FAKE int32_t aoti_torch_get_device_index(Tensor* tensor, int32_t* index) {
  *index = tensor->device_index;
  return 0;
}
FAKE bool aoti_torch_grad_mode_is_enabled() {
  return t_grad_mode;
}
FAKE void aoti_torch_grad_mode_set_enabled(bool is_enabled) {
  t_grad_mode = is_enabled;
}
FAKE int32_t aoti_torch_library_init_impl(const char*, const char*, const char*, uint32_t, void**) {
  return 1;
}
FAKE int32_t aoti_torch_library_impl(void*, const char*, void*) {
  return 1;
}
FAKE int32_t aoti_torch_device_type_cpu() {
  return kCpu;
}
FAKE int32_t aoti_torch_device_type_cuda() {
  return kCuda;
}

#define KC_FAKE_DTYPE(name, number)        \
  FAKE int32_t aoti_torch_dtype_##name() { \
    return static_cast<int32_t>(number);   \
  }
KC_FAKE_DTYPE(bool, DType::kBool)
KC_FAKE_DTYPE(int8, DType::kInt8)
KC_FAKE_DTYPE(int16, DType::kInt16)
KC_FAKE_DTYPE(int32, DType::kInt32)
KC_FAKE_DTYPE(int64, DType::kInt64)
KC_FAKE_DTYPE(uint8, DType::kUInt8)
KC_FAKE_DTYPE(uint16, DType::kUInt16)
KC_FAKE_DTYPE(uint32, DType::kUInt32)
KC_FAKE_DTYPE(uint64, DType::kUInt64)
KC_FAKE_DTYPE(float16, DType::kFloat16)
KC_FAKE_DTYPE(bfloat16, DType::kBFloat16)
KC_FAKE_DTYPE(float32, DType::kFloat32)
KC_FAKE_DTYPE(float64, DType::kFloat64)
