// Large blocks of memory that a thread keeps from one call of a kernel to the next.
#pragma once

#include <cstddef>

namespace kernelcore {

/// As `aligned_alloc`; a large block may be one that this thread gave back.
void* take_block(size_t alignment, size_t size_bytes) noexcept;

/// As `free`, for any memory of the C library.
void give_block_back(void* block) noexcept;

}  // namespace kernelcore
