// What the XLA handler knows of one call site.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch_descriptor.h"
#include "xla/ffi/api/c_api.h"

namespace kernelcore::ffi {

/// A launch whose geometry is read from the buffers of each call.
///
/// Relocations and grid name buffers: first the operands of the call, then its results.
struct Step {
  LaunchDescriptor descriptor;
  std::vector<DimRule> grid;
  std::shared_ptr<const std::string> image;  // code for devices; null: `descriptor` has the address
  int64_t block_threads = 0;                 // on devices; 0: the launcher's choice
};

/// A buffer of the call, and a parameter that says what it must be like.
struct BufferUse {
  size_t buffer;
  size_t step;
  size_t parameter;
};

/// Launches in order.
struct Plan {
  virtual ~Plan() = default;

  std::vector<Step> steps;
  std::vector<BufferUse> buffers;  // every buffer that a step names, once
  size_t buffer_count = 0;         // one more than the last of them
};

/// Builds the plan of a call site; throws Error.
///
/// Attributes of one step: "key" and "name" strings, "template" bytes, "slots" (9 integers each),
/// "grid" (3 integers per dimension), "accumulated" (6 integers each) and "messages" (UTF-8, each
/// with a zero byte behind it); there may be "object", machine code for where there is none. Steps
/// for devices have "block_dim", and there may be "image", their code. Several steps are
/// dictionaries of these, "step0" and so on, and their number "steps".
Plan make_plan(const XLA_FFI_Attrs& attributes);

/// The XLA element type of `dtype`.
XLA_FFI_DataType xla_dtype(DType dtype);

}  // namespace kernelcore::ffi
