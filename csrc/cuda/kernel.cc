#include "cuda/kernel.h"

#include <algorithm>
#include <limits>

#include "cuda/capture.h"
#include "cuda/memory.h"

namespace kernelcore::cuda {
namespace {

constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();
// Large grids have one thread for kPointsPerThread points (POINTS in codegen/gpu/tiles.py) if their
// blocks fill the device kLeastWaves times all the same: the last ones to run then leave little of
// it idle. Figures: docs/decisions/280.
constexpr int64_t kPointsPerThread = 4;
constexpr int64_t kLeastWaves = 8;

int64_t block_threads(const LaunchDescriptor& descriptor, const LoadedFunction& function,
                      const Geometry& geometry) {
  if (geometry.block_threads == 0) return std::min(kDefaultBlockThreads, function.max_threads);
  if (geometry.block_threads > 0 && geometry.block_threads <= function.max_threads) {
    return geometry.block_threads;
  }
  throw descriptor.launch_error(
      "block_dim: expected 1 to " + std::to_string(function.max_threads) +
          " threads, as many as the registers of the kernel leave, found " +
          std::to_string(geometry.block_threads),
      "leave block_dim out");
}

/// The blocks that `launch` has without a limit.
int64_t block_count(const Device& device, int64_t total, int64_t threads) {
  auto blocks_of = [&](int64_t points) { return (total + points - 1) / points; };
  int64_t few = blocks_of(threads * kPointsPerThread);
  return few * threads >= device.resident_threads() * kLeastWaves ? few : blocks_of(threads);
}

}  // namespace

DeviceKernel::DeviceKernel(const LaunchDescriptor& descriptor, std::string image,
                           std::string symbol)
    : descriptor_(std::make_shared<LaunchDescriptor>(descriptor)),
      image_(std::move(image)),
      symbol_(std::move(symbol)) {}

const DeviceKernel::Placed* DeviceKernel::find(const Device& device) {
  std::lock_guard lock(mutex_);
  for (const auto& [known, placed] : placed_) {
    if (known == &device) return placed.get();
  }
  return nullptr;
}

const DeviceKernel::Placed& DeviceKernel::on(Device& device) {
  if (const Placed* known = find(device)) return *known;
  // Loading may wait for the device, which may wait for work that another thread has yet to queue.
  auto made = std::make_unique<Placed>();
  OutsideCaptures relaxed(device.driver());
  made->function = device.load(descriptor_->key, image_, symbol_);
  made->status = device.watch(descriptor_);
  std::lock_guard lock(mutex_);
  return *placed_.emplace_back(&device, std::move(made)).second;
}

void DeviceKernel::prepare(Device& device) {
  on(device);
}

void DeviceKernel::raise_failure(Device& device) {
  device.raise_failure(on(device).status, *descriptor_);
}

void DeviceKernel::raise_failure(const Stream& stream) {
  Device& device = stream.device();
  const volatile int64_t* status = on(device).status.host;
  if (status[0] != 0 && !stream.is_capturing()) raise_failure(device);
}

void DeviceKernel::launch(const Stream& stream, const void* block, Launch& launch,
                          const Geometry& geometry) {
  if (launch.total == 0) return;
  const Placed& placed = on(stream.device());
  int64_t threads = 1;
  int64_t blocks = 1;
  // One thread runs points that must run in order.
  if (!descriptor_->is_serial) {
    threads = block_threads(*descriptor_, placed.function, geometry);
    int64_t limit = geometry.max_blocks > 0 ? geometry.max_blocks : kMaxBlocks;
    blocks = std::min({block_count(stream.device(), launch.total, threads), limit, kMaxBlocks});
  }
  launch.grid.status = reinterpret_cast<int64_t*>(placed.status.device);
  int64_t begin = 0;
  int64_t end = launch.total;
  void* parameters[] = {const_cast<void*>(block), &launch.grid, &begin, &end};
  ScopedContext current(stream.device());
  check(stream.device().driver().launch_kernel(
            placed.function.handle, static_cast<unsigned>(blocks), 1, 1,
            static_cast<unsigned>(threads), 1, 1, 0, stream.handle(), parameters, nullptr),
        "cuLaunchKernel");
}

void DeviceBackend::clear(const ArrayView& array) {
  fill(stream_, array.data, array.size_bytes(), 0, 1);
}

void DeviceBackend::copy(const ArrayView& target, const ArrayView& source) {
  copy_elements(stream_, target, source);
}

void DeviceBackend::run(const LaunchDescriptor&, const std::byte* block, Launch& launch) {
  kernel_.launch(stream_, block, launch, geometry_);
}

}  // namespace kernelcore::cuda
