// The description of a compiled kernel that all launchers use.
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

/// Points of the grid access parameter `parameter` at their own index of grid axis `grid_axis`, on
/// axis `axis` of the array.
struct GridIndexedAxis {
  size_t parameter;
  int axis;
  int grid_axis;
};

/// An array to which a kernel only adds, and whose old elements it does not use.
struct Accumulated {
  size_t parameter;
  // On this axis a point reaches only elements `low` to `high` past its first index; -1: no axis.
  int axis;
  int64_t low;
  int64_t high;
  int64_t weight;      // estimated additions per point; 0: only at the end of a chunk
  bool is_deferrable;  // the kernel reads the bit of this array in Grid::shared
  bool is_gathered;    // the kernel adds one total per element for many rows of a chunk
  // Chunks can divide the elements (bit in Grid::own) where the loop that adds has `least_trips`
  // iterations, as many as axis `loop_axis` of parameter `loop_parameter` has elements; -1: never.
  // They divide rows of elements: one per index on `own_axis` of the grid, or if -1, per iteration.
  int loop_parameter = -1;
  int loop_axis = -1;
  int own_axis = -1;
  int64_t least_trips = 0;

  bool can_divide() const { return loop_parameter >= 0; }
};

/// A compiled kernel with the layout of its argument block; immutable once validated, but for what
/// is counted and measured.
struct LaunchDescriptor {
  std::string name;
  std::string key;
  KernelFn fn = nullptr;  // null: the code is for a device
  int grid_rank = 0;      // 0: the kernel does not use its grid, any rank fits
  std::vector<ParameterSlot> slots;
  std::vector<Parameter> parameters;      // one per slot, or none
  std::vector<std::byte> block_template;  // the argument block before arguments are written
  std::string where;                      // source excerpt of the kernel itself; may be empty
  std::vector<GridIndexedAxis> grid_indexed_axes;  // arrays are at least as large as the grid
  std::vector<GridIndexedAxis> covered_axes;       // arrays are at most as large as the grid
  // Of the kernel's assertions, in order; the message of a check starts with its kind.
  std::vector<std::string> messages;
  // A run of few points may take long: it waits for a pipe's reader, or loops without a bound.
  bool may_block = false;
  std::vector<Accumulated> accumulated;
  // The fewest rows of a grid for which tiles have panels (docs/decisions/283) or are
  // squares (docs/decisions/312); 0: neither.
  int panel_rows = 0;
  // The fewest points a thread of a shared run claims at once (docs/decisions/309); 0: any.
  int points_at_once = 0;
  // Lanes lie along this launch axis in launches whose grid is longer on it than on the last axis,
  // and has at most `other_axis_points` points on that (0: any number); -1: never. Such launches
  // take the points in another order than that of their launch indices.
  int other_axis = -1;
  int64_t other_axis_points = 0;
  std::vector<size_t> noalias;    // parameters of which no other argument may share an element
  std::vector<size_t> stored;     // parameters whose elements threads write without adding
  bool is_serial = false;         // one thread runs all points, in order
  bool flush_denormals = false;   // arithmetic takes subnormal numbers for zeros, and makes zeros
  mutable uint64_t launches = 0;  // guarded by Python's lock
  // Of runs of few points, as `run` keeps them with atomic references: how many there were, and
  // what a point took in one of the last, in nanoseconds.
  mutable uint32_t few_runs = 0;
  mutable int64_t few_point_ns = 0;
  // Of the last run of chunks, kept likewise: how many points it had, and what one of the first
  // chunk took, in picoseconds.
  mutable int64_t timed_points = 0;
  mutable int64_t point_ps = 0;
  // Of the last trial whether several threads pay, kept likewise: how many points and threads the
  // run had, how many threads paid, how many more runs are told so (0 and less: the runs that were
  // told nothing), for how many the answer held (times those threads; below zero if one paid), and
  // what the run took on several threads, if one thread is still to show that it takes less.
  mutable int64_t trial_points = 0;
  mutable int64_t trial_threads = 0;
  mutable int64_t trial_found = 0;
  mutable int64_t trial_runs = 0;
  mutable int64_t trial_span = 0;
  mutable int64_t trial_shared_ns = 0;

  /// Throws an internal Error unless every field lies in the block and in range.
  void validate() const;

  /// Whether the lanes of runs over `grid` lie along `other_axis`.
  bool runs_along_other_axis(const Grid& grid) const;

  /// `what` as runs over `grid` reach it: anywhere, if the first launch index is not the slowest.
  Accumulated reached(const Accumulated& what, const Grid& grid) const;

  /// The name that users gave to parameter `index`.
  std::string parameter_name(size_t index) const;

  /// An argument Error with `problem`, the kernel's location and `help`.
  Error launch_error(const std::string& problem, const std::string& help) const;

  /// The same of argument `index`, with the location of its declaration.
  Error argument_error(size_t index, const std::string& problem, const std::string& help) const;

  /// The Error of a run that left the status `words`.
  Error run_error(std::span<const int64_t, kStatusWords> words) const;

  /// Throws an argument Error unless kernels can index `view`, the array for parameter `index`,
  /// and its last axes are the components of an element. `view` has the right dimensions.
  void check_shape(size_t index, const ArrayView& view) const;
};

// Rows of integers, as Python and XLA hand them over: the fields in their order. Throw on values
// out of range.
inline constexpr size_t kSlotFields = 9;
inline constexpr size_t kDimRuleFields = 3;
inline constexpr size_t kAccumulatedFields = 10;
std::vector<ParameterSlot> parse_slots(std::span<const int64_t> flat);
std::vector<DimRule> parse_dim_rules(std::span<const int64_t> flat);
std::vector<Accumulated> parse_accumulated(std::span<const int64_t> flat);
std::vector<GridIndexedAxis> parse_axes(std::span<const int64_t> flat);

/// "(5, 4)", as Python prints a tuple.
std::string tuple_text(const int64_t* values, int count);
std::string shape_text(const ArrayView& view);

/// "an int32 value", as error messages describe numbers.
std::string value_text(DType dtype);

/// The arrays that a parameter takes, as error messages describe them.
std::string describe_array(const ParameterSlot& slot);

/// "float32 with 1 dimension", as error messages describe arrays.
std::string describe_array(const std::string& dtype, int64_t ndim);

}  // namespace kernelcore
