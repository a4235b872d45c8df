#include "cuda/memory.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "cuda/capture.h"

namespace kernelcore::cuda {
namespace {

constexpr unsigned kPortableMapped = 1U | 2U;

DevicePointer device_pointer(const void* address) {
  return reinterpret_cast<DevicePointer>(address);
}

/// Whether `bytes` bytes at `target` are words that the driver fills.
bool has_whole_words(const void* target, size_t bytes) {
  return (reinterpret_cast<uintptr_t>(target) | bytes) % sizeof(uint32_t) == 0;
}

/// Allocates from the pool; where that has not enough, of what it and others gave back meanwhile.
Result allocate(const Stream& stream, size_t bytes, DevicePointer& found) {
  Device& device = stream.device();
  const DriverTable& driver = device.driver();
  auto once = [&] {
    return driver.allocate_from_pool(&found, bytes, device.pool(), stream.handle());
  };
  Result result = once();
  if (result != kOutOfMemory) return result;
  // What waits beside captures is memory, too.
  bool is_retried = driver.trim_pool(device.pool(), 0) == kSuccess &&
                    device.released().wait_and_free(device, Wait::kBesideCaptures) == kSuccess &&
                    driver.trim_pool(device.pool(), 0) == kSuccess;
  return is_retried ? once() : result;
}

class DeviceMemory final : public Allocation {
 public:
  DeviceMemory(std::shared_ptr<Stream> home, size_t bytes)
      : Allocation(std::move(home), MemoryKind::kPooled, bytes) {
    const Stream& stream = *users_.front();
    Device& device = stream.device();
    ScopedContext current(device);
    if (stream.is_capturing()) {
      throw Error(ErrorKind::kDevice,
                  "an array cannot be allocated in a stream that captures a graph\n  help: make "
                  "arrays before the capture, or in another stream");
    }
    OutsideCaptures relaxed(device.driver());
    device.released().free_unused(device);
    DevicePointer found = 0;
    if (device.pool() != nullptr) {
      check(allocate(stream, bytes, found), "cuMemAllocFromPoolAsync");
    } else {
      kind_ = MemoryKind::kPlain;
      check(device.driver().allocate(&found, bytes), "cuMemAlloc");
    }
    data_ = reinterpret_cast<void*>(found);
  }
};

class PinnedMemory final : public Allocation {
 public:
  PinnedMemory(Device& device, size_t bytes)
      : Allocation(Stream::legacy(device), MemoryKind::kPinned, bytes) {
    ScopedContext current(device);
    OutsideCaptures relaxed(device.driver());
    device.released().free_unused(device);
    check(device.driver().allocate_host(&data_, bytes, kPortableMapped), "cuMemHostAlloc");
  }
};

/// An axis of a copy.
struct Axis {
  int64_t extent;
  int64_t target_stride;
  int64_t source_stride;
};

/// The axes of a copy, longest strides first, with as few of them as describe it.
std::vector<Axis> axes_of(const ArrayView& target, const ArrayView& source) {
  std::vector<Axis> axes;
  for (int k = 0; k < target.ndim; ++k) {
    Axis axis{target.shape[k], target.stride_bytes[k], source.stride_bytes[k]};
    if (axis.extent == 1) continue;
    bool continues = !axes.empty() &&
                     axes.back().target_stride == axis.extent * axis.target_stride &&
                     axes.back().source_stride == axis.extent * axis.source_stride;
    if (continues) {
      axis.extent *= axes.back().extent;
      axes.back() = axis;
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

/// Queues the copies of one strided copy.
class Copier {
 public:
  Copier(const Stream& stream, CopyKind kind) : stream_(stream), kind_(kind) {}

  /// `axes` less those that rows are made of.
  void copy(const Axis* axes, size_t count, std::byte* target, const std::byte* source,
            size_t width, const Axis* rows) {
    if (count == 0) {
      rows == nullptr ? copy_run(target, source, width) : copy_rows(target, source, width, *rows);
      return;
    }
    for (int64_t i = 0; i < axes[0].extent; ++i) {
      copy(axes + 1, count - 1, target + i * axes[0].target_stride,
           source + i * axes[0].source_stride, width, rows);
    }
  }

 private:
  void copy_run(std::byte* target, const std::byte* source, size_t bytes) {
    const DriverTable& driver = stream_.device().driver();
    switch (kind_) {
      case CopyKind::kToDevice:
        check(driver.copy_to_device(device_pointer(target), source, bytes, stream_.handle()),
              "cuMemcpyHtoDAsync");
        break;
      case CopyKind::kToHost:
        check(driver.copy_to_host(target, device_pointer(source), bytes, stream_.handle()),
              "cuMemcpyDtoHAsync");
        break;
      case CopyKind::kOnDevice:
        check(driver.copy_on_device(device_pointer(target), device_pointer(source), bytes,
                                    stream_.handle()),
              "cuMemcpyDtoDAsync");
        break;
    }
  }

  void copy_rows(std::byte* target, const std::byte* source, size_t width, const Axis& rows) {
    // The driver knows rows that go up and do not overlap only.
    auto fits = [width](int64_t stride) { return stride >= static_cast<int64_t>(width); };
    if (!fits(rows.target_stride) || !fits(rows.source_stride)) {
      for (int64_t i = 0; i < rows.extent; ++i) {
        copy_run(target + i * rows.target_stride, source + i * rows.source_stride, width);
      }
      return;
    }
    CopyRows parameters{};
    parameters.source = side(kind_ == CopyKind::kToDevice, source, rows.source_stride);
    parameters.target = side(kind_ == CopyKind::kToHost, target, rows.target_stride);
    parameters.width_bytes = width;
    parameters.height = static_cast<size_t>(rows.extent);
    check(stream_.device().driver().copy_rows(&parameters, stream_.handle()), "cuMemcpy2DAsync");
  }

  static CopySide side(bool is_host, const void* data, int64_t pitch) {
    CopySide side{};
    side.memory_type = is_host ? kHostMemory : kDeviceMemory;
    if (is_host) {
      side.host = data;
    } else {
      side.device = device_pointer(data);
    }
    side.pitch_bytes = static_cast<size_t>(pitch);
    return side;
  }

  const Stream& stream_;
  CopyKind kind_;
};

}  // namespace

std::shared_ptr<Allocation> Allocation::on_device(std::shared_ptr<Stream> stream, size_t bytes) {
  if (bytes == 0) return nullptr;
  return std::make_shared<DeviceMemory>(std::move(stream), bytes);
}

std::shared_ptr<Allocation> Allocation::pinned(Device& device, size_t bytes) {
  return std::make_shared<PinnedMemory>(device, std::max<size_t>(bytes, 1));
}

Allocation::~Allocation() {
  if (data_ == nullptr || is_forked()) return;
  ReleasedList& released = users_.front()->device().released();
  released.release({kind_, data_, size_bytes_, is_exported_, std::move(users_)});
}

void Allocation::note_use(const std::shared_ptr<Stream>& stream) {
  // What it stands for depends on the thread that frees the memory.
  if (stream->handle() == kPerThreadStream) note_export();
  std::lock_guard lock(mutex_);
  bool is_known = std::ranges::any_of(users_, [&](const std::shared_ptr<Stream>& known) {
    return known->handle() == stream->handle() && &known->device() == &stream->device();
  });
  if (!is_known) users_.push_back(stream);
}

void Allocation::delay(const Stream& stream) {
  std::lock_guard lock(mutex_);
  for (const auto& user : users_) stream.wait_for(*user);
}

void order_use(const std::shared_ptr<Stream>& stream,
               const std::shared_ptr<Allocation>& allocation) {
  if (allocation == nullptr) return;
  if (stream->capture() != nullptr) {
    stream->capture()->push_back(allocation);
    return;
  }
  allocation->delay(*stream);
  allocation->note_use(stream);
  if (stream->is_capturing()) keep_in_graph(*stream, allocation);
}

void copy_elements(const Stream& stream, CopyKind kind, const ArrayView& target,
                   const ArrayView& source) {
  if (target.numel() == 0) return;
  ScopedContext current(stream.device());
  std::vector<Axis> axes = axes_of(target, source);
  auto width = static_cast<size_t>(target.item_bytes);
  auto is_adjacent = [&](const Axis& axis) {
    return axis.target_stride == target.item_bytes && axis.source_stride == target.item_bytes;
  };
  if (!axes.empty() && is_adjacent(axes.back())) {
    width *= static_cast<size_t>(axes.back().extent);
    axes.pop_back();
  }
  // The longest axis makes the fewest calls.
  auto longest = std::ranges::max_element(axes, {}, &Axis::extent);
  Axis rows{};
  bool has_rows = longest != axes.end();
  if (has_rows) {
    rows = *longest;
    axes.erase(longest);
  }
  Copier(stream, kind)
      .copy(axes.data(), axes.size(), static_cast<std::byte*>(target.data),
            static_cast<const std::byte*>(source.data), width, has_rows ? &rows : nullptr);
}

void copy_from_peer(const Stream& stream, void* target, Device& peer, const void* source,
                    size_t bytes) {
  const Device& device = stream.device();
  peer.share_pool_with(device);
  ScopedContext current(device);
  check(
      device.driver().copy_to_peer(device_pointer(target), device.context(), device_pointer(source),
                                   peer.context(), bytes, stream.handle()),
      "cuMemcpyPeerAsync");
}

void fill(const Stream& stream, void* target, size_t bytes, uint32_t pattern,
          size_t pattern_bytes) {
  if (bytes == 0) return;
  const DriverTable& driver = stream.device().driver();
  ScopedContext current(stream.device());
  if (pattern_bytes == 1) {
    check(driver.fill_bytes(device_pointer(target), static_cast<unsigned char>(pattern), bytes,
                            stream.handle()),
          "cuMemsetD8Async");
  } else {
    check(driver.fill_words(device_pointer(target), pattern, bytes / 4, stream.handle()),
          "cuMemsetD32Async");
  }
}

void write_now(const Stream& stream, void* target, const std::byte* source, size_t bytes) {
  // A copy from the host would be one from wherever `source` was, each time that a graph runs.
  size_t unit = has_whole_words(target, bytes) ? sizeof(uint32_t) : 1;
  for (size_t begin = 0; begin < bytes;) {
    size_t end = begin + unit;
    while (end < bytes && std::memcmp(source + begin, source + end, unit) == 0) end += unit;
    uint32_t pattern = 0;
    std::memcpy(&pattern, source + begin, unit);
    fill(stream, static_cast<std::byte*>(target) + begin, end - begin, pattern, unit);
    begin = end;
  }
}

void repeat(const Stream& stream, void* target, size_t bytes, std::span<const std::byte> pattern) {
  if (bytes == 0) return;
  bool is_word = pattern.size() == sizeof(uint32_t) && has_whole_words(target, bytes);
  if (pattern.size() == 1 || is_word) {
    uint32_t word = 0;
    std::memcpy(&word, pattern.data(), pattern.size());
    fill(stream, target, bytes, word, pattern.size());
    return;
  }
  write_now(stream, target, pattern.data(), pattern.size());
  const DriverTable& driver = stream.device().driver();
  ScopedContext current(stream.device());
  DevicePointer begin = device_pointer(target);
  for (size_t done = pattern.size(); done < bytes; done *= 2) {
    size_t part = std::min(done, bytes - done);
    check(driver.copy_on_device(begin + done, begin, part, stream.handle()), "cuMemcpyDtoDAsync");
  }
}

}  // namespace kernelcore::cuda
