// Deferred deallocation: memory is freed once no stream or capture uses it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/driver_table.h"

namespace kernelcore::cuda {

class Device;
class Stream;

/// How to wait for a device: kEndsCaptures invalidates active captures, kBesideCaptures is slower.
enum class Wait { kEndsCaptures, kBesideCaptures };

enum class MemoryKind { kPooled, kPlain, kPinned };

/// The data needed to free an allocation.
struct ReleasedMemory {
  MemoryKind kind;
  void* data;
  size_t size_bytes;
  bool is_exported;                            // unknown streams may use it
  std::vector<std::shared_ptr<Stream>> users;  // first the stream that it was allocated in
};

/// Memory of a device that is waiting to be freed. Neither a release nor an allocation invalidates
/// a capture. A release never blocks: it may happen at any time, with the GIL held.
class ReleasedList {
 public:
  /// Frees `memory` in stream order. Defers it while one of its streams captures, while they are
  /// busy if it is pinned, and until the device is idle if it was exported.
  void release(ReleasedMemory memory) noexcept;

  /// Frees everything that is unused; first waits for the device if much memory was exported.
  void free_unused(const Device& device) noexcept;

  /// Waits for `device` and frees everything that no capture uses; the result of waiting.
  Result wait_and_free(const Device& device, Wait how);

 private:
  void retry(std::vector<ReleasedMemory> waiting, bool is_idle) noexcept;
  std::vector<ReleasedMemory> take();

  std::mutex mutex_;
  std::vector<ReleasedMemory> waiting_;
  size_t exported_bytes_ = 0;
};

}  // namespace kernelcore::cuda
