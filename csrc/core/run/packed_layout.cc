#include "core/run/packed_layout.h"

namespace kernelcore {
namespace {

// Rows of fewer elements are run together, where their memory is.
constexpr int64_t kMinRowElements = 64;
// Rows of copies that would begin a multiple of this distance apart have a gap of a cache line: the
// lines of a column are then in all sets of a cache, not in a few (decision 310).
constexpr int64_t kCrowdedBytes = 1024;
constexpr int64_t kGapBytes = 64;

}  // namespace

bool PackedLayout::fits(const ArrayView& view) const {
  int count = element_axes();
  return std::equal(spec.element.begin(), spec.element.begin() + count,
                    view.shape + slot.outer_ndim() - count);
}

PackedLayout::Strides PackedLayout::strides_of(const ArrayView& view) const {
  Strides found = Strides::kPacked;
  visit_packed_axes(view, [&](int axis, int64_t stride) {
    if (view.stride_bytes[axis] == stride) return;
    found = view.shape[axis] > 1 || found == Strides::kOther ? Strides::kOther
                                                             : Strides::kOfSingleElements;
  });
  return found;
}

bool PackedLayout::is_repeated(const ArrayView& view, int axis) const {
  int last = first_packed_axis();
  return axis < last && view.stride_bytes[axis] == 0 && view.shape[last] >= kMinRowElements;
}

ArrayView PackedLayout::copied_part(const ArrayView& view) const {
  ArrayView part;
  part.data = view.data;
  part.item_bytes = view.item_bytes;
  part.ndim = 0;
  for (int k = 0; k < view.ndim; ++k) {
    if (is_repeated(view, k) || view.shape[k] == 1) continue;
    part.shape[part.ndim] = view.shape[k];
    part.stride_bytes[part.ndim++] = view.stride_bytes[k];
  }
  return part;
}

size_t PackedLayout::place(ArrayView& view, std::byte* data) const {
  auto stride = view.item_bytes;
  for (int k = view.ndim - 1; k >= 0; --k) {
    if (k + 1 == first_packed_axis() && stride % kCrowdedBytes == 0) stride += kGapBytes;
    if (is_repeated(view, k)) continue;
    view.stride_bytes[k] = stride;
    stride *= view.shape[k];
  }
  view.data = data;
  return static_cast<size_t>(stride);
}

size_t PackedLayout::most_bytes(const ArrayView& view) const {
  ArrayView part = copied_part(view);
  auto rows = part.numel() / std::max<int64_t>(view.shape[first_packed_axis()], 1);
  return part.size_bytes() + static_cast<size_t>(rows * kGapBytes);
}

void PackedLayout::pack_single_elements(ArrayView& view) const {
  visit_packed_axes(view, [&](int axis, int64_t stride) { view.stride_bytes[axis] = stride; });
}

}  // namespace kernelcore
