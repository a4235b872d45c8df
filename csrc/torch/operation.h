// One functional torch operation: its operands, the shapes of its results, and its grid.
#pragma once

#include <memory>
#include <vector>

#include "core/launch_descriptor.h"
#include "core/memory/array_view.h"
#include "core/run/launch.h"

namespace kernelcore::torch {

/// What the operator's schema takes: a tensor, or a Python scalar.
struct OperandSpec {
  bool is_array;
  DType dtype;
  int ndim;
};

/// A result, whose extents follow from those of the operands.
struct ResultSpec {
  DType dtype;
  std::vector<DimRule> dims;
};

struct Operation {
  static constexpr size_t kNoParameter = static_cast<size_t>(-1);

  LaunchDescriptor descriptor;
  std::vector<OperandSpec> operands;  // in schema order
  std::vector<ResultSpec> results;    // visible ones first, then hidden ones
  size_t visible_count = 0;
  std::vector<DimRule> grid;  // operands first, then results

  /// Throws an internal Error where slots, rules and specs do not fit each other.
  void validate() const;

  /// The kernel parameter that operand `index` fills, for error messages.
  size_t parameter_of(size_t index) const;

  /// Sets shape and contiguous strides of result `index`, not its data.
  void shape_result(size_t index, const ArrayView* operand_views, ArrayView& result) const;

  /// The launch that the extents of operands and results ask for.
  Launch launch_for(const ArrayView* operand_views, const ArrayView* result_views) const;
};

/// Memory of the hidden results of one run.
class HiddenResults {
 public:
  /// Shapes and allocates the hidden results of `operation` in `views`.
  HiddenResults(const Operation& operation, const ArrayView* operand_views, ArrayView* views);

 private:
  std::vector<std::unique_ptr<std::byte[]>> memory_;
};

}  // namespace kernelcore::torch
