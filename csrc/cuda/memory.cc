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

/// Allocates from the pool; if that is exhausted, again after freeing released memory.
Result allocate(const Stream& stream, size_t bytes, DevicePointer& found) {
  Device& device = stream.device();
  const DriverTable& driver = device.driver();
  auto once = [&] {
    return driver.allocate_from_pool(&found, bytes, device.pool(), stream.handle());
  };
  Result result = once();
  if (result != kOutOfMemory) return result;
  // Released memory may be waiting behind captures.
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
    // Atomic updates of smaller elements exchange the word that an element is in.
    size_t words_bytes = (bytes + sizeof(uint32_t) - 1) / sizeof(uint32_t) * sizeof(uint32_t);
    if (device.pool() != nullptr) {
      check(allocate(stream, words_bytes, found), "cuMemAllocFromPoolAsync");
    } else {
      kind_ = MemoryKind::kPlain;
      check(device.driver().allocate(&found, words_bytes), "cuMemAlloc");
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

/// Queues the copies of one strided copy, with loops over `axes` around rows of `width` bytes.
class Copier {
 public:
  Copier(const Stream& stream, std::span<const Axis> axes, const Axis& rows, size_t width)
      : stream_(stream), axes_(axes), rows_(rows), width_(width) {}

  /// Copies what the axes from `axis` on reach.
  void copy(size_t axis, std::byte* target, const std::byte* source) const {
    if (axis == axes_.size()) return copy_rows(target, source);
    for (int64_t i = 0; i < axes_[axis].extent; ++i) {
      copy(axis + 1, target + i * axes_[axis].target_stride,
           source + i * axes_[axis].source_stride);
    }
  }

 private:
  void copy_rows(std::byte* target, const std::byte* source) const {
    const DriverTable& driver = stream_.device().driver();
    // The driver requires pitches of at least the width.
    auto fits = [this](int64_t stride) { return stride >= static_cast<int64_t>(width_); };
    if (rows_.extent > 1 && fits(rows_.target_stride) && fits(rows_.source_stride)) {
      CopyRows parameters{};
      parameters.source = side(source, rows_.source_stride);
      parameters.target = side(target, rows_.target_stride);
      parameters.width_bytes = width_;
      parameters.height = static_cast<size_t>(rows_.extent);
      check(driver.copy_rows(&parameters, stream_.handle()), "cuMemcpy2DAsync");
      return;
    }
    for (int64_t i = 0; i < rows_.extent; ++i) {
      check(driver.copy(device_pointer(target + i * rows_.target_stride),
                        device_pointer(source + i * rows_.source_stride), width_, stream_.handle()),
            "cuMemcpyAsync");
    }
  }

  static CopySide side(const void* data, int64_t pitch) {
    CopySide side{};
    side.memory_type = kAnyMemory;
    side.device = device_pointer(data);
    side.pitch_bytes = static_cast<size_t>(pitch);
    return side;
  }

  const Stream& stream_;
  const std::span<const Axis> axes_;
  const Axis rows_;
  const size_t width_;
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
  // The handle means another stream on the thread that frees the memory.
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
    stream->capture()->memory.push_back(allocation);
    return;
  }
  allocation->delay(*stream);
  allocation->note_use(stream);
  if (stream->is_capturing()) keep_in_graph(*stream, allocation);
}

void copy_elements(const Stream& stream, const ArrayView& target, const ArrayView& source) {
  if (target.numel() == 0) return;
  ScopedContext current(stream.device());
  std::vector<Axis> axes = axes_of(target, source);
  int64_t width = target.item_bytes;
  if (!axes.empty() && axes.back().target_stride == width && axes.back().source_stride == width) {
    width *= axes.back().extent;
    axes.pop_back();
  }
  // The longest axis makes the fewest calls.
  auto longest = std::ranges::max_element(axes, {}, &Axis::extent);
  Axis rows{1, 0, 0};
  if (longest != axes.end()) {
    rows = *longest;
    axes.erase(longest);
  }
  Copier(stream, axes, rows, static_cast<size_t>(width))
      .copy(0, static_cast<std::byte*>(target.data), static_cast<const std::byte*>(source.data));
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
  // A graph would repeat a copy from the address of `source`, which is gone by then.
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
    check(driver.copy(begin + done, begin, part, stream.handle()), "cuMemcpyAsync");
  }
}

}  // namespace kernelcore::cuda
