// Runs of functional operations: operands in, results out, whatever the framework.
#pragma once

#include <span>

#include "core/array_view.h"
#include "core/launch.h"

namespace kernelcore {

/// Clears and copies results as their roles demand, fills the argument block and runs.
///
/// `operands` and `results` are indexed by the relocations of `signature`; results are contiguous.
/// The data of a value operand points at its element. Small blocks need no allocation.
void run_functional(const Signature& signature, const ArrayView* operands, const ArrayView* results,
                    Launch& launch, Executor& executor);

}  // namespace kernelcore
