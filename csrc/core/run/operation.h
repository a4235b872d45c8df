// A kernel as a pure function: its operands, the shapes of its results, and its grid.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "core/launch_descriptor.h"
#include "core/memory/array_view.h"
#include "core/run/launch.h"

namespace kernelcore {

/// The elements along `axis` of an array that points with one index along `launch_axis` read: from
/// `low` to `high` beyond that index.
struct ReadWindow {
  int launch_axis;
  int axis;
  int64_t low;
  int64_t high;
};

/// An argument: an array, or a number.
struct OperandSpec {
  bool is_array;
  DType dtype;
  int ndim;
  // How many elements a point reads, where it does not loop over whole axes; 0 if that is unknown.
  int64_t reads = 0;
  uint64_t swept_axes = 0;  // bit k: every point loops over axis k
  // The extents along the last axes of what code for packed arrays takes for an element; 0: none.
  std::array<int64_t, 2> element = {0, 0};
  std::vector<ReadWindow> windows = {};  // at most one per axis, in order
};

/// A result, whose extents follow from those of the operands.
struct ResultSpec {
  DType dtype;
  std::vector<DimRule> dims;
};

struct Operation {
  static constexpr size_t kNoParameter = static_cast<size_t>(-1);

  LaunchDescriptor descriptor;
  std::vector<OperandSpec> operands;  // in calling order
  std::vector<ResultSpec> results;    // visible ones first, then hidden ones
  size_t visible_count = 0;
  std::vector<DimRule> grid;  // operands first, then results

  /// Throws an internal Error where slots, rules and specs do not fit each other.
  void validate() const;

  /// The kernel parameter that operand `index` fills, for error messages.
  size_t parameter_of(size_t index) const;

  /// The kernel parameter that writes result `index`.
  size_t parameter_of_result(size_t index) const;

  /// Sets shape and contiguous strides of result `index`, not its data.
  void shape_result(size_t index, const ArrayView* operand_views, ArrayView& result) const;

  /// The launch that the extents of operands and results ask for.
  Launch launch_for(const ArrayView* operand_views, const ArrayView* result_views) const;
};

/// One run, on operands and visible results that have memory; hidden results get their own.
class OperationRun {
 public:
  /// Shapes and allocates the hidden results, in `results` after the visible ones.
  OperationRun(const Operation& operation, const ArrayView* operands, ArrayView* results);

  /// Whether the run may be long or block: the caller should release its locks.
  bool may_block() const {
    return launch_.total > kInlinePoints || operation_.descriptor.may_block;
  }

  void run(Executor& executor);

 private:
  const Operation& operation_;
  const ArrayView* operands_;
  const ArrayView* results_;
  std::vector<std::unique_ptr<std::byte[]>> hidden_;
  Launch launch_;
};

}  // namespace kernelcore
