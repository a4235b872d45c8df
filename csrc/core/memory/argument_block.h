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

/// The argument block of one run, which starts as the signature's template; 16-aligned.
class ArgumentBlock {
 public:
  explicit ArgumentBlock(const Signature& signature) : bytes_(signature.block_bytes) {
    if (signature.block_template.empty()) return;
    std::memcpy(bytes_.data(), signature.block_template.data(), signature.block_bytes);
  }

  const std::byte* data() { return bytes_.data(); }

  /// Where the parameter of `r` lies.
  std::byte* field(const Relocation& r) { return bytes_.data() + r.offset; }

  /// Writes `view` as the parameter of `r`.
  void write(const Relocation& r, const ArrayView& view) { write_array(field(r), view); }

 private:
  SmallBuffer<std::byte, 1024> bytes_;  // no allocation for most kernels
};

}  // namespace kernelcore
