// The memory from which a kernel reads its arguments; `codegen/abi.py` lays it out.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/launch_descriptor.h"
#include "core/memory/array_view.h"
#include "core/memory/small_buffer.h"

namespace kernelcore {

/// Writes {data, shape[ndim], stride_bytes[ndim]} to the field of an array.
inline void write_array(std::byte* field, const ArrayView& view) {
  std::memcpy(field, &view.data, sizeof(void*));
  auto* words = reinterpret_cast<int64_t*>(field + sizeof(void*));
  for (int k = 0; k < view.ndim; ++k) {
    words[k] = view.shape[k];
    words[view.ndim + k] = view.stride_bytes[k];
  }
}

/// The array that `write_array` wrote to the field of `slot` in `block`.
inline ArrayView read_array(const std::byte* block, const ParameterSlot& slot) {
  ArrayView view;
  view.ndim = slot.ndim;
  view.item_bytes = static_cast<int64_t>(size_bytes(slot.dtype));
  std::memcpy(&view.data, block + slot.offset, sizeof(void*));
  const std::byte* words = block + slot.offset + sizeof(void*);
  size_t row_bytes = sizeof(int64_t) * static_cast<size_t>(slot.ndim);
  std::memcpy(view.shape, words, row_bytes);
  std::memcpy(view.stride_bytes, words + row_bytes, row_bytes);
  return view;
}

/// The argument block of one run, initialised from the descriptor's template; 16-aligned.
class ArgumentBlock {
 public:
  explicit ArgumentBlock(const LaunchDescriptor& descriptor)
      : bytes_(descriptor.block_template.size()) {
    std::ranges::copy(descriptor.block_template, bytes_.data());
  }

  const std::byte* data() { return bytes_.data(); }

  /// The field of `slot`.
  std::byte* field(const ParameterSlot& slot) { return bytes_.data() + slot.offset; }

  /// Writes `view` to the field of `slot`.
  void write(const ParameterSlot& slot, const ArrayView& view) { write_array(field(slot), view); }

 private:
  SmallBuffer<std::byte, 1024> bytes_;  // no allocation for most kernels
};

}  // namespace kernelcore
