// Operands of which each call of a kernel gets a packed copy of what its points read.
#pragma once

#include <cstddef>
#include <memory>
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

  /// Adds an operand whose `spec` has windows. `slot` and `spec` have to outlive this.
  void add(const ParameterSlot& slot, const OperandSpec& spec, const ArrayView& view) {
    PackedLayout layout{slot, spec};
    operands_.push_back({layout, view, layout.copied_part(view).size_bytes()});
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
    // Of a packed copy. There are as many bytes on both sides of each window, which nothing uses:
    // by shape and strides the operand reaches into them, and kernels run other code where they see
    // arrays reach into each other.
    size_t size;
  };

  /// Memory for the copies of one call.
  struct Memory {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
  };

  Memory take_memory(size_t size) const;
  void give_back(Memory memory) const;

  const LaunchDescriptor& descriptor_;
  std::vector<Operand> operands_;
  mutable std::mutex mutex_;
  // Of calls that are over.
  mutable std::vector<Memory> unused_;
};

}  // namespace kernelcore
