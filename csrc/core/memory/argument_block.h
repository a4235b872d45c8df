// The memory from which a kernel reads its arguments.
#pragma once

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

/// The argument block of one run, which starts as the descriptor's template; 16-aligned.
class ArgumentBlock {
 public:
  explicit ArgumentBlock(const LaunchDescriptor& descriptor) : bytes_(descriptor.block_bytes) {
    if (descriptor.block_template.empty()) return;
    std::memcpy(bytes_.data(), descriptor.block_template.data(), descriptor.block_bytes);
  }

  const std::byte* data() { return bytes_.data(); }

  /// Where the parameter of `slot` lies.
  std::byte* field(const ParameterSlot& slot) { return bytes_.data() + slot.offset; }

  /// Writes `view` as the parameter of `slot`.
  void write(const ParameterSlot& slot, const ArrayView& view) { write_array(field(slot), view); }

 private:
  SmallBuffer<std::byte, 1024> bytes_;  // no allocation for most kernels
};

}  // namespace kernelcore
