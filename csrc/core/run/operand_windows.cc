#include "core/run/operand_windows.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/memory/argument_block.h"

namespace kernelcore {
namespace {

constexpr size_t kAlignment = 64;
// How often chunks may copy an element: around their own ones there are some of other chunks.
constexpr double kMostCopied = 1.25;

/// Launch indices from `first` to `last`.
struct IndexRange {
  int64_t first;
  int64_t last;
};

/// Sets `ranges` to launch indices that hold those of the points from `begin` to before `end`.
void find_ranges(const Grid& grid, int64_t begin, int64_t end, IndexRange* ranges) {
  int64_t first = begin;
  int64_t last = end - 1;
  int64_t points = 1;
  for (int64_t extent : grid.dims) points *= extent;
  bool inner_are_whole = false;
  for (int k = 0; k < kMaxGridDims; ++k) {
    points /= grid.dims[k];
    ranges[k] = {0, grid.dims[k] - 1};
    if (inner_are_whole) continue;
    ranges[k] = {first / points, last / points};
    first %= points;
    last %= points;
    inner_are_whole = ranges[k].first != ranges[k].last;
  }
}

/// The part of `view` that points in `ranges` read. Its data is the first element of the part.
ArrayView part_of(const ArrayView& view, const OperandSpec& spec, const IndexRange* ranges) {
  ArrayView part = view;
  for (const ReadWindow& window : spec.windows) {
    const IndexRange& range = ranges[window.launch_axis];
    int64_t extent = view.shape[window.axis];
    int64_t first = std::clamp(range.first + window.low, int64_t{0}, extent);
    int64_t end = std::clamp(range.last + window.high + 1, first, extent);
    part.data = static_cast<std::byte*>(part.data) + first * view.stride_bytes[window.axis];
    part.shape[window.axis] = end - first;
  }
  return part;
}

/// `view` with the memory of `part`, so that its elements that `part` has are at their own indices.
ArrayView around(const ArrayView& part, const ArrayView& view, const OperandSpec& spec,
                 const IndexRange* ranges) {
  ArrayView whole = part;
  auto data = reinterpret_cast<uintptr_t>(part.data);
  std::copy_n(view.shape, view.ndim, whole.shape);
  for (const ReadWindow& window : spec.windows) {
    int64_t extent = view.shape[window.axis];
    int64_t first = std::clamp(ranges[window.launch_axis].first + window.low, int64_t{0}, extent);
    data -= static_cast<uintptr_t>(first * part.stride_bytes[window.axis]);
  }
  whole.data = reinterpret_cast<void*>(data);
  return whole;
}

size_t aligned(size_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

OperandWindows::~OperandWindows() {
  while (unused_ != nullptr) ::operator delete(std::exchange(unused_, unused_->next));
}

bool OperandWindows::pays(const PackedLayout& layout, const ArrayView& view, const Launch& launch,
                          int64_t chunk) {
  if (layout.spec.windows.empty()) return false;
  double most = kMostCopied * static_cast<double>(layout.copied_part(view).numel());
  double copied = 0;
  for (int64_t begin = 0; begin < launch.total; begin += chunk) {
    IndexRange ranges[kMaxGridDims];
    find_ranges(launch.grid, begin, std::min(begin + chunk, launch.total), ranges);
    ArrayView part = part_of(view, layout.spec, ranges);
    copied += static_cast<double>(layout.copied_part(part).numel());
    if (copied > most) return false;
  }
  return true;
}

void OperandWindows::run(KernelFn fn, const void* block, const Grid& grid, int64_t begin,
                         int64_t end) const {
  IndexRange ranges[kMaxGridDims];
  find_ranges(grid, begin, end, ranges);
  size_t block_bytes = descriptor_.block_template.size();
  size_t size = aligned(sizeof(Memory)) + aligned(block_bytes) + kAlignment;
  for (const Operand& operand : operands_) {
    ArrayView part = part_of(operand.view, operand.layout.spec, ranges);
    size += 2 * aligned(operand.size) + aligned(operand.layout.most_bytes(part));
  }
  Memory* memory = take_memory(size);
  if (memory == nullptr) {
    fn(block, &grid, begin, end);
    return;
  }
  auto start = reinterpret_cast<uintptr_t>(memory + 1);
  auto* block_copy = reinterpret_cast<std::byte*>(memory + 1) + (kAlignment - start % kAlignment);
  std::memcpy(block_copy, block, block_bytes);
  std::byte* next = block_copy + aligned(block_bytes);
  for (const auto& [layout, view, whole_size] : operands_) {
    next += aligned(whole_size);
    ArrayView part = part_of(view, layout.spec, ranges);
    ArrayView source = layout.copied_part(part);
    size_t part_size = layout.place(part, next);
    copy_rows(layout.copied_part(part), source);
    write_array(block_copy + layout.slot.offset, around(part, view, layout.spec, ranges));
    next += aligned(part_size) + aligned(whole_size);
  }
  fn(block_copy, &grid, begin, end);
  give_back(memory);
}

OperandWindows::Memory* OperandWindows::take_memory(size_t size) const {
  Memory* found = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (unused_ != nullptr) found = std::exchange(unused_, unused_->next);
  }
  if (found != nullptr && found->size >= size) return found;
  ::operator delete(found);
  found = static_cast<Memory*>(::operator new(size, std::nothrow));
  if (found != nullptr) *found = {nullptr, size};
  return found;
}

void OperandWindows::give_back(Memory* memory) const {
  std::lock_guard lock(mutex_);
  memory->next = std::exchange(unused_, memory);
}

}  // namespace kernelcore
