#include "core/own_memory.h"

#include <cstdint>
#include <cstdlib>
#include <limits>

namespace kernelcore {

std::shared_ptr<void> allocate_zeroed(size_t size_bytes) {
  constexpr size_t kAlignment = 64;
  if (size_bytes > std::numeric_limits<size_t>::max() - kAlignment) return nullptr;
  // The system zeroes large memory page by page, when it is touched.
  void* raw = std::calloc(size_bytes + kAlignment, 1);
  if (raw == nullptr) return nullptr;
  auto address = reinterpret_cast<uintptr_t>(raw);
  uintptr_t aligned = (address + kAlignment - 1) / kAlignment * kAlignment;
  return {reinterpret_cast<void*>(aligned), [raw](void*) { std::free(raw); }};
}

}  // namespace kernelcore
