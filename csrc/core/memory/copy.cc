#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/memory/array_view.h"

namespace kernelcore {
namespace {

// Elements of a tile along each axis of a transposed copy: its lines stay in the first cache.
constexpr int64_t kTile = 16;

/// Copies elements of `kBytes` bytes; constant sizes need no call.
template <size_t kBytes>
void copy_elements(std::byte* target, const std::byte* source, int64_t extent, int64_t stride) {
  if (stride == 0) {
    std::byte element[kBytes];
    std::memcpy(element, source, kBytes);
    for (int64_t i = 0; i < extent; ++i) std::memcpy(target + i * kBytes, element, kBytes);
    return;
  }
  for (int64_t i = 0; i < extent; ++i)
    std::memcpy(target + i * kBytes, source + i * stride, kBytes);
}

/// As `copy_elements`, of elements of `item_bytes` bytes: 1, 2, 4 or 8.
void copy_row(std::byte* target, const std::byte* source, int64_t extent, int64_t stride,
              int64_t item_bytes) {
  if (stride == item_bytes) {
    std::memcpy(target, source, static_cast<size_t>(extent * item_bytes));
  } else if (item_bytes == 1) {
    copy_elements<1>(target, source, extent, stride);
  } else if (item_bytes == 2) {
    copy_elements<2>(target, source, extent, stride);
  } else if (item_bytes == 4) {
    copy_elements<4>(target, source, extent, stride);
  } else {
    copy_elements<8>(target, source, extent, stride);
  }
}

/// The axis along which neighbours are adjacent in memory where those along the last axis are not;
/// the last axis if there is none that is as long as a tile.
int narrow_axis(const ArrayView& view) {
  int last = view.ndim - 1;
  int found = last;
  for (int k = 0; k < last; ++k) {
    bool is_narrow = std::abs(view.stride_bytes[k]) < std::abs(view.stride_bytes[found]);
    if (is_narrow && view.stride_bytes[k] != 0 && view.shape[k] >= kTile) found = k;
  }
  return view.shape[last] >= kTile ? found : last;
}

/// Copies an array whose elements are adjacent along axis `narrow`, tile by tile, to memory where
/// they are adjacent along the last one.
void copy_tiles(std::byte* target, const std::byte* source, const ArrayView& view, int narrow) {
  int last = view.ndim - 1;
  int64_t item = view.item_bytes;
  int64_t row_bytes = item;
  for (int k = narrow + 1; k <= last; ++k) row_bytes *= view.shape[k];
  for (int64_t j = 0; j < view.shape[last]; j += kTile) {
    int64_t width = std::min(kTile, view.shape[last] - j);
    for (int64_t i = 0; i < view.shape[narrow]; ++i) {
      copy_row(target + i * row_bytes + j * item,
               source + i * view.stride_bytes[narrow] + j * view.stride_bytes[last], width,
               view.stride_bytes[last], item);
    }
  }
}

/// Copies axis `axis` and those inside it but `narrow` and the last one, of which tiles are copied.
void copy_axis(std::byte* target, const std::byte* source, const ArrayView& view, int axis,
               int narrow) {
  int last = view.ndim - 1;
  if (axis == last) {
    if (narrow != last) return copy_tiles(target, source, view, narrow);
    return copy_row(target, source, view.shape[last], view.stride_bytes[last], view.item_bytes);
  }
  if (axis == narrow) return copy_axis(target, source, view, axis + 1, narrow);
  int64_t step = view.item_bytes;
  for (int k = axis + 1; k <= last; ++k) step *= view.shape[k];
  for (int64_t i = 0; i < view.shape[axis]; ++i) {
    copy_axis(target + i * step, source + i * view.stride_bytes[axis], view, axis + 1, narrow);
  }
}

}  // namespace

void copy_to_contiguous(void* target, const ArrayView& source) {
  if (source.numel() == 0) return;
  if (source.is_contiguous()) {
    std::memcpy(target, source.data, source.size_bytes());
    return;
  }
  copy_axis(static_cast<std::byte*>(target), static_cast<const std::byte*>(source.data), source, 0,
            narrow_axis(source));
}

}  // namespace kernelcore
