// What is known of the memory of a Python array.
#pragma once

#include <cstdint>
#include <memory>

#include "core/memory/array_view.h"
#include "dlpack.h"

namespace kernelcore::bind {

/// What was read of one array object.
struct ArrayInfo {
  ArrayView view;
  int dtype;  // a DType, or -1 for one that kernels do not have
  DLDevice device{kDLCPU, 0};
  bool is_read_only = false;
  bool has_lazy_sign = false;  // the elements in memory still have to be negated
  // Of a device: what its owner's stream was given so far may still write the elements. 0: nothing.
  uintptr_t stream = 0;
  bool is_tied = false;  // its owner goes on in that stream without asking

  /// Whether the CPU may touch the memory.
  bool is_on_host() const { return device.device_type == kDLCPU || is_pinned(); }

  /// Whether it is memory of the host that CUDA devices copy from and to without waiting.
  bool is_pinned() const { return device.device_type == kDLCUDAHost; }

  /// Whether the memory is that of a CUDA device.
  bool is_on_cuda() const {
    return device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged;
  }

  /// Whether CUDA device `ordinal` may touch the memory; pinned memory of the host, too.
  bool is_reachable_from(int ordinal) const {
    return is_pinned() || device.device_type == kDLCUDAManaged ||
           (device.device_type == kDLCUDA && device.device_id == ordinal);
  }

  /// Whether kernels can use the elements, on the host or on a CUDA device.
  bool is_usable() const { return (is_on_host() || is_on_cuda()) && !has_lazy_sign && dtype >= 0; }
};

/// Keeps memory of others in place; it is let go with the GIL held.
using Keeper = std::shared_ptr<void>;

/// Where a launch is going to use memory.
struct Place {
  int ordinal = -1;      // of a CUDA device; -1: the host
  uintptr_t stream = 0;  // of that device
};

/// Whether the addresses that `view` reaches are those of memory: they do not wrap around, extents
/// are not negative, and there is an address unless the array is empty.
bool describes_memory(const ArrayView& view);

}  // namespace kernelcore::bind
