// Memory that data arrays own, at addresses that every library takes.
#pragma once

#include <cstddef>
#include <memory>

namespace kernelcore {

/// Zeroed memory at a multiple of 64 bytes, as JAX asks of what it shares; null if there is none.
std::shared_ptr<void> allocate_zeroed(size_t size_bytes);

}  // namespace kernelcore
