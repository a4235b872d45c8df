#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "core/memory/array_view.h"

namespace kernelcore {
namespace {

// Elements of a tile along each axis of a transposed copy: one or two cache lines of a row.
constexpr int64_t kTile = 16;
// Columns of the copy that are written before the next rows: what tiles prefetch for those is still
// in the second cache then (decision 144 in docs/decisions).
constexpr int64_t kBlockColumns = 512;
constexpr int64_t kRegisterBytes = 16;
// Lines at multiples of this distance are in one set of the first cache (decision 310).
constexpr int64_t kOneSetBytes = 4096;

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

/// Transposes a square of adjacent elements: as many along each axis as a register holds.
template <size_t kBytes>
void transpose_square(std::byte* target, int64_t row_bytes, const std::byte* source,
                      int64_t stride) {
#if defined(__SSE2__)
  auto load = [&](int64_t k) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + k * stride));
  };
  auto store = [&](int64_t k, __m128i value) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(target + k * row_bytes), value);
  };
  if constexpr (kBytes == 8) {
    __m128i a = load(0), b = load(1);
    store(0, _mm_unpacklo_epi64(a, b));
    store(1, _mm_unpackhi_epi64(a, b));
    return;
  }
  __m128i a = load(0), b = load(1), c = load(2), d = load(3);
  __m128i low[] = {_mm_unpacklo_epi32(a, b), _mm_unpacklo_epi32(c, d)};
  __m128i high[] = {_mm_unpackhi_epi32(a, b), _mm_unpackhi_epi32(c, d)};
  store(0, _mm_unpacklo_epi64(low[0], low[1]));
  store(1, _mm_unpackhi_epi64(low[0], low[1]));
  store(2, _mm_unpacklo_epi64(high[0], high[1]));
  store(3, _mm_unpackhi_epi64(high[0], high[1]));
#else
  constexpr int64_t kSide = kRegisterBytes / kBytes;
  for (int64_t i = 0; i < kSide; ++i) {
    for (int64_t k = 0; k < kSide; ++k) {
      std::memcpy(target + i * row_bytes + k * kBytes, source + k * stride + i * kBytes, kBytes);
    }
  }
#endif
}

/// Transposes a tile of adjacent elements, `kTile` along each axis.
template <size_t kBytes>
void transpose_tile(std::byte* target, int64_t row_bytes, const std::byte* source, int64_t stride) {
  constexpr int64_t kSide = kRegisterBytes / kBytes;
  auto transpose_at = [&](int64_t i, int64_t j) {
    transpose_square<kBytes>(target + i * row_bytes + j * kBytes, row_bytes,
                             source + i * kBytes + j * stride, stride);
  };
  // Finish four lines that are read before the next four, or four that are written, whichever share
  // a set of the cache.
  if (row_bytes % kOneSetBytes == 0) {
    for (int64_t i = 0; i < kTile; i += kSide) {
      for (int64_t j = 0; j < kTile; j += kSide) transpose_at(i, j);
    }
  } else {
    for (int64_t j = 0; j < kTile; j += kSide) {
      for (int64_t i = 0; i < kTile; i += kSide) transpose_at(i, j);
    }
  }
}

/// Copies elements that are adjacent along axis `narrow` of `source`, tile by tile, to memory where
/// they are adjacent along the last one. Of the views only shapes and strides count.
void copy_tiles(std::byte* to, const ArrayView& target, const std::byte* from,
                const ArrayView& source, int narrow) {
  int last = source.ndim - 1;
  int64_t item = source.item_bytes;
  int64_t rows = source.shape[narrow];
  int64_t columns = source.shape[last];
  int64_t step = source.stride_bytes[last];
  int64_t row_bytes = target.stride_bytes[narrow];
  bool has_squares = source.stride_bytes[narrow] == item && (item == 4 || item == 8);
  auto copy_tile = [&](int64_t i, int64_t j, int64_t height, int64_t width) {
    std::byte* tile = to + i * row_bytes + j * item;
    const std::byte* read = from + i * source.stride_bytes[narrow] + j * step;
    if (!has_squares || height < kTile || width < kTile) {
      for (int64_t k = 0; k < height; ++k) {
        copy_row(tile + k * row_bytes, read + k * source.stride_bytes[narrow], width, step, item);
      }
      return;
    }
    // Hardware prefetchers do not follow so many rows. A prefetch past the end does no harm.
    for (int64_t k = 0; k < kTile; ++k) __builtin_prefetch(read + k * step + kTile * item);
    if (item == 4) {
      transpose_tile<4>(tile, row_bytes, read, step);
    } else {
      transpose_tile<8>(tile, row_bytes, read, step);
    }
  };
  for (int64_t first = 0; first < columns; first += kBlockColumns) {
    int64_t end = std::min(first + kBlockColumns, columns);
    for (int64_t i = 0; i < rows; i += kTile) {
      for (int64_t j = first; j < end; j += kTile) {
        copy_tile(i, j, std::min(kTile, rows - i), std::min(kTile, columns - j));
      }
    }
  }
}

/// Copies axis `axis` and those inside it but `narrow` and the last one, of which tiles are copied.
void copy_axis(std::byte* to, const ArrayView& target, const std::byte* from,
               const ArrayView& source, int axis, int narrow) {
  int last = source.ndim - 1;
  if (axis == last) {
    if (narrow != last) return copy_tiles(to, target, from, source, narrow);
    return copy_row(to, from, source.shape[last], source.stride_bytes[last], source.item_bytes);
  }
  if (axis == narrow) return copy_axis(to, target, from, source, axis + 1, narrow);
  for (int64_t i = 0; i < source.shape[axis]; ++i) {
    copy_axis(to + i * target.stride_bytes[axis], target, from + i * source.stride_bytes[axis],
              source, axis + 1, narrow);
  }
}

}  // namespace

void copy_rows(const ArrayView& target, const ArrayView& source) {
  if (source.numel() == 0) return;
  if (source.ndim == 0) {
    std::memcpy(target.data, source.data, source.size_bytes());
    return;
  }
  copy_axis(static_cast<std::byte*>(target.data), target,
            static_cast<const std::byte*>(source.data), source, 0, narrow_axis(source));
}

void copy_to_contiguous(void* target, const ArrayView& source) {
  if (source.is_contiguous()) {
    if (source.numel() != 0) std::memcpy(target, source.data, source.size_bytes());
    return;
  }
  ArrayView rows = source;
  rows.data = target;
  rows.set_contiguous();
  copy_rows(rows, source);
}

}  // namespace kernelcore
