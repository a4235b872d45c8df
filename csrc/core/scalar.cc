#include "core/scalar.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace kernelcore {
namespace {

static_assert(std::endian::native == std::endian::little);

/// `value` in a format of 16 bits. In one step: rounding to a wider type first would round ties
/// twice.
uint16_t narrowed(double value, int exponent_bits) {
  int fraction_bits = 15 - exponent_bits;
  int bias = (1 << (exponent_bits - 1)) - 1;
  int64_t infinity = ((int64_t{1} << exponent_bits) - 1) << fraction_bits;
  int64_t magnitude = infinity;
  if (std::isnan(value)) {
    magnitude |= int64_t{1} << (fraction_bits - 1);
  } else if (std::isfinite(value)) {
    // Numbers below the smallest exponent have fewer digits; a carry runs into the exponent.
    int exponent = value == 0.0 ? 1 - bias : std::max(std::ilogb(value), 1 - bias);
    int64_t digits = std::llrint(std::ldexp(std::fabs(value), fraction_bits - exponent));
    int64_t first = int64_t{exponent + bias - 1} << fraction_bits;
    magnitude = std::min(first + digits, infinity);
  }
  return static_cast<uint16_t>(magnitude | (std::signbit(value) ? 0x8000 : 0));
}

template <class T>
void store(void* target, T value) {
  std::memcpy(target, &value, sizeof value);
}

}  // namespace

bool holds(DType dtype, int64_t value) {
  auto [name, kind, bytes, exponent_bits] = traits_of(dtype);
  if (kind == ScalarKind::kUInt && value < 0) return false;
  if (bytes == sizeof value) return true;
  int bits = static_cast<int>(8 * bytes) - (kind == ScalarKind::kInt ? 1 : 0);
  int64_t limit = int64_t{1} << bits;
  return value < limit && value >= -limit;
}

int64_t load_integer(DType dtype, const void* source) {
  uint64_t bits = 0;
  std::memcpy(&bits, source, size_bytes(dtype));
  if (traits_of(dtype).kind == ScalarKind::kUInt) return static_cast<int64_t>(bits);
  int unused = 64 - 8 * static_cast<int>(size_bytes(dtype));
  return static_cast<int64_t>(bits << unused) >> unused;
}

void store_integer(DType dtype, uint64_t bits, void* target) {
  std::memcpy(target, &bits, size_bytes(dtype));
}

void store_float(DType dtype, double value, void* target) {
  const DTypeTraits& traits = traits_of(dtype);
  if (traits.size_bytes == sizeof(double)) {
    store(target, value);
  } else if (traits.size_bytes == sizeof(float)) {
    store(target, static_cast<float>(value));
  } else {
    store(target, narrowed(value, traits.exponent_bits));
  }
}

}  // namespace kernelcore
