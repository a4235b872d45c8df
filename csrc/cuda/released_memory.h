// Memory that nobody refers to any more, freed as soon as that disturbs nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/driver_table.h"

namespace kernelcore::cuda {

class Device;
class Stream;

/// How to wait for a device: in a way that ends what is captured, or one that takes longer.
enum class Wait { kEndsCaptures, kBesideCaptures };

enum class MemoryKind { kPooled, kPlain, kPinned };

/// What has to be known of memory to free it.
struct ReleasedMemory {
  MemoryKind kind;
  void* data;
  size_t size_bytes;
  bool is_exported;                            // streams that nobody knows of may use it
  std::vector<std::shared_ptr<Stream>> users;  // the one that it was allocated in comes first
};

/// What waits to be freed on a device. Neither a release nor an allocation makes a capture fail,
/// and a release waits for nothing: it may come at any time, and with Python's lock.
class ReleasedList {
 public:
  /// Frees `memory` in the order of its streams. Keeps it as long as one of them captures, as the
  /// host's as long as they are busy, and if it was exported until the device was idle.
  void release(ReleasedMemory memory) noexcept;

  /// Frees what can be freed by now; waits for the device first where much was exported.
  void free_unused(const Device& device) noexcept;

  /// Waits for `device` and frees all that no capture needs; what waiting for it gave.
  Result wait_and_free(const Device& device, Wait how);

 private:
  void retry(std::vector<ReleasedMemory> waiting, bool is_idle) noexcept;
  std::vector<ReleasedMemory> take();

  std::mutex mutex_;
  std::vector<ReleasedMemory> waiting_;
  size_t exported_bytes_ = 0;
};

}  // namespace kernelcore::cuda
