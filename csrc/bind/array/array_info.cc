#include "bind/array/array_info.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace kernelcore::bind {

bool has_countable_bytes(const ArrayView& view) {
  int64_t most_bytes = std::max<int64_t>(view.item_bytes, 1);
  for (int k = 0; k < view.ndim; ++k) {
    int64_t extent = view.shape[k];
    // NumPy, too, refuses empty arrays whose other extents are too large for any memory.
    if (extent < 0 || __builtin_mul_overflow(most_bytes, std::max<int64_t>(extent, 1), &most_bytes))
      return false;
  }
  return true;
}

bool has_addresses(const ArrayView& view) {
  if (view.numel() == 0) return true;
  int64_t low = 0;
  int64_t high = view.item_bytes;
  for (int k = 0; k < view.ndim; ++k) {
    int64_t reach = 0;
    if (__builtin_mul_overflow(view.shape[k] - 1, view.stride_bytes[k], &reach) ||
        __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) {
      return false;
    }
  }
  auto address = reinterpret_cast<uintptr_t>(view.data);
  uintptr_t end = 0;
  // The negation is unsigned: the lowest int64_t has no signed one.
  return address != 0 && address >= -static_cast<uintptr_t>(low) &&
         !__builtin_add_overflow(address, static_cast<uintptr_t>(high), &end) &&
         static_cast<intptr_t>(end) > 0;
}

void require_lent(const Lender& lender) {
  if (lender.still_lends()) return;
  throw Error(ErrorKind::kArgument, std::string("expected an array with memory, found ") +
                                        lender.loss() + "\n  help: " + lender.remedy());
}

void require_memory(const ArrayInfo& info) {
  if (info.lender != nullptr) require_lent(*info.lender);
}

}  // namespace kernelcore::bind
