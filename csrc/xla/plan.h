// A call site's plan: what its launches need besides the buffers of a call; the store of plans.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_descriptor.h"
#include "cuda/kernel.h"
#include "xla/ffi/api/c_api.h"

namespace kernelcore::ffi {

/// A launch whose geometry is read from the buffers of each call.
///
/// Slots and grid refer to buffers by number: the operands of the call, then its results.
struct PlannedLaunch {
  LaunchDescriptor descriptor;
  std::vector<DimRule> grid;
  std::unique_ptr<cuda::DeviceKernel> kernel;  // null on the CPU: `descriptor` has the address
  int64_t block_threads = 0;                   // on devices; 0: the launcher's choice
};

/// A buffer of the call, and a parameter that says what it must be like.
struct BufferUse {
  size_t buffer;
  size_t launch;
  size_t parameter;
};

/// Launches in order.
struct Plan {
  std::vector<PlannedLaunch> launches;
  std::vector<BufferUse> buffers;  // every buffer that a launch names, once
  size_t buffer_count = 0;         // one more than the last of them
};

/// Builds the plan of a call site; throws Error.
///
/// Attributes of one launch: "key" and "name" strings, "template" bytes, "slots" (9 integers each),
/// "grid" (3 integers per dimension), "accumulated" (10 integers each), "indexed" and "covered"
/// (3 integers per axis), "messages" and "parameters" (UTF-8, each with a zero byte behind it);
/// "object" holds machine code for processes that lack it.
/// Launches on devices have "block_dim", and "image" where the program holds their code. A call of
/// several launches has their number as "steps", and a dictionary of these for each: "step0", ...
Plan make_plan(const XLA_FFI_Attrs& attributes);

/// The plan for `attributes`, made unless a loaded program has it; throws Error.
///
/// A program that calls a kernel in many places reads one plan, which stays in the caches of the
/// processor, where a thousand plans of their own would not.
std::shared_ptr<const Plan> find_or_make_plan(const XLA_FFI_Attrs& attributes);

/// How many plans there are.
size_t count_plans();

}  // namespace kernelcore::ffi
