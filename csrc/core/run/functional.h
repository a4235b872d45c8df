// Runs of functional operations: operands in, results out, whatever the framework.
#pragma once

#include <span>

#include "core/memory/array_view.h"
#include "core/run/launch.h"

namespace kernelcore {

/// What a result holds when the kernel starts.
enum class Start : uint8_t { kAnything, kZeros, kOperand };

/// The start of the result of `slot`. A framework that lets it reuse the operand's memory has made
/// the copy already.
Start start_of(const LaunchDescriptor& descriptor, const ParameterSlot& slot,
               const ArrayView* operands, const Launch& launch, const ArrayView& result);

/// Clears and copies results as their roles demand, fills the argument block and runs.
///
/// `operands` and `results` are indexed by the slots of `descriptor`; results are contiguous.
/// The data of a value operand points at its element. Small blocks need no allocation.
void run_functional(const LaunchDescriptor& descriptor, const ArrayView* operands,
                    const ArrayView* results, Launch& launch, Executor& executor);

}  // namespace kernelcore
