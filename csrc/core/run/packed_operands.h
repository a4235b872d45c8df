// Operands in the strides that a kernel's fastest code asks for.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/memory/array_view.h"
#include "core/run/launch.h"
#include "core/run/operand_windows.h"
#include "core/run/operation.h"
#include "core/run/packed_layout.h"

namespace kernelcore {

/// Copies of those operands whose strides would keep the kernel from its code for packed arrays, if
/// the kernel reads their elements often enough (decision 128 in docs/decisions).
///
/// Code for packed arrays needs adjacent components, and adjacent elements along the last other
/// axis. An axis before it may have any stride: one of stride 0 is not copied out. Large operands
/// that points read at their launch indices are copied part by part.
class PackedOperands {
 public:
  /// `operands` has to outlive it.
  PackedOperands(const Operation& operation, const ArrayView* operands, const Launch& launch,
                 Executor& executor);

  /// The operands to run the kernel on, indexed as those that were given.
  const ArrayView* views() const { return views_; }

  /// The operands among them that each call of the kernel copies for its points; null: none.
  const OperandWindows* windows() const {
    return views_ == packed_.get() && !windows_.is_empty() ? &windows_ : nullptr;
  }

 private:
  bool copy(const PackedLayout& wanted, ArrayView& view, Executor& executor);

  const ArrayView* views_;
  std::unique_ptr<ArrayView[]> packed_;
  std::vector<std::unique_ptr<std::byte[]>> copies_;
  OperandWindows windows_;
};

}  // namespace kernelcore
