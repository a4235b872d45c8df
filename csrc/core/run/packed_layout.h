// The strides of an operand that code for packed arrays asks for, and copies that have them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "core/memory/array_view.h"
#include "core/run/operation.h"

namespace kernelcore {

/// An operand as code for packed arrays needs it: with adjacent components, and adjacent elements
/// along the last other axis. An axis before it may have any stride.
struct PackedLayout {
  const ParameterSlot& slot;
  const OperandSpec& spec;

  enum class Strides { kPacked, kOfSingleElements, kOther };

  /// Whether the last axes of `view` have the extents of what code takes for an element.
  bool fits(const ArrayView& view) const;

  /// Whether `view` is packed, or would be with other strides of axes that have one element.
  Strides strides_of(const ArrayView& view) const;

  /// Whether a copy of `view` keeps the stride 0 of `axis`.
  bool is_repeated(const ArrayView& view, int axis) const;

  /// What of `view` a copy contains: no axis that is repeated, nor one with a single element.
  ArrayView copied_part(const ArrayView& view) const;

  /// Gives `view` the memory `data` and the strides of a copy, whose rows are packed. Returns the
  /// bytes that the copy takes.
  size_t place(ArrayView& view, std::byte* data) const;

  /// The bytes that `view` has at most with the strides of a copy of it, or of a part of it.
  size_t most_bytes(const ArrayView& view) const;

  /// Gives axes of `view` that have one element packed strides; the others have them.
  void pack_single_elements(ArrayView& view) const;

  /// Calls `visit` with each axis that has to be packed and the stride that it needs, last one
  /// first.
  template <class Visit>
  void visit_packed_axes(const ArrayView& view, Visit visit) const {
    auto stride = static_cast<int64_t>(size_bytes(slot.dtype));
    for (int k = slot.ndim - 1; k >= first_packed_axis(); --k) {
      visit(k, stride);
      stride *= view.shape[k];
    }
  }

 private:
  /// How many of the last axes that code takes for an element.
  int element_axes() const {
    auto begin = spec.element.begin();
    return static_cast<int>(std::find(begin, spec.element.end(), 0) - begin);
  }

  /// The first axis that has to be packed, with all behind it: the last one before elements.
  int first_packed_axis() const { return std::max(slot.outer_ndim() - 1 - element_axes(), 0); }
};

}  // namespace kernelcore
