// Kernels as devices run them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/run/functional.h"
#include "cuda/stream.h"

namespace kernelcore::cuda {

inline constexpr int kDefaultBlockThreads = 256;

/// Block size and number of blocks; 0 leaves the choice to the launcher.
struct Geometry {
  int64_t block_threads = 0;
  int64_t max_blocks = 0;
};

/// Code for devices with the description of its arguments.
class DeviceKernel {
 public:
  /// `image` is PTX or a cubin that defines `symbol` with the interface of codegen/gpu/ptx.py.
  DeviceKernel(const LaunchDescriptor& descriptor, std::string image, std::string symbol);

  const LaunchDescriptor& descriptor() const { return *descriptor_; }

  /// Loads the code on `device`, as the first launch does.
  void prepare(Device& device);

  /// Throws the failure of an earlier run on `device`, if there is one, and clears it.
  void raise_failure(Device& device);
  /// The same on the device of `stream`, unless the stream is capturing.
  void raise_failure(const Stream& stream);

  /// Queues a run in `stream`. `block` is copied. Throws an Error if it cannot be queued; a failure
  /// of the kernel itself is thrown by the next synchronization of the device.
  void launch(const Stream& stream, const void* block, Launch& launch, const Geometry& geometry);

 private:
  /// The kernel on one device.
  struct Placed {
    LoadedFunction function;
    StatusWords status;
  };

  const Placed* find(const Device& device);
  const Placed& on(Device& device);

  const std::shared_ptr<const LaunchDescriptor> descriptor_;
  const std::string image_;
  const std::string symbol_;
  std::mutex mutex_;
  std::vector<std::pair<Device*, std::unique_ptr<Placed>>> placed_;
};

/// Queues the runs of a kernel in a stream.
class DeviceBackend final : public Backend {
 public:
  DeviceBackend(DeviceKernel& kernel, const Stream& stream, Geometry geometry = {})
      : kernel_(kernel), stream_(stream), geometry_(geometry) {}
  void clear(const ArrayView& array) override;
  void copy(const ArrayView& target, const ArrayView& source) override;
  void run(const LaunchDescriptor& descriptor, const std::byte* block, Launch& launch) override;

 private:
  DeviceKernel& kernel_;
  const Stream& stream_;
  Geometry geometry_;
};

}  // namespace kernelcore::cuda
