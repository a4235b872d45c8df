// Device memory and pinned host memory, freed in stream order, with copies and fills.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/memory/array_view.h"
#include "cuda/released_memory.h"
#include "cuda/stream.h"

namespace kernelcore::cuda {

/// Memory that kernelcore has allocated. It is freed in the order of its first stream, after the
/// work of all other streams that `note_use` named.
class Allocation {
 public:
  /// Uninitialized memory of `stream`'s device, for use in `stream`; null for no bytes.
  static std::shared_ptr<Allocation> on_device(std::shared_ptr<Stream> stream, size_t bytes);
  /// Pinned host memory, which devices copy from and to asynchronously.
  static std::shared_ptr<Allocation> pinned(Device& device, size_t bytes);

  virtual ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  void* data() const { return data_; }
  /// Records that `stream` uses the memory.
  void note_use(const std::shared_ptr<Stream>& stream);
  /// Records that another library uses the memory, in unknown streams: it is freed after waiting
  /// for the device.
  void note_export() { is_exported_.store(true, std::memory_order_relaxed); }
  /// Makes `stream` wait for all work queued so far in the streams that use the memory.
  void delay(const Stream& stream);

 protected:
  Allocation(std::shared_ptr<Stream> home, MemoryKind kind, size_t bytes)
      : kind_(kind), size_bytes_(bytes) {
    if (home->handle() == kPerThreadStream) note_export();
    users_.push_back(std::move(home));
  }

  MemoryKind kind_;
  size_t size_bytes_;
  void* data_ = nullptr;
  std::atomic<bool> is_exported_{false};
  std::mutex mutex_;
  std::vector<std::shared_ptr<Stream>> users_;  // first the stream that it was allocated in
};

/// Orders work that is about to be queued in `stream` after other users of `allocation`, and keeps
/// the memory until that work is done. In a capture the graph keeps it, and a launch orders it.
void order_use(const std::shared_ptr<Stream>& stream,
               const std::shared_ptr<Allocation>& allocation);

/// Queues a copy of the elements of `source` to those of `target`, which has the same extents. Each
/// is on the device of the stream or on the host.
void copy_elements(const Stream& stream, const ArrayView& target, const ArrayView& source);

/// Queues a copy of adjacent bytes from another device.
void copy_from_peer(const Stream& stream, void* target, Device& peer, const void* source,
                    size_t bytes);

/// Queues filling `bytes` bytes with repetitions of `pattern`, of 1 or 4 bytes.
void fill(const Stream& stream, void* target, size_t bytes, uint32_t pattern, size_t pattern_bytes);

/// Queues writing a few bytes, whose values a captured graph keeps.
void write_now(const Stream& stream, void* target, const std::byte* source, size_t bytes);

/// As `fill`, of a pattern of any size, a few bytes.
void repeat(const Stream& stream, void* target, size_t bytes, std::span<const std::byte> pattern);

}  // namespace kernelcore::cuda
