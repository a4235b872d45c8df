// The binary interface between compiled kernels and everything that launches them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kernelcore {

inline constexpr int kMaxGridDims = 8;
inline constexpr int kMaxArrayDims = 12;

/// Extents of a launch; unused ones are 1. A kernel that fails writes nonzero to `*status`.
struct Grid {
  int64_t dims[kMaxGridDims];
  int64_t* status;
};

/// Runs the grid points whose row-major index lies in [begin, end).
using KernelFn = void (*)(const void* args, const Grid* grid, int64_t begin, int64_t end);

/// Element types, numbered as kernelcore.types.SCALARS is.
enum class DType : uint8_t { kBool, kInt32, kInt64, kFloat32, kFloat64 };
inline constexpr int kDTypeCount = 5;

/// Bytes of one element of `dtype`.
constexpr size_t size_bytes(DType dtype) {
  constexpr size_t kSizes[kDTypeCount] = {1, 4, 8, 4, 8};
  return kSizes[static_cast<size_t>(dtype)];
}

/// The dtype as users write it.
constexpr const char* name_of(DType dtype) {
  constexpr const char* kNames[kDTypeCount] = {"bool", "int32", "int64", "float32", "float64"};
  return kNames[static_cast<size_t>(dtype)];
}

/// What a kernel parameter is to a functional operation.
enum class Role : uint8_t {
  kInput,    // an operand, only read
  kOutput,   // a result
  kInOut,    // a result that starts as a copy of an operand
  kScratch,  // a hidden result: a copy of an operand, or zeros where there is none
  kValue,    // a scalar passed in the block itself
};

/// When a result is cleared before the kernel runs.
enum class ZeroFill : uint8_t {
  kNever,
  kIfPartial,  // unless the result has exactly the extents of the grid
  kAlways,
};

/// Where one kernel parameter lies in the argument block and what fills it.
struct Relocation {
  size_t offset;
  Role role;
  DType dtype;
  int ndim;
  ZeroFill zero;
  int operand;  // -1: none
  int result;   // -1: none

  bool is_written() const { return role != Role::kInput && role != Role::kValue; }

  /// Bytes that the parameter takes in the block.
  size_t field_bytes() const {
    if (role == Role::kValue) return size_bytes(dtype);
    return sizeof(void*) + 2 * sizeof(int64_t) * static_cast<size_t>(ndim);
  }
};

/// One extent: that of `axis` of `operand`, or the literal `value` where `operand` is negative.
struct DimRule {
  int operand;
  int axis;
  int64_t value;
};

}  // namespace kernelcore
