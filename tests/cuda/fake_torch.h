// Tensors of the fake torch, in memory of the host or of the fake driver's devices.
#pragma once

#include "fake_driver.h"

namespace kernelcore::fake {

inline constexpr int kCpu = 0;
inline constexpr int kCuda = 1;

struct Tensor {
  void* data = nullptr;
  int32_t dtype = 0;  // torch's numbers are those of DType here
  int32_t device_type = kCpu;
  int32_t device_index = 0;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  std::vector<char> host;
};

/// The stream that is the current one of a device.
void*& stream_of(int device);

}  // namespace kernelcore::fake

FAKE int32_t aoti_torch_empty_strided(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                                      int32_t dtype, int32_t device_type, int32_t device_index,
                                      kernelcore::fake::Tensor** out);
FAKE int32_t aoti_torch_delete_tensor_object(kernelcore::fake::Tensor* tensor);
