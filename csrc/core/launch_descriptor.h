// What a launcher knows of a compiled kernel.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/memory/array_view.h"
#include "kernelcore/abi.h"

namespace kernelcore {

/// How error messages speak of a kernel parameter.
struct Parameter {
  std::string name;
  std::string where;  // source excerpt with caret; may be empty
};

/// Every point of the grid accesses parameter `parameter` at its own index of grid axis
/// `grid_axis`, on axis `axis` of the array.
struct GridIndexedAxis {
  size_t parameter;
  int axis;
  int grid_axis;
};

/// An array to which a kernel only adds, and whose old elements it does not use.
struct Accumulated {
  size_t parameter;
  // Axis on which a point reaches only the elements from `low` to `high` after its first index; -1:
  // there is none.
  int axis;
  int64_t low;
  int64_t high;
  int64_t weight;      // additions per point, as far as is known; 0: only at the end of a chunk
  bool is_deferrable;  // the kernel looks at the bit of this array in Grid::shared
};

/// A compiled kernel with the layout of its argument block; immutable once validated.
struct LaunchDescriptor {
  std::string name;
  std::string key;
  KernelFn fn = nullptr;  // null: the code is for a device
  int grid_rank = 0;      // 0: the kernel does not look at its grid, any rank will do
  std::vector<ParameterSlot> slots;
  std::vector<Parameter> parameters;      // one per slot, or none
  std::vector<std::byte> block_template;  // the argument block before arguments are written
  std::string where;                      // source excerpt of the kernel itself; may be empty
  std::vector<GridIndexedAxis> grid_indexed_axes;
  // Of the kernel's assertions, in order; that of an index check starts with the place of the
  // index.
  std::vector<std::string> messages;
  bool may_block = false;  // a run may wait for another thread, such as a pipe's reader
  std::vector<Accumulated> accumulated;
  std::vector<size_t> noalias;  // parameters of which no other argument may share an element
  std::vector<size_t> stored;   // parameters whose elements threads write without adding
  bool is_serial = false;       // one thread runs all points, in order

  /// Throws an internal Error unless every field lies in the block and in range.
  void validate() const;

  /// The name that users gave to parameter `index`.
  std::string parameter_name(size_t index) const;

  /// What is wrong with a launch, where the kernel is defined, and what to do.
  Error launch_error(const std::string& problem, const std::string& help) const;

  /// What is wrong with argument `index`, where it is declared, and what to do.
  Error argument_error(size_t index, const std::string& problem, const std::string& help) const;

  /// Why a run left `words`, the first of which is not zero.
  Error run_error(std::span<const int64_t, kStatusWords> words) const;

  /// Throws an argument Error unless kernels can index `view`, the array for parameter `index`,
  /// and its last axes are the components of an element. `view` has the right dimensions.
  void check_shape(size_t index, const ArrayView& view) const;
};

// Rows of integers, as Python and XLA hand them over: the fields in their order. Throw on values
// out of range.
inline constexpr size_t kSlotFields = 9;
inline constexpr size_t kDimRuleFields = 3;
inline constexpr size_t kAccumulatedFields = 6;
std::vector<ParameterSlot> parse_slots(std::span<const int64_t> flat);
std::vector<DimRule> parse_dim_rules(std::span<const int64_t> flat);
std::vector<Accumulated> parse_accumulated(std::span<const int64_t> flat);

/// "(5, 4)".
std::string shape_text(const ArrayView& view);

/// The arrays that a parameter takes, as error messages describe them.
std::string describe_array(const ParameterSlot& slot);

/// "float32 with 1 dimension", as error messages describe arrays.
std::string describe_array(const std::string& dtype, int64_t ndim);

}  // namespace kernelcore
