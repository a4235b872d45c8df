// Plans of all programs that are loaded, one for all call sites that do the same.
#pragma once

#include <memory>

#include "xla/plan.h"

namespace kernelcore::ffi {

/// The plan for `attributes`, made unless a loaded program has it; throws Error.
///
/// A program that calls a kernel in many places reads one plan, which stays in the caches of the
/// processor, where a thousand plans of their own would not.
std::shared_ptr<const Plan> find_or_make_plan(const XLA_FFI_Attrs& attributes);

/// How many plans there are.
size_t count_plans();

}  // namespace kernelcore::ffi
