// Scalars by value: from wide C++ numbers to the bytes of a DType.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernelcore/abi.h"

namespace kernelcore {

/// Whether the integer type `dtype` holds `value`.
bool holds(DType dtype, int64_t value);

/// The integer of type `dtype` at `source`.
int64_t load_integer(DType dtype, const void* source);

/// Writes as many low bytes of `bits` as `dtype`, an integer type or bool, has.
void store_integer(DType dtype, uint64_t bits, void* target);

/// Writes `value`, rounded to the nearest number of the float type `dtype`, ties to even.
void store_float(DType dtype, double value, void* target);

}  // namespace kernelcore
