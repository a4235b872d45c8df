// Reads a call of a plan: its buffers, and the grids of its launches.
#pragma once

#include "core/run/launch.h"
#include "xla/ffi/api/c_api.h"
#include "xla/plan.h"

namespace kernelcore::ffi {

/// Fills `views`, indexed by buffer, for all buffers that `plan` uses; throws Error.
void read_buffers(const Plan& plan, const XLA_FFI_CallFrame& frame, ArrayView* views);

/// The grid of `planned`; throws Error.
Launch read_grid(const PlannedLaunch& planned, const XLA_FFI_CallFrame& frame);

}  // namespace kernelcore::ffi
