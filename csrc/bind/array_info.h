// What is known of the memory of a Python array.
#pragma once

#include <memory>

#include "core/array_view.h"
#include "dlpack.h"

namespace kernelcore::bind {

/// What was read of one array object.
struct ArrayInfo {
  ArrayView view;
  int dtype;           // a DType, or -1 for one that kernels do not have
  int64_t item_bytes;  // of an element, also where kernels do not have it
  DLDevice device;
  bool is_read_only;
  bool has_lazy_sign;  // the elements in memory still have to be negated

  /// Whether the CPU may touch the memory.
  bool is_on_host() const {
    return device.device_type == kDLCPU || device.device_type == kDLCUDAHost;
  }
};

/// Keeps memory of others in place; it is let go with the GIL held.
using Keeper = std::shared_ptr<void>;

/// Whether the addresses that `view` reaches are those of memory: they do not wrap around, extents
/// are not negative, and there is an address unless the array is empty.
bool describes_memory(const ArrayView& view, int64_t item_bytes);

}  // namespace kernelcore::bind
