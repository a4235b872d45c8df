// What the XLA handler knows of one call site.
#pragma once

#include <vector>

#include "core/signature.h"
#include "xla/ffi/api/c_api.h"

namespace kernelcore::ffi {

/// A launch whose geometry is read from the buffers of each call.
struct Plan {
  Signature signature;
  std::vector<DimRule> grid;  // operands first, then results
  int64_t operand_count = 0;  // the buffers that the relocations and the grid name
  int64_t result_count = 0;
};

/// Builds the plan of a call site; throws Error.
///
/// Attributes: "key" and "name" strings, "template" bytes, "relocs" (9 integers each),
/// "grid" (3 integers per dimension) and "messages" (UTF-8, each with a zero byte behind it).
Plan make_plan(const XLA_FFI_Attrs& attributes);

/// The XLA element type of `dtype`.
XLA_FFI_DataType xla_dtype(DType dtype);

}  // namespace kernelcore::ffi
