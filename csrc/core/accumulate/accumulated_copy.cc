#include "core/accumulate/accumulated_copy.h"

#include <algorithm>
#include <type_traits>

#include "core/error.h"

namespace kernelcore {
namespace {

constexpr size_t kMaxChunkCopyBytes = size_t{4} << 20;

/// Grid points per value of the first index.
int64_t points_per_row(const Grid& grid) {
  int64_t points = 1;
  for (int k = 1; k < kMaxGridDims; ++k) points *= grid.dims[k];
  return points;
}

// For floats -0.0: adding 0.0 would turn an element of -0.0 into 0.0.
template <class T>
constexpr T neutral() {
  return std::is_floating_point_v<T> ? static_cast<T>(-0.0) : T{0};
}

template <class T>
void merge_row(std::byte* target, int64_t stride_bytes, T* copy, int64_t count) {
  auto merge = [copy](T& element, int64_t i) {
    element = static_cast<T>(element + copy[i]);
    copy[i] = neutral<T>();
  };
  if (stride_bytes == static_cast<int64_t>(sizeof(T))) {
    T* packed = reinterpret_cast<T*>(target);
    for (int64_t i = 0; i < count; ++i) merge(packed[i], i);
  } else {
    for (int64_t i = 0; i < count; ++i) {
      merge(*reinterpret_cast<T*>(target + i * stride_bytes), i);
    }
  }
}

/// Merges the axes from `axis` on; returns the position after the last element read from `copy`.
template <class T>
T* merge_axes(const ArrayView& part, int axis, std::byte* target, T* copy) {
  if (axis == part.ndim) {
    merge_row(target, sizeof(T), copy, 1);
    return copy + 1;
  }
  int64_t count = part.shape[axis];
  if (axis == part.ndim - 1) {
    merge_row(target, part.stride_bytes[axis], copy, count);
    return copy + count;
  }
  for (int64_t i = 0; i < count; ++i) {
    copy = merge_axes(part, axis + 1, target + i * part.stride_bytes[axis], copy);
  }
  return copy;
}

/// Calls `visit` with a zero of the type in which elements of `dtype` are added.
template <class Visit>
void with_type(DType dtype, Visit visit) {
  bool is_float = traits_of(dtype).kind == ScalarKind::kFloat;
  switch (size_bytes(dtype)) {
    case 1:
      return visit(uint8_t{});
    case 2:
      if (is_float) break;
      return visit(uint16_t{});
    case 4:
      return is_float ? visit(float{}) : visit(uint32_t{});
    case 8:
      return is_float ? visit(double{}) : visit(uint64_t{});
  }
  throw Error(ErrorKind::kInternal, std::string("no copies of arrays of ") + name_of(dtype));
}

}  // namespace

std::optional<size_t> end_of_copy(const Accumulated& what, DType dtype, int64_t elements,
                                  int64_t points, size_t bytes) {
  size_t end = bytes + aligned(static_cast<size_t>(elements) * size_bytes(dtype));
  bool pays = elements <= what.weight * points && end <= kMaxChunkCopyBytes;
  return pays ? std::optional(end) : std::nullopt;
}

ArrayView reachable_part(const Accumulated& what, const ArrayView& view, const Grid& grid,
                         int64_t begin, int64_t end) {
  ArrayView part = view;
  if (what.axis < 0) return part;
  int64_t row = points_per_row(grid);
  int64_t extent = view.shape[what.axis];
  int64_t first = std::clamp<int64_t>(begin / row + what.low, 0, extent);
  int64_t last = std::clamp<int64_t>((end - 1) / row + what.high + 1, first, extent);
  part.shape[what.axis] = last - first;
  part.data = static_cast<std::byte*>(view.data) + first * view.stride_bytes[what.axis];
  return part;
}

int64_t most_reachable(const Accumulated& what, const ArrayView& view, const Grid& grid,
                       int64_t points) {
  ArrayView part = view;
  if (what.axis >= 0) {
    int64_t rows = (points - 1) / points_per_row(grid) + 2 + what.high - what.low;
    part.shape[what.axis] = std::min(rows, view.shape[what.axis]);
  }
  return part.numel();
}

int64_t first_apart(const Grid& grid, int64_t begin, int64_t rows) {
  constexpr int64_t kMostLanes = 64;
  int64_t row = points_per_row(grid);
  int64_t point = ((begin - 1) / row + 1 + rows) * row;
  return row == 1 ? (point + kMostLanes - 1) / kMostLanes * kMostLanes : point;
}

ArrayView redirected(const ArrayView& view, const ArrayView& part, void* copy) {
  ArrayView seen = part;
  seen.set_contiguous();
  auto address = reinterpret_cast<uintptr_t>(copy);
  for (int k = 0; k < view.ndim; ++k) {
    if (view.shape[k] == part.shape[k]) continue;
    int64_t offset_bytes = static_cast<std::byte*>(part.data) - static_cast<std::byte*>(view.data);
    // With stride 0 all elements are the same one.
    int64_t first = view.stride_bytes[k] == 0 ? 0 : offset_bytes / view.stride_bytes[k];
    address -= static_cast<uintptr_t>(first * seen.stride_bytes[k]);
    seen.shape[k] = view.shape[k];
  }
  seen.data = reinterpret_cast<void*>(address);
  return seen;
}

void clear_copy(DType dtype, void* copy, int64_t count) {
  with_type(dtype, [&](auto number) {
    using T = decltype(number);
    std::fill_n(static_cast<T*>(copy), count, neutral<T>());
  });
}

void merge_copy(DType dtype, const ArrayView& part, void* copy) {
  if (part.numel() == 0) return;
  with_type(dtype, [&](auto number) {
    using T = decltype(number);
    if (part.is_contiguous()) {
      merge_row(static_cast<std::byte*>(part.data), sizeof(T), static_cast<T*>(copy), part.numel());
    } else {
      merge_axes(part, 0, static_cast<std::byte*>(part.data), static_cast<T*>(copy));
    }
  });
}

}  // namespace kernelcore
