// Borrowed strided memory: the one view that all launchers and checks take, and copies of it.
#pragma once

#include <utility>

#include "core/memory/small_buffer.h"
#include "kernelcore/abi.h"

namespace kernelcore {

/// Borrowed strided memory; entries of `shape` and `stride_bytes` past `ndim` are undefined.
struct ArrayView {
  void* data;
  int ndim;
  int64_t item_bytes;
  int64_t shape[kMaxArrayDims];
  int64_t stride_bytes[kMaxArrayDims];

  ArrayView() = default;
  ArrayView(const ArrayView& other) { *this = other; }
  /// Copies the defined entries only: most arrays use a tenth of the dimensions.
  ArrayView& operator=(const ArrayView& other) {
    data = other.data;
    ndim = other.ndim;
    item_bytes = other.item_bytes;
    for (int k = 0; k < other.ndim; ++k) {
      shape[k] = other.shape[k];
      stride_bytes[k] = other.stride_bytes[k];
    }
    return *this;
  }

  int64_t numel() const {
    int64_t n = 1;
    for (int k = 0; k < ndim; ++k) n *= shape[k];
    return n;
  }

  /// Bytes of all elements, without gaps.
  size_t size_bytes() const { return static_cast<size_t>(numel() * item_bytes); }

  /// Sets the strides of row-major contiguous storage.
  void set_contiguous() {
    int64_t stride = item_bytes;
    for (int k = ndim - 1; k >= 0; --k) {
      stride_bytes[k] = stride;
      stride *= shape[k];
    }
  }

  bool is_contiguous() const {
    int64_t stride = item_bytes;
    for (int k = ndim - 1; k >= 0; --k) {
      if (stride_bytes[k] != stride) return false;
      stride *= shape[k];
    }
    return true;
  }

  /// Whether every element is aligned to its size, a power of two, as compiled code assumes.
  bool is_aligned() const {
    auto bits = reinterpret_cast<uintptr_t>(data);
    for (int k = 0; k < ndim; ++k) bits |= static_cast<uintptr_t>(stride_bytes[k]);
    return (bits & static_cast<uintptr_t>(item_bytes - 1)) == 0;
  }

  /// The addresses of the first byte and of the byte after the last one, which are equal if the
  /// view has no element.
  std::pair<uintptr_t, uintptr_t> byte_span() const {
    auto begin = reinterpret_cast<uintptr_t>(data);
    if (numel() == 0) return {begin, begin};
    uintptr_t end = begin + static_cast<uintptr_t>(item_bytes);
    for (int k = 0; k < ndim; ++k) {
      int64_t reach = (shape[k] - 1) * stride_bytes[k];
      (reach < 0 ? begin : end) += static_cast<uintptr_t>(reach);
    }
    return {begin, end};
  }
};

/// The operands or the results of one call.
using ViewBuffer = SmallBuffer<ArrayView, 16>;

/// Array indices in kernels are 32-bit, so every extent must be below this.
inline constexpr int64_t kExtentLimit = int64_t{1} << 31;

/// Copies `source` element by element, in row-major order, to contiguous memory.
void copy_to_contiguous(void* target, const ArrayView& source);

/// Copies `source` to `target`, of the same shape, whose elements are adjacent along its last axis.
void copy_rows(const ArrayView& target, const ArrayView& source);

}  // namespace kernelcore
