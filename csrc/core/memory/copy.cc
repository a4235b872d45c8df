#include "core/memory/copy.h"

#include <cstring>

namespace kernelcore {
namespace {

// Copies axis `axis` and those inside it; returns the position after the last element written.
std::byte* copy_axis(std::byte* target, const std::byte* source, const ArrayView& view, int axis,
                     size_t item_bytes) {
  int64_t extent = view.shape[axis];
  int64_t stride = view.stride_bytes[axis];
  if (axis + 1 < view.ndim) {
    for (int64_t i = 0; i < extent; ++i) {
      target = copy_axis(target, source + i * stride, view, axis + 1, item_bytes);
    }
    return target;
  }
  if (stride == static_cast<int64_t>(item_bytes)) {
    size_t bytes = static_cast<size_t>(extent) * item_bytes;
    std::memcpy(target, source, bytes);
    return target + bytes;
  }
  for (int64_t i = 0; i < extent; ++i, target += item_bytes) {
    const std::byte* element = source + i * stride;
    switch (item_bytes) {
      case 1:
        *target = *element;
        break;
      case 2:
        std::memcpy(target, element, 2);
        break;
      case 4:
        std::memcpy(target, element, 4);
        break;
      default:
        std::memcpy(target, element, 8);
    }
  }
  return target;
}

}  // namespace

void copy_to_contiguous(void* target, const ArrayView& source, size_t item_bytes) {
  int64_t numel = source.numel();
  if (numel == 0) return;
  if (source.is_contiguous(item_bytes)) {
    std::memcpy(target, source.data, static_cast<size_t>(numel) * item_bytes);
    return;
  }
  copy_axis(static_cast<std::byte*>(target), static_cast<const std::byte*>(source.data), source, 0,
            item_bytes);
}

void zero_fill(void* target, int64_t numel, size_t item_bytes) {
  if (numel > 0) std::memset(target, 0, static_cast<size_t>(numel) * item_bytes);
}

}  // namespace kernelcore
