#include "bind/array/array_info.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace kernelcore::bind {

bool describes_memory(const ArrayView& view) {
  int64_t low = 0;
  int64_t high = view.item_bytes;
  int64_t most_bytes = std::max<int64_t>(view.item_bytes, 1);
  bool is_empty = false;
  for (int k = 0; k < view.ndim; ++k) {
    int64_t extent = view.shape[k];
    if (extent < 0) return false;
    is_empty |= extent == 0;
    // NumPy, too, refuses empty arrays whose other extents are too large for any memory.
    int64_t reach = 0;
    if (extent == 0) continue;
    if (__builtin_mul_overflow(most_bytes, extent, &most_bytes) ||
        __builtin_mul_overflow(extent - 1, view.stride_bytes[k], &reach) ||
        __builtin_add_overflow(reach < 0 ? low : high, reach, reach < 0 ? &low : &high)) {
      return false;
    }
  }
  if (is_empty) return true;
  auto address = reinterpret_cast<uintptr_t>(view.data);
  uintptr_t end = 0;
  return address != 0 && address >= static_cast<uintptr_t>(-low) &&
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
