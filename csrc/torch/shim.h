// libtorch's stable C interface, taken from the library that Python has already loaded.
#pragma once

#include <cstdint>
#include <string>

#include "kernelcore/abi.h"

namespace kernelcore::torch {

struct TensorOpaque;
using TensorHandle = TensorOpaque*;
using LibraryHandle = void*;

/// One entry of the stack of a boxed operator; small values sit in its low bytes.
using StableIValue = uint64_t;
using BoxedKernel = void (*)(StableIValue* stack, uint64_t inputs, uint64_t outputs);

/// Functions return 0 on success unless they return a value.
struct Shim {
  int32_t (*get_data_ptr)(TensorHandle, void**);
  int32_t (*get_dim)(TensorHandle, int64_t*);
  int32_t (*get_sizes)(TensorHandle, int64_t**);
  int32_t (*get_strides)(TensorHandle, int64_t**);
  int32_t (*get_storage_size)(TensorHandle, int64_t*);    // in bytes
  int32_t (*get_storage_offset)(TensorHandle, int64_t*);  // in elements
  int32_t (*get_dtype)(TensorHandle, int32_t*);
  int32_t (*get_device_type)(TensorHandle, int32_t*);
  int32_t (*get_device_index)(TensorHandle, int32_t*);
  int32_t (*empty_strided)(int64_t ndim, const int64_t* sizes, const int64_t* strides,
                           int32_t dtype, int32_t device_type, int32_t device_index, TensorHandle*);
  int32_t (*delete_tensor)(TensorHandle);
  int32_t (*library_for_key)(const char* ns, const char* key, const char* file, uint32_t line,
                             LibraryHandle*);
  int32_t (*library_impl)(LibraryHandle, const char* name, BoxedKernel);
  int32_t (*copy)(TensorHandle target, TensorHandle source, int32_t may_return_early);
  bool (*grad_mode_is_enabled)();
  void (*set_grad_mode)(bool);

  const char* (*exception_text)();  // null in older versions
  bool (*is_recording)();           // whether a profiler of this thread records; may be null
  // The handle of the stream in use; null where torch has no CUDA.
  int32_t (*current_cuda_stream)(int32_t device_index, void**);

  int32_t cpu;
  int32_t cuda;
  int32_t dtypes[kDTypeCount];  // torch's numbers, by DType
};

/// Binds the interface of the loaded library at `path`; throws an internal Error.
void load_shim(const std::string& path);

/// The bound interface; throws an internal Error before load_shim.
const Shim& shim();

/// Makes `kernel` the implementation of `ns::name` for a dispatch key.
void implement_operator(const std::string& ns, const std::string& name, const std::string& key,
                        BoxedKernel kernel);

}  // namespace kernelcore::torch
