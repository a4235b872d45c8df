// Runs of functional operations on devices; see core/run/functional.h.
#pragma once

#include "core/memory/array_view.h"
#include "cuda/kernel.h"

namespace kernelcore::cuda {

/// Queues in `stream` the clears and copies of results that their roles demand, and the run.
///
/// `operands` and `results` are as for `run_functional`, in memory of the device. Values are
/// numbers in the template of the argument block, or `has_host_values`, and they are operands in
/// memory of the host: what only the device knows is an array.
void queue_functional(DeviceKernel& kernel, const ArrayView* operands, const ArrayView* results,
                      Launch& launch, const Stream& stream, const Geometry& geometry,
                      bool has_host_values = false);

}  // namespace kernelcore::cuda
