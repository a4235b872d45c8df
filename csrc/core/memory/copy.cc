#include "core/memory/copy.h"

#include <cstring>

namespace kernelcore {
namespace {

/// Copies elements of `kBytes` bytes; constant sizes need no call.
template <size_t kBytes>
void copy_elements(std::byte* target, const std::byte* source, int64_t extent, int64_t stride) {
  for (int64_t i = 0; i < extent; ++i)
    std::memcpy(target + i * kBytes, source + i * stride, kBytes);
}

/// Copies axis `axis` and those inside it; returns the position after the last element written.
std::byte* copy_axis(std::byte* target, const std::byte* source, const ArrayView& view, int axis) {
  int64_t extent = view.shape[axis];
  int64_t stride = view.stride_bytes[axis];
  if (axis + 1 < view.ndim) {
    for (int64_t i = 0; i < extent; ++i) {
      target = copy_axis(target, source + i * stride, view, axis + 1);
    }
    return target;
  }
  size_t bytes = static_cast<size_t>(extent * view.item_bytes);
  if (stride == view.item_bytes) {
    std::memcpy(target, source, bytes);
  } else if (view.item_bytes == 1) {
    copy_elements<1>(target, source, extent, stride);
  } else if (view.item_bytes == 2) {
    copy_elements<2>(target, source, extent, stride);
  } else if (view.item_bytes == 4) {
    copy_elements<4>(target, source, extent, stride);
  } else {
    copy_elements<8>(target, source, extent, stride);
  }
  return target + bytes;
}

}  // namespace

void copy_to_contiguous(void* target, const ArrayView& source) {
  if (source.numel() == 0) return;
  if (source.is_contiguous()) {
    std::memcpy(target, source.data, source.size_bytes());
    return;
  }
  copy_axis(static_cast<std::byte*>(target), static_cast<const std::byte*>(source.data), source, 0);
}

}  // namespace kernelcore
