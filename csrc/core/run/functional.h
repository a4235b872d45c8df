// Runs of functional operations: operands in, results out, whatever the framework and the device.
#pragma once

#include "core/memory/array_view.h"
#include "core/run/launch.h"

namespace kernelcore {

/// Memory and launches of one device. Arrays are where the device reaches them.
class Backend {
 public:
  virtual ~Backend() = default;
  /// Zeroes a contiguous array.
  virtual void clear(const ArrayView& array) = 0;
  /// Copies elements to a contiguous array of the same extents.
  virtual void copy(const ArrayView& target, const ArrayView& source) = 0;
  virtual void run(const LaunchDescriptor& descriptor, const std::byte* block, Launch& launch) = 0;
};

/// The CPU, with the threads of an executor.
class HostBackend final : public Backend {
 public:
  explicit HostBackend(Executor& executor) : executor_(executor) {}
  void clear(const ArrayView& array) override;
  void copy(const ArrayView& target, const ArrayView& source) override;
  void run(const LaunchDescriptor& descriptor, const std::byte* block, Launch& launch) override;

 private:
  Executor& executor_;
};

/// Clears and copies results as their roles demand, fills the argument block and runs.
///
/// `operands` and `results` are indexed by the slots of `descriptor`; results are contiguous, and a
/// result that lies in its operand's memory is not copied. The data of a value operand points at
/// its element, in memory of the host. Small blocks need no allocation.
void run_functional(const LaunchDescriptor& descriptor, const ArrayView* operands,
                    const ArrayView* results, Launch& launch, Backend& backend);

}  // namespace kernelcore
