// What a plan needs to know of one call: its buffers, and the grids of its steps.
#pragma once

#include "core/run/launch.h"
#include "xla/ffi/api/c_api.h"
#include "xla/plan.h"

namespace kernelcore::ffi {

/// Reads the buffers that steps of `plan` name to `views`, at their numbers; throws Error.
void read_buffers(const Plan& plan, const XLA_FFI_CallFrame& frame, ArrayView* views);

/// The launch of `step`; throws Error.
Launch read_grid(const Step& step, const XLA_FFI_CallFrame& frame);

}  // namespace kernelcore::ffi
