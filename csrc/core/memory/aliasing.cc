#include "core/memory/aliasing.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

namespace kernelcore {
namespace {

/// An array as blocks of adjacent elements at multiples of `period` bytes.
struct Blocks {
  uint64_t size_bytes;
  uint64_t period;  // 0: a single block
};

Blocks blocks_of(const ArrayView& view) {
  Blocks blocks{static_cast<uint64_t>(view.item_bytes), 0};
  bool used[kMaxArrayDims] = {};
  bool has_grown = true;
  while (has_grown) {
    has_grown = false;
    for (int k = 0; k < view.ndim; ++k) {
      auto stride = static_cast<uint64_t>(std::abs(view.stride_bytes[k]));
      if (used[k] || view.shape[k] <= 1 || stride != blocks.size_bytes) continue;
      blocks.size_bytes *= static_cast<uint64_t>(view.shape[k]);
      used[k] = has_grown = true;
    }
  }
  for (int k = 0; k < view.ndim; ++k) {
    if (used[k] || view.shape[k] <= 1) continue;
    auto stride = static_cast<uint64_t>(std::abs(view.stride_bytes[k]));
    blocks.period = std::gcd(blocks.period, stride);
  }
  return blocks;
}

}  // namespace

bool is_distinct(const ArrayView& view) {
  if (view.numel() == 0) return true;
  std::array<std::pair<int64_t, int64_t>, kMaxArrayDims> axes;  // stride and extent
  auto end = axes.begin();
  for (int k = 0; k < view.ndim; ++k) {
    if (view.shape[k] > 1) *end++ = {std::abs(view.stride_bytes[k]), view.shape[k]};
  }
  std::sort(axes.begin(), end);
  // Each stride must exceed the reach of all axes of smaller stride.
  int64_t reach = view.item_bytes;
  for (auto axis = axes.begin(); axis != end; ++axis) {
    if (axis->first < reach) return false;
    reach += (axis->second - 1) * axis->first;
  }
  return true;
}

bool may_overlap(const ArrayView& first, const ArrayView& second) {
  auto [first_begin, first_end] = first.byte_span();
  auto [second_begin, second_end] = second.byte_span();
  if (first_begin >= second_end || second_begin >= first_end) return false;
  Blocks mine = blocks_of(first);
  Blocks theirs = blocks_of(second);
  uint64_t period = std::gcd(mine.period, theirs.period);
  if (period == 0) return true;
  // Both repeat with the period: they are disjoint if their blocks are within one period.
  uint64_t distance = second_begin >= first_begin
                          ? (second_begin - first_begin) % period
                          : (period - (first_begin - second_begin) % period) % period;
  return distance < mine.size_bytes || distance + theirs.size_bytes > period;
}

bool repeats_elements(const ArrayView& view) {
  if (is_distinct(view)) return false;
  for (int k = 0; k < view.ndim; ++k) {
    if (view.shape[k] <= 1) continue;
    int64_t stride = std::abs(view.stride_bytes[k]);
    if (stride == 0) return true;
    for (int j = 0; j < k; ++j) {
      if (view.shape[j] <= 1) continue;
      int64_t other = std::abs(view.stride_bytes[j]);
      int64_t common = std::gcd(stride, other);
      // `other / common` steps along axis k lead as far as `stride / common` along axis j.
      if (other / common < view.shape[k] && stride / common < view.shape[j]) return true;
    }
  }
  return false;
}

bool keeps_noalias(const LaunchDescriptor& descriptor, const ArrayView* views) {
  const std::vector<ParameterSlot>& slots = descriptor.slots;
  for (size_t i : descriptor.noalias) {
    if (!is_distinct(views[i])) return false;
    for (size_t k = 0; k < slots.size(); ++k) {
      bool is_other = k != i && slots[k].role != Role::kValue;
      if (is_other && may_overlap(views[i], views[k])) return false;
    }
  }
  return true;
}

}  // namespace kernelcore
