#include "core/memory/kept_blocks.h"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

namespace kernelcore {
namespace {

// The C library returns large blocks to the system, which clears each page that comes back.
constexpr size_t kLeastBytes = size_t{128} << 10;
constexpr size_t kMostBytes = size_t{16} << 20;
constexpr size_t kMostBlocks = 4;

/// The blocks that a thread keeps, in the order in which they came; null behind the last one.
class KeptBlocks {
 public:
  ~KeptBlocks() {
    for (void* block : blocks_) std::free(block);
  }

  /// A block that suits, or null.
  void* take(size_t alignment, size_t size_bytes) {
    for (size_t at = 0; at < kMostBlocks; ++at) {
      size_t found = malloc_usable_size(blocks_[at]);
      bool suits = size_bytes <= found && found / 2 <= size_bytes;
      if (suits && reinterpret_cast<uintptr_t>(blocks_[at]) % alignment == 0) return remove(at);
    }
    return nullptr;
  }

  /// Keeps a block of this size, in place of the oldest ones if there are too many.
  void keep(void* block, size_t size_bytes) {
    while (blocks_.back() != nullptr ||
           (kept_bytes_ != 0 && kept_bytes_ + size_bytes > kMostBytes)) {
      std::free(remove(0));
    }
    *std::find(blocks_.begin(), blocks_.end(), nullptr) = block;
    kept_bytes_ += size_bytes;
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

void* take_block(size_t alignment, size_t size_bytes) {
  void* found = size_bytes < kLeastBytes ? nullptr : kept_blocks.take(alignment, size_bytes);
  return found != nullptr ? found : std::aligned_alloc(alignment, size_bytes);
}

void give_block_back(void* block) {
  size_t size_bytes = malloc_usable_size(block);
  if (kLeastBytes <= size_bytes && size_bytes <= kMostBytes) {
    kept_blocks.keep(block, size_bytes);
  } else {
    std::free(block);
  }
}

}  // namespace kernelcore
