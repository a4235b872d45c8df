#include "core/memory/own_memory.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <mutex>

#include "core/fork_mutex.h"

namespace kernelcore {
namespace {

std::mutex g_mutex;
[[maybe_unused]] const bool g_is_registered = is_free_at_fork<g_mutex>();
AllocationCounts g_counts{};

void note_allocation(int64_t size_bytes) {
  std::lock_guard lock(g_mutex);
  ++g_counts.count;
  ++g_counts.live_count;
  g_counts.size_bytes += size_bytes;
  g_counts.live_bytes += size_bytes;
  g_counts.peak_bytes = std::max(g_counts.peak_bytes, g_counts.live_bytes);
}

void note_release(int64_t size_bytes) {
  std::lock_guard lock(g_mutex);
  --g_counts.live_count;
  g_counts.live_bytes -= size_bytes;
}

/// Asks for large pages: streaming kernels then miss the TLB less.
void prefer_large_pages([[maybe_unused]] void* start, [[maybe_unused]] size_t size_bytes) {
#if defined(__linux__)
  constexpr size_t kMinBytes = size_t{4} << 20, kSmallPage = 4096;
  if (size_bytes < kMinBytes) return;
  auto address = reinterpret_cast<uintptr_t>(start);
  uintptr_t first = (address + kSmallPage - 1) / kSmallPage * kSmallPage;
  // A failure is harmless.
  madvise(reinterpret_cast<void*>(first), size_bytes - (first - address), MADV_HUGEPAGE);
#endif
}

}  // namespace

std::shared_ptr<void> allocate_zeroed(size_t size_bytes) {
  constexpr size_t kAlignment = 64;
  if (size_bytes > std::numeric_limits<int64_t>::max() - kAlignment) return nullptr;
  // The system zeroes large memory page by page, when it is touched.
  void* raw = std::calloc(size_bytes + kAlignment, 1);
  if (raw == nullptr) return nullptr;
  prefer_large_pages(raw, size_bytes);
  auto address = reinterpret_cast<uintptr_t>(raw);
  uintptr_t aligned = (address + kAlignment - 1) / kAlignment * kAlignment;
  auto counted_bytes = static_cast<int64_t>(size_bytes);
  note_allocation(counted_bytes);
  return {reinterpret_cast<void*>(aligned), [raw, counted_bytes](void*) {
            std::free(raw);
            note_release(counted_bytes);
          }};
}

AllocationCounts allocation_counts() {
  std::lock_guard lock(g_mutex);
  return g_counts;
}

void restart_peak(int64_t least_bytes) {
  std::lock_guard lock(g_mutex);
  g_counts.peak_bytes = std::max(least_bytes, g_counts.live_bytes);
}

}  // namespace kernelcore
