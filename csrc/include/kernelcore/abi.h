// The binary interface between compiled kernels and everything that launches them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

namespace kernelcore {

inline constexpr int kMaxGridDims = 8;
inline constexpr int kMaxArrayDims = 14;
inline constexpr int kMaxComponentDims = 2;

/// A logged addition of a float to an element.
struct AddRecord {
  uintptr_t target;  // the address of a float; of a double, the address plus 1
  union {
    float narrow;
    double wide;
  } value;
};

/// The log of additions that must wait for their commit order; there is always room for one.
struct AddLog {
  AddRecord* next;
  AddRecord* end;
  void (*drain)(AddLog* log);  // the kernel calls it when `next` reaches `end`
};

/// Extents of a launch; unused ones are 1. A kernel that fails writes a nonzero code to `*status`,
/// and details to the words after it.
struct Grid {
  int64_t dims[kMaxGridDims];
  int64_t* status;
  // Bit k: other threads may add to the k-th accumulated array during this call.
  uint64_t shared = 0;
  AddLog* log = nullptr;
  // Bit k: calls add what all points of the launch add to the k-th accumulated array, each to the
  // part of its elements that its own points are of the launch.
  uint64_t own = 0;
};

/// Words of `status`: the status, and what a check tells of its failure. That is at most a launch
/// index, the index of an element, and two floats as the bits of doubles.
inline constexpr int kStatusWords = 1 + kMaxGridDims + kMaxArrayDims + 2;

inline constexpr int64_t kStatusOutOfMemory = 1;
inline constexpr int64_t kStatusInterrupted = 2;
/// The status of the first assertion; the following assertions have the following numbers.
inline constexpr int64_t kStatusFirstAssertion = 16;

/// Runs the grid points whose row-major index lies in [begin, end).
using KernelFn = void (*)(const void* args, const Grid* grid, int64_t begin, int64_t end);

enum class ScalarKind : uint8_t { kBool, kInt, kUInt, kFloat };

// Element types in the order of kernelcore.language.types.SCALARS: X(enumerator, name that users
// write, kind, bytes, bits of a float's exponent). What else holds of a type follows from its row.
#define KC_DTYPES(X)                    \
  X(kBool, "bool", kBool, 1, 0)         \
  X(kInt32, "int32", kInt, 4, 0)        \
  X(kInt64, "int64", kInt, 8, 0)        \
  X(kFloat32, "float32", kFloat, 4, 8)  \
  X(kFloat64, "float64", kFloat, 8, 11) \
  X(kInt8, "int8", kInt, 1, 0)          \
  X(kInt16, "int16", kInt, 2, 0)        \
  X(kUInt8, "uint8", kUInt, 1, 0)       \
  X(kUInt16, "uint16", kUInt, 2, 0)     \
  X(kUInt32, "uint32", kUInt, 4, 0)     \
  X(kUInt64, "uint64", kUInt, 8, 0)     \
  X(kFloat16, "float16", kFloat, 2, 5)  \
  X(kBFloat16, "bfloat16", kFloat, 2, 8)

enum class DType : uint8_t {
#define KC_ROW(id, name, kind, bytes, exponent_bits) id,
  KC_DTYPES(KC_ROW)
#undef KC_ROW
};

struct DTypeTraits {
  const char* name;
  ScalarKind kind;
  size_t size_bytes;
  int exponent_bits;
};

inline constexpr DTypeTraits kDTypeTraits[] = {
#define KC_ROW(id, name, kind, bytes, exponent_bits) {name, ScalarKind::kind, bytes, exponent_bits},
    KC_DTYPES(KC_ROW)
#undef KC_ROW
};
inline constexpr int kDTypeCount = static_cast<int>(std::size(kDTypeTraits));

constexpr const DTypeTraits& traits_of(DType dtype) {
  return kDTypeTraits[static_cast<size_t>(dtype)];
}

/// Bytes of one element of `dtype`.
constexpr size_t size_bytes(DType dtype) {
  return traits_of(dtype).size_bytes;
}

/// The dtype as users write it.
constexpr const char* name_of(DType dtype) {
  return traits_of(dtype).name;
}

/// The DType of `kind` and `size_bytes` that standards know, so not bfloat16; -1: there is none.
constexpr int dtype_of(ScalarKind kind, int64_t size_bytes) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const DTypeTraits& known = kDTypeTraits[i];
    if (known.kind == kind && static_cast<int64_t>(known.size_bytes) == size_bytes) return i;
  }
  return -1;
}

/// The role of a kernel parameter in a functional operation.
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

/// The place of a kernel parameter in the argument block, and its binding.
struct ParameterSlot {
  size_t offset;
  Role role;
  DType dtype;
  int ndim;
  ZeroFill zero;
  int operand;  // -1: none
  int result;   // -1: none
  // Extents of the last axes, which are the components of an element; 0 where there are fewer.
  int components[kMaxComponentDims] = {};

  int component_ndim() const { return (components[0] != 0) + (components[1] != 0); }

  /// Dimensions that are not components.
  int outer_ndim() const { return ndim - component_ndim(); }

  bool is_written() const { return role != Role::kInput && role != Role::kValue; }

  /// Size of the parameter's field in the block.
  size_t field_bytes() const {
    if (role == Role::kValue) return size_bytes(dtype);
    return sizeof(void*) + 2 * sizeof(int64_t) * static_cast<size_t>(ndim);
  }
};

/// One extent: that of `axis` of `operand`, or the literal `value` where `operand` is negative.
struct DimRule {
  static constexpr int kValue = -1;  // the axis that stands for the value of an integer operand

  int operand;
  int axis;
  int64_t value;
};

}  // namespace kernelcore
