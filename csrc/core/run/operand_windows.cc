#include "core/run/operand_windows.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/memory/argument_block.h"
#include "core/memory/small_buffer.h"

namespace kernelcore {
namespace {

constexpr size_t kAlignment = 64;

/// Launch indices from `first` to `last`.
struct IndexRange {
  int64_t first;
  int64_t last;
};

/// Sets `ranges` to the launch indices of the points from `begin` to before `end`, or to more.
void find_ranges(const Grid& grid, int64_t begin, int64_t end, IndexRange* ranges) {
  int64_t first = begin;
  int64_t last = end - 1;
  int64_t points = 1;
  for (int64_t extent : grid.dims) points *= extent;
  bool is_whole = false;
  for (int k = 0; k < kMaxGridDims; ++k) {
    points /= grid.dims[k];
    ranges[k] = {0, grid.dims[k] - 1};
    if (is_whole) continue;
    ranges[k] = {first / points, last / points};
    first %= points;
    last %= points;
    is_whole = ranges[k].first != ranges[k].last;
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

void OperandWindows::run(KernelFn fn, const void* block, const Grid& grid, int64_t begin,
                         int64_t end) const {
  IndexRange ranges[kMaxGridDims];
  find_ranges(grid, begin, end, ranges);
  size_t size = kAlignment;
  for (const Operand& operand : operands_) {
    ArrayView part = part_of(operand.view, operand.layout.spec, ranges);
    size += 2 * aligned(operand.size) + aligned(operand.layout.copied_part(part).size_bytes());
  }
  Memory memory = take_memory(size);
  if (memory.bytes == nullptr) {
    fn(block, &grid, begin, end);
    return;
  }
  SmallBuffer<std::byte, 1024> block_copy(descriptor_.block_template.size());
  std::memcpy(block_copy.data(), block, descriptor_.block_template.size());
  auto start = reinterpret_cast<uintptr_t>(memory.bytes.get());
  std::byte* next = memory.bytes.get() + (kAlignment - start % kAlignment);
  for (const auto& [layout, view, whole_size] : operands_) {
    next += aligned(whole_size);
    ArrayView part = part_of(view, layout.spec, ranges);
    ArrayView source = layout.copied_part(part);
    copy_to_contiguous(next, source);
    layout.place(part, next);
    write_array(block_copy.data() + layout.slot.offset, around(part, view, layout.spec, ranges));
    next += aligned(source.size_bytes()) + aligned(whole_size);
  }
  fn(block_copy.data(), &grid, begin, end);
  give_back(std::move(memory));
}

OperandWindows::Memory OperandWindows::take_memory(size_t size) const {
  {
    std::lock_guard lock(mutex_);
    if (!unused_.empty()) {
      Memory memory = std::move(unused_.back());
      unused_.pop_back();
      if (memory.size >= size) return memory;
    }
  }
  return {std::unique_ptr<std::byte[]>(new (std::nothrow) std::byte[size]), size};
}

void OperandWindows::give_back(Memory memory) const {
  std::lock_guard lock(mutex_);
  unused_.push_back(std::move(memory));
}

}  // namespace kernelcore
