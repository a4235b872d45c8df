// Launches from Python: arguments are read and checked, then the kernel runs.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "bind/array/array_info.h"
#include "bind/launch/arguments.h"
#include "core/memory/aliasing.h"
#include "core/memory/argument_block.h"
#include "core/run/launch.h"

namespace kernelcore::bind {

/// Rows of integers in one span, as the core parses them.
template <size_t kFields>
std::span<const int64_t> flat(const std::vector<std::array<int64_t, kFields>>& rows) {
  return {rows.empty() ? nullptr : rows[0].data(), rows.size() * kFields};
}

/// How long a launch uses the memory of its arrays.
enum class Use : uint8_t {
  kOnce,  // while the caller holds the arrays
  kKept,  // while the launch lives: the memory that the arrays had when it was made
  // While the launch lives: the memory that the arrays have at each run. Those that `is_followed`
  // are compared, others have to keep their memory.
  kFollowed,
};

/// A launch whose arguments are read and checked.
class PreparedLaunch {
 public:
  /// Takes one argument per parameter: those in `inputs`, then those in `outputs`, either of which
  /// may be null, for `use` by `consumer`. Throws an argument Error.
  PreparedLaunch(const LaunchDescriptor& descriptor, nanobind::handle dims, nanobind::handle inputs,
                 nanobind::handle outputs, Consumer consumer = {}, Use use = Use::kOnce);

  const LaunchDescriptor& descriptor() const { return descriptor_; }
  const std::byte* block() { return block_.data(); }
  const Launch& launch() const { return launch_; }

  /// Whether the arrays that the kernel needs exclusively share no memory.
  bool is_unaliased() { return keeps_noalias(descriptor_, views_.data()); }

  /// Runs on the thread pool and counts the writes, also where the run fails: it has written. Runs
  /// that are long or may block let other Python threads go on. False, and nothing was run, if an
  /// array has other memory than when it was read.
  bool run();

  /// Tells the libraries of the arrays that the kernel writes.
  void note_writes();

  /// Calls `visit` with the object of each array.
  template <class Visit>
  void visit_arrays(Visit visit) {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (descriptor_.slots[i].role != Role::kValue) visit(arguments_[i]);
    }
  }

  /// A stream of another library that may still write an array.
  struct WorkStream {
    uintptr_t handle;
    bool is_tied;  // the library queues more work in it without synchronizing
  };
  const std::vector<WorkStream>& streams() const { return streams_; }

 private:
  void read_array(size_t index, Consumer consumer, Use use);

  const LaunchDescriptor& descriptor_;
  Arguments arguments_;
  ArgumentBlock block_;
  SmallBuffer<ArrayView, 16> views_;  // per parameter; undefined for values
  std::vector<Keeper> keepers_;
  std::vector<std::pair<size_t, const Lender*>> lenders_;  // by parameter, for runs that come later
  std::vector<std::pair<size_t, ArrayInfo>> followed_;     // by parameter
  std::vector<WorkStream> streams_;
  Launch launch_;
};

/// Launches unless `is_unaliased` is false: then nothing was run.
bool launch(const LaunchDescriptor& descriptor, nanobind::handle dims, nanobind::handle inputs,
            nanobind::handle outputs);

/// The memory of the array for parameter `index`, on any device; throws an argument Error if it
/// does not fit.
ArrayView array_span(const LaunchDescriptor& descriptor, size_t index, nanobind::handle object);

}  // namespace kernelcore::bind
