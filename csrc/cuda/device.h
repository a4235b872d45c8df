// One GPU with its primary context, which torch and JAX share.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/launch_descriptor.h"
#include "cuda/driver_table.h"
#include "cuda/released_memory.h"

namespace kernelcore::cuda {

/// A kernel's function in the context of a device.
struct LoadedFunction {
  FunctionHandle handle;
  int max_threads;  // of a block
};

/// Words in pinned memory to which a kernel writes why it failed.
struct StatusWords {
  int64_t* host;
  DevicePointer device;
};

/// A GPU. Lives for ever; all members may be called by several threads.
class Device {
 public:
  /// The GPU `ordinal`, whose context is made at the first call; throws where there is none.
  static Device& get(int ordinal);

  /// The ordinals that `get` has been called with.
  static std::vector<int> known();

  /// Asks the driver for the number of GPUs. Throws if the driver cannot be opened.
  static int count();

  /// 10 * major + minor, as in sm_90, of the GPU `ordinal`, whose context is not made.
  static int compute_capability(int ordinal);

  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  int ordinal() const { return ordinal_; }
  /// The driver that made the device's objects.
  const DriverTable& driver() const { return driver_; }
  ContextHandle context() const { return context_; }
  std::string name() const;
  /// How many threads its processors hold at once.
  int64_t resident_threads() const { return resident_threads_; }

  /// The memory pool of this device's arrays; null if the driver has no pools.
  PoolHandle pool() const { return pool_; }

  /// Memory that is waiting to be freed.
  ReleasedList& released() { return released_; }

  /// Gives `other` direct access to this device's pool where the hardware supports it.
  void share_pool_with(const Device& other);

  /// The function `symbol` of `image`, PTX or a cubin with a zero byte at its end, which is loaded
  /// once per content `key`. Throws an internal Error where the driver refuses it.
  LoadedFunction load(const std::string& key, const std::string& image, const std::string& symbol);

  /// Status words, which `raise_failures` reads for ever; equal kernels share them.
  StatusWords watch(std::shared_ptr<const LaunchDescriptor> descriptor);

  /// Throws the failure of a kernel that has run, if there is one, and clears it.
  void raise_failures();

  /// As `raise_failures`, of one kernel.
  void raise_failure(const StatusWords& words, const LaunchDescriptor& descriptor);

  /// Waits for all work and throws its failures.
  void synchronize();

  /// Waits for all work; the driver's result. Throws no failure of a kernel.
  Result wait(Wait how) const;

 private:
  struct Watch {
    StatusWords words;
    std::shared_ptr<const LaunchDescriptor> descriptor;
  };

  Device(const DriverTable& driver, int ordinal);
  int attribute(int which) const;
  PoolHandle make_pool() const;
  void reserve_heap() const;

  const DriverTable& driver_;
  int ordinal_;
  DeviceHandle handle_ = 0;
  ContextHandle context_ = nullptr;
  PoolHandle pool_ = nullptr;
  int64_t resident_threads_ = 0;
  std::vector<int> sharing_;  // ordinals of those that `share_pool_with` was asked for
  ReleasedList released_;
  std::mutex mutex_;
  std::unordered_map<std::string, LoadedFunction> functions_;  // by key and symbol
  std::vector<Watch> watches_;
  StatusWords next_words_{};
  size_t words_left_ = 0;
};

/// Makes the context of a device current on this thread, and the one before at its end.
class ScopedContext {
 public:
  explicit ScopedContext(const Device& device);
  ~ScopedContext();
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;

 private:
  const DriverTable& driver_;
  bool is_pushed_ = false;
};

/// The ordinal of the device that has the memory at `address`; -1 if CUDA does not know it.
int ordinal_of(const void* address);

/// Forgets all devices and frees their released memory; for tests, before another driver is opened.
void forget_devices();

}  // namespace kernelcore::cuda
