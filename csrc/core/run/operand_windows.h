// Operands of which each call of a kernel gets a packed copy of what its points read.
#pragma once

#include <cstddef>
#include <mutex>
#include <vector>

#include "core/launch_descriptor.h"
#include "core/memory/array_view.h"
#include "core/run/packed_layout.h"
#include "kernelcore/abi.h"

namespace kernelcore {

/// Copies of a few rows stay in the cache until the kernel reads them; a copy of a whole array goes
/// to memory and back (decision 297 in docs/decisions).
class OperandWindows {
 public:
  /// `descriptor` has to outlive it.
  explicit OperandWindows(const LaunchDescriptor& descriptor) : descriptor_(descriptor) {}

  ~OperandWindows();
  OperandWindows(const OperandWindows&) = delete;
  OperandWindows& operator=(const OperandWindows&) = delete;

  /// Whether the windows of all chunks of `launch` have hardly more elements than a copy of `view`.
  static bool pays(const PackedLayout& layout, const ArrayView& view, const Launch& launch,
                   int64_t chunk);

  /// Adds an operand with windows. What `layout` refers to has to outlive this.
  void add(const PackedLayout& layout, const ArrayView& view) {
    operands_.push_back({layout, view, layout.most_bytes(view)});
  }

  bool is_empty() const { return operands_.empty(); }

  /// Calls `fn` with the points from `begin` to before `end` of a launch and a copy of `block` that
  /// has the windows in place of the operands. Without memory for them `fn` gets `block` itself.
  /// Any thread may call it.
  void run(KernelFn fn, const void* block, const Grid& grid, int64_t begin, int64_t end) const;

 private:
  struct Operand {
    PackedLayout layout;
    ArrayView view;
    // Bytes of a copy of the whole operand at most, and of the unused memory before and behind each
    // window: by its shape and strides the operand reaches into it, and kernels run other code
    // where they see arrays reach into each other.
    size_t size;
  };

  /// The start of memory for one call.
  struct Memory {
    Memory* next;
    size_t size;
  };

  /// At least `size` bytes that no call uses; null if memory is short.
  Memory* take_memory(size_t size) const;
  void give_back(Memory* memory) const;

  const LaunchDescriptor& descriptor_;
  std::vector<Operand> operands_;
  mutable std::mutex mutex_;
  // A list: of calls that are over. Threads must not throw, so nothing here allocates.
  mutable Memory* unused_ = nullptr;
};

}  // namespace kernelcore
