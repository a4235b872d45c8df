#include "core/memory/kept_blocks.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

namespace kernelcore {
namespace {

// From here on the C library returns blocks to the system, which clears each page that comes back
// (docs/decisions/317).
constexpr size_t kLeastBytes = size_t{128} << 10;
// A thread holds 16 MB, and the page that the C library adds to a block of that size.
constexpr size_t kMostBytes = (size_t{16} << 20) + (size_t{4} << 10);
// All are looked at for a request.
constexpr size_t kMostBlocks = 4;
// Kernels ask for blocks with this alignment; those that snippets get of malloc() rarely have it.
constexpr size_t kAlignment = 64;

bool is_aligned(const void* block, size_t alignment) {
  return reinterpret_cast<uintptr_t>(block) % alignment == 0;
}

// Without a destructor, so that it can be read when the blocks of the thread are gone.
thread_local bool has_ended = false;

/// The blocks that a thread keeps, in the order in which they came; null behind the last one.
class KeptBlocks {
 public:
  ~KeptBlocks() {
    has_ended = true;
    clear();
  }

  /// The latest block that suits, or null.
  void* take(size_t alignment, size_t size_bytes) {
    for (size_t at = kMostBlocks; at-- > 0;) {
      if (blocks_[at] == nullptr) continue;
      size_t found = malloc_usable_size(blocks_[at]);
      // A small request leaves a large block to those that need one.
      bool suits = size_bytes <= found && found / 2 <= size_bytes;
      if (suits && is_aligned(blocks_[at], alignment)) return remove(at);
    }
    return nullptr;
  }

  /// Keeps a block of this size, in place of the oldest ones if there are too many.
  void keep(void* block, size_t size_bytes) {
    while (blocks_.back() != nullptr || kept_bytes_ + size_bytes > kMostBytes) {
      std::free(remove(0));
    }
    *std::find(blocks_.begin(), blocks_.end(), nullptr) = block;
    kept_bytes_ += size_bytes;
  }

  void clear() {
    while (blocks_.front() != nullptr) std::free(remove(0));
  }

 private:
  void* remove(size_t at) {
    void* block = blocks_[at];
    kept_bytes_ -= malloc_usable_size(block);
    std::rotate(blocks_.begin() + at, blocks_.begin() + at + 1, blocks_.end());
    blocks_.back() = nullptr;
    return block;
  }

  std::array<void*, kMostBlocks> blocks_{};
  size_t kept_bytes_ = 0;
};

thread_local KeptBlocks kept_blocks;

}  // namespace

void* take_block(size_t alignment, size_t size_bytes) noexcept {
  if (has_ended) return std::aligned_alloc(alignment, size_bytes);
  if (void* found = kept_blocks.take(alignment, size_bytes)) return found;
  if (void* made = std::aligned_alloc(alignment, size_bytes)) return made;
  kept_blocks.clear();
  return std::aligned_alloc(alignment, size_bytes);
}

void give_block_back(void* block) noexcept {
  size_t size_bytes = malloc_usable_size(block);
  bool is_large = kLeastBytes <= size_bytes && size_bytes <= kMostBytes;
  if (is_large && is_aligned(block, kAlignment) && !has_ended) {
    kept_blocks.keep(block, size_bytes);
  } else {
    std::free(block);
  }
}

}  // namespace kernelcore
