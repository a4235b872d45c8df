#include "core/run/packed_operands.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "core/accumulate/own_elements.h"
#include "core/memory/array_view.h"
#include "core/run/chunk_size.h"

namespace kernelcore {
namespace {

// Elements at this distance share no cache line. A copy of nearer ones costs as much as this many
// reads by code for any strides.
constexpr int64_t kFarBytes = 64;
constexpr double kNearReads = 2;
// Less is copied whole, before another thread has started.
constexpr size_t kLeastCutBytes = size_t{1} << 18;
constexpr int64_t kSharedChunks = 16;

/// The elements of `view` that the points of `launch` read.
double reads_of(const PackedLayout& layout, const ArrayView& view, const Launch& launch) {
  double reads = static_cast<double>(launch.total) * static_cast<double>(layout.spec.reads);
  for (int k = 0; k < layout.slot.outer_ndim(); ++k) {
    if ((layout.spec.swept_axes >> k & 1) != 0) reads *= static_cast<double>(view.shape[k]);
  }
  return reads;
}

/// The reads that a copy of `view` costs.
double cost_of_copy(const PackedLayout& layout, const ArrayView& view) {
  double elements = 1;
  for (int k = 0; k < layout.slot.outer_ndim(); ++k) {
    if (!layout.is_repeated(view, k)) elements *= static_cast<double>(view.shape[k]);
  }
  bool is_far = false;
  layout.visit_packed_axes(view, [&](int axis, int64_t) {
    int64_t stride = std::abs(view.stride_bytes[axis]);
    is_far |= view.shape[axis] > 1 && (stride == 0 || stride >= kFarBytes);
  });
  return is_far ? elements : kNearReads * elements;
}

/// A copy of an array in shares of its first axis.
class CopyRun final : public ChunkedRun {
 public:
  CopyRun(const ArrayView& target, const ArrayView& source, const Grid* grid, int64_t chunk)
      : ChunkedRun(nullptr, nullptr, grid, source.shape[0], chunk),
        target_(target),
        source_(source) {}

 private:
  void run_chunks(Chunks chunks, int64_t) override {
    auto [begin, end] = points_of(chunks);
    copy_rows(share_of(target_, begin, end), share_of(source_, begin, end));
  }

  static ArrayView share_of(const ArrayView& view, int64_t begin, int64_t end) {
    ArrayView share = view;
    share.data = static_cast<std::byte*>(view.data) + begin * view.stride_bytes[0];
    share.shape[0] = end - begin;
    return share;
  }

  const ArrayView& target_;
  const ArrayView& source_;
};

void copy_in_shares(const ArrayView& target, const ArrayView& source, Executor& executor) {
  if (source.size_bytes() < kLeastCutBytes || executor.max_threads() == 1) {
    copy_rows(target, source);
    return;
  }
  Grid grid{};
  int64_t chunk = (source.shape[0] + kSharedChunks - 1) / kSharedChunks;
  CopyRun run(target, source, &grid, chunk);
  executor.run(run);
}

}  // namespace

PackedOperands::PackedOperands(const Operation& operation, const ArrayView* operands,
                               const Launch& launch, Executor& executor)
    : views_(operands), windows_(operation.descriptor) {
  const LaunchDescriptor& descriptor = operation.descriptor;
  using Strides = PackedLayout::Strides;
  auto is_read = [](const ParameterSlot& slot) {
    return slot.role == Role::kInput && slot.ndim > 0;
  };
  bool is_packed = true;
  double reads = 0;
  double cost = 0;
  for (const ParameterSlot& slot : descriptor.slots) {
    if (!is_read(slot)) continue;
    auto index = static_cast<size_t>(slot.operand);
    const ArrayView& view = operands[index];
    PackedLayout layout{slot, operation.operands[index]};
    if (!layout.fits(view)) return;  // No copy makes that code run.
    reads += reads_of(layout, view, launch);
    Strides strides = layout.strides_of(view);
    is_packed &= strides == Strides::kPacked;
    if (strides == Strides::kOther) cost += cost_of_copy(layout, view);
  }
  // One operand of other strides keeps the kernel from that code: all are copied, or none.
  if (is_packed || cost > reads) return;
  size_t count = operation.operands.size();
  packed_ = std::make_unique_for_overwrite<ArrayView[]>(count);
  for (size_t i = 0; i < count; ++i) {
    packed_[i].ndim = 0;
    packed_[i].data = operands[i].data;
    if (operation.operands[i].is_array) packed_[i] = operands[i];
  }
  // A launch of one chunk would copy the whole operand, too. Panels are made for the rows of many
  // chunks at once, launches in serial have large chunks, those that divide elements read all
  // operands, and with lanes along another axis a chunk may read any element.
  auto divides = [&](const Accumulated& what) {
    if (!what.can_divide()) return false;
    const ParameterSlot& slot = descriptor.slots[static_cast<size_t>(what.loop_parameter)];
    if (!is_read(slot)) return true;
    int64_t trips = operands[static_cast<size_t>(slot.operand)].shape[what.loop_axis];
    return divided_rows(what, launch, trips) > 0;
  };
  bool may_cut = launch.total > kInlinePoints && descriptor.panel_rows == 0 &&
                 !descriptor.is_serial && !descriptor.runs_along_other_axis(launch.grid) &&
                 std::ranges::none_of(descriptor.accumulated, divides);
  int64_t chunk = may_cut ? points_of_chunk(descriptor, launch) : launch.total;
  for (const ParameterSlot& slot : descriptor.slots) {
    if (!is_read(slot)) continue;
    auto index = static_cast<size_t>(slot.operand);
    PackedLayout layout{slot, operation.operands[index]};
    ArrayView& view = packed_[index];
    bool is_copied = layout.strides_of(view) == Strides::kOther;
    size_t size = is_copied ? layout.copied_part(view).size_bytes() : 0;
    if (may_cut && size >= kLeastCutBytes && OperandWindows::pays(layout, view, launch, chunk)) {
      windows_.add(layout, view);
      continue;
    }
    // Without memory the kernel runs its other code.
    if (is_copied && !copy(layout, view, executor)) return;
    layout.pack_single_elements(view);
  }
  views_ = packed_.get();
}

/// Copies `view` to packed memory; false if memory is short.
bool PackedOperands::copy(const PackedLayout& layout, ArrayView& view, Executor& executor) {
  ArrayView source = layout.copied_part(view);
  size_t size = layout.place(view, nullptr);
  copies_.emplace_back(new (std::nothrow) std::byte[size]);
  view.data = copies_.back().get();
  if (view.data == nullptr) return false;
  copy_in_shares(layout.copied_part(view), source, executor);
  return true;
}

}  // namespace kernelcore
