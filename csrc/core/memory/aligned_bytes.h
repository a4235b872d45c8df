// Memory whose first byte lies on a cache line.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace kernelcore {

inline constexpr std::align_val_t kCacheLine{64};

struct AlignedDelete {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, kCacheLine); }
};

using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

/// Uninitialised memory; null if there is none.
inline AlignedBytes allocate_aligned(size_t size_bytes) {
  return AlignedBytes(
      static_cast<std::byte*>(::operator new[](size_bytes, kCacheLine, std::nothrow)));
}

}  // namespace kernelcore
