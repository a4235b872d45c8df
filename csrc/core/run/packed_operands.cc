#include "core/run/packed_operands.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "core/memory/array_view.h"

namespace kernelcore {
namespace {

// Elements at this distance share no cache line. A copy of nearer ones costs as much as this many
// reads by code for any strides.
constexpr int64_t kFarBytes = 64;
constexpr double kNearReads = 2;
// Rows of fewer elements are run together, where their memory is.
constexpr int64_t kMinRowElements = 64;
// Less is copied before another thread has started.
constexpr size_t kMinSharedBytes = size_t{1} << 18;
constexpr int64_t kSharedChunks = 16;

/// An operand as code for packed arrays needs it.
struct Wanted {
  const ParameterSlot& slot;
  const OperandSpec& spec;

  /// How many of the last axes that code takes for an element.
  int element_axes() const {
    auto begin = spec.element.begin();
    return static_cast<int>(std::find(begin, spec.element.end(), 0) - begin);
  }

  /// Whether the last axes of `view` have the extents of such an element.
  bool fits(const ArrayView& view) const {
    int count = element_axes();
    return std::equal(spec.element.begin(), spec.element.begin() + count,
                      view.shape + slot.outer_ndim() - count);
  }

  /// The first axis that has to be packed, with all behind it: the last one before elements.
  int first_packed_axis() const { return std::max(slot.outer_ndim() - 1 - element_axes(), 0); }
};

/// Calls `visit` with each axis that has to be packed and the stride that it needs, last one first.
template <class Visit>
void visit_packed_axes(const Wanted& wanted, const ArrayView& view, Visit visit) {
  auto stride = static_cast<int64_t>(size_bytes(wanted.slot.dtype));
  for (int k = wanted.slot.ndim - 1; k >= wanted.first_packed_axis(); --k) {
    visit(k, stride);
    stride *= view.shape[k];
  }
}

enum class Strides { kPacked, kOfSingleElements, kOther };

/// Whether `view` is packed, or would be with other strides of axes that have one element.
Strides strides_of(const Wanted& wanted, const ArrayView& view) {
  Strides found = Strides::kPacked;
  visit_packed_axes(wanted, view, [&](int axis, int64_t stride) {
    if (view.stride_bytes[axis] == stride) return;
    found = view.shape[axis] > 1 || found == Strides::kOther ? Strides::kOther
                                                             : Strides::kOfSingleElements;
  });
  return found;
}

bool is_repeated(const Wanted& wanted, const ArrayView& view, int axis) {
  int last = wanted.first_packed_axis();
  return axis < last && view.stride_bytes[axis] == 0 && view.shape[last] >= kMinRowElements;
}

/// The elements of `view` that the points of `launch` read.
double reads_of(const Wanted& wanted, const ArrayView& view, const Launch& launch) {
  double reads = static_cast<double>(launch.total) * static_cast<double>(wanted.spec.reads);
  for (int k = 0; k < wanted.slot.outer_ndim(); ++k) {
    if ((wanted.spec.swept_axes >> k & 1) != 0) reads *= static_cast<double>(view.shape[k]);
  }
  return reads;
}

/// The reads that a copy of `view` costs.
double cost_of_copy(const Wanted& wanted, const ArrayView& view) {
  double elements = 1;
  for (int k = 0; k < wanted.slot.outer_ndim(); ++k) {
    if (!is_repeated(wanted, view, k)) elements *= static_cast<double>(view.shape[k]);
  }
  bool is_far = false;
  visit_packed_axes(wanted, view, [&](int axis, int64_t) {
    int64_t stride = std::abs(view.stride_bytes[axis]);
    is_far |= view.shape[axis] > 1 && (stride == 0 || stride >= kFarBytes);
  });
  return is_far ? elements : kNearReads * elements;
}

/// A copy of an array in shares of its first axis.
class CopyRun final : public ChunkedRun {
 public:
  CopyRun(std::byte* target, const ArrayView& source, const Grid* grid, int64_t chunk)
      : ChunkedRun(nullptr, nullptr, grid, source.shape[0], chunk),
        target_(target),
        source_(source),
        row_bytes_(static_cast<int64_t>(source.size_bytes()) / source.shape[0]) {}

 private:
  void run_chunks(Chunks chunks, int64_t) override {
    auto [begin, end] = points_of(chunks);
    ArrayView part = source_;
    part.data = static_cast<std::byte*>(source_.data) + begin * source_.stride_bytes[0];
    part.shape[0] = end - begin;
    copy_to_contiguous(target_ + begin * row_bytes_, part);
  }

  std::byte* target_;
  const ArrayView& source_;
  int64_t row_bytes_;
};

void copy(std::byte* target, const ArrayView& source, Executor& executor) {
  if (source.size_bytes() < kMinSharedBytes || executor.max_threads() == 1) {
    copy_to_contiguous(target, source);
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
    : views_(operands) {
  const LaunchDescriptor& descriptor = operation.descriptor;
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
    Wanted wanted{slot, operation.operands[index]};
    if (!wanted.fits(view)) return;  // No copy makes that code run.
    reads += reads_of(wanted, view, launch);
    Strides strides = strides_of(wanted, view);
    is_packed &= strides == Strides::kPacked;
    if (strides == Strides::kOther) cost += cost_of_copy(wanted, view);
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
  for (const ParameterSlot& slot : descriptor.slots) {
    if (!is_read(slot)) continue;
    auto index = static_cast<size_t>(slot.operand);
    // Without memory the kernel runs its other code.
    if (!pack(slot, operation.operands[index], packed_[index], executor)) return;
  }
  views_ = packed_.get();
}

/// Gives `view` the strides of packed arrays; false if memory is short.
bool PackedOperands::pack(const ParameterSlot& slot, const OperandSpec& spec, ArrayView& view,
                          Executor& executor) {
  Wanted wanted{slot, spec};
  if (strides_of(wanted, view) == Strides::kOther) {
    ArrayView source;
    source.data = view.data;
    source.item_bytes = view.item_bytes;
    source.ndim = 0;
    for (int k = 0; k < view.ndim; ++k) {
      if (is_repeated(wanted, view, k) || view.shape[k] == 1) continue;
      source.shape[source.ndim] = view.shape[k];
      source.stride_bytes[source.ndim++] = view.stride_bytes[k];
    }
    copies_.emplace_back(new (std::nothrow) std::byte[source.size_bytes()]);
    if (copies_.back() == nullptr) return false;
    copy(copies_.back().get(), source, executor);
    view.data = copies_.back().get();
    auto stride = view.item_bytes;
    for (int k = view.ndim - 1; k >= 0; --k) {
      if (is_repeated(wanted, view, k)) continue;
      view.stride_bytes[k] = stride;
      stride *= view.shape[k];
    }
  }
  visit_packed_axes(wanted, view,
                    [&](int axis, int64_t stride) { view.stride_bytes[axis] = stride; });
  return true;
}

}  // namespace kernelcore
