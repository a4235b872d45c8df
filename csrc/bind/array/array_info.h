// The description of a Python array's memory.
#pragma once

#include <cstdint>
#include <memory>

#include "core/memory/array_view.h"
#include "dlpack.h"

namespace kernelcore::bind {

/// What lends memory to arrays and may take it back while they live.
class Lender {
 public:
  virtual ~Lender() = default;

  /// Whether the memory is still what the arrays were made over.
  virtual bool still_lends() const = 0;

  /// What arrays of this lender are when it lends no more, and what to do about it.
  virtual const char* loss() const = 0;
  virtual const char* remedy() const = 0;
};

/// The memory of one array object.
struct ArrayInfo {
  ArrayView view;
  int dtype;  // a DType, or -1 if kernels have no such type
  DLDevice device{kDLCPU, 0};
  bool is_read_only = false;
  bool has_lazy_sign = false;  // a pending negation, such as torch's
  bool is_cut = false;         // the owner's memory ends before the last element
  // The owner's stream on a device, whose queued work may still write the elements; 0: none.
  uintptr_t stream = 0;
  bool is_tied = false;  // the owner queues more work in that stream without synchronizing
  const Lender* lender = nullptr;  // valid while the keeper lives; null: memory that stays

  /// Whether the CPU can access the memory.
  bool is_on_host() const { return device.device_type == kDLCPU || is_pinned(); }

  /// Whether it is pinned host memory, which devices copy from and to asynchronously.
  bool is_pinned() const { return device.device_type == kDLCUDAHost; }

  /// Whether the memory is that of a CUDA device.
  bool is_on_cuda() const {
    return device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged;
  }

  /// Whether CUDA device `ordinal` can access the memory, which may be pinned.
  bool is_reachable_from(int ordinal) const {
    return is_pinned() || device.device_type == kDLCUDAManaged ||
           (device.device_type == kDLCUDA && device.device_id == ordinal);
  }

  /// Whether kernels can use the elements, on the host or on a CUDA device.
  bool is_usable() const { return (is_on_host() || is_on_cuda()) && !has_lazy_sign && dtype >= 0; }
};

/// Keeps memory of another library alive; released with the GIL held.
using Keeper = std::shared_ptr<void>;

/// The device and stream that are about to use memory: the consumer, in the words of DLPack.
struct Consumer {
  int ordinal = -1;      // of a CUDA device; -1: the host
  uintptr_t stream = 0;  // of that device
};

/// Whether extents are not negative and no overflow occurs in counting the bytes of the elements,
/// or in contiguous strides: numel() and set_contiguous() are defined.
bool has_countable_bytes(const ArrayView& view);

/// Whether the addresses of the elements, whose bytes are countable, do not overflow, and that of
/// the first one is not null; true of an array without elements.
bool has_addresses(const ArrayView& view);

/// Whether `view` is well-formed.
inline bool describes_memory(const ArrayView& view) {
  return has_countable_bytes(view) && has_addresses(view);
}

/// Throws an argument Error if `lender`, or that of `info`, has taken the memory back.
void require_lent(const Lender& lender);
void require_memory(const ArrayInfo& info);

}  // namespace kernelcore::bind
