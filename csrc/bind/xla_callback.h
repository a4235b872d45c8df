// Python functions as XLA handlers.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

namespace kernelcore::bind {

/// Calls `function(inputs, outputs, attributes, stream, device)` for the XLA call at `frame`.
///
/// A buffer is a tuple of dtype, address and shape. The result is the address of an XLA error, or
/// 0.
uintptr_t run_xla_callback(uintptr_t frame, const nanobind::object& function,
                           bool is_graph_compatible);

}  // namespace kernelcore::bind
