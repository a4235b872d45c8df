// The types of elements that XLA has.
#pragma once

#include <cstddef>
#include <string>

#include "core/error.h"
#include "kernelcore/abi.h"
#include "xla/ffi/api/c_api.h"

namespace kernelcore::ffi {

struct ElementType {
  XLA_FFI_DataType code;
  const char* name;  // as NumPy and ml_dtypes call it
  size_t size_bytes;
};

/// Those of kernels first, in the order of DType.
inline constexpr ElementType kElementTypes[] = {
    {XLA_FFI_DataType_PRED, "bool", 1},
    {XLA_FFI_DataType_S32, "int32", 4},
    {XLA_FFI_DataType_S64, "int64", 8},
    {XLA_FFI_DataType_F32, "float32", 4},
    {XLA_FFI_DataType_F64, "float64", 8},
    {XLA_FFI_DataType_S8, "int8", 1},
    {XLA_FFI_DataType_S16, "int16", 2},
    {XLA_FFI_DataType_U8, "uint8", 1},
    {XLA_FFI_DataType_U16, "uint16", 2},
    {XLA_FFI_DataType_U32, "uint32", 4},
    {XLA_FFI_DataType_U64, "uint64", 8},
    {XLA_FFI_DataType_F16, "float16", 2},
    {XLA_FFI_DataType_BF16, "bfloat16", 2},
    {XLA_FFI_DataType_C64, "complex64", 8},
    {XLA_FFI_DataType_C128, "complex128", 16},
    {XLA_FFI_DataType_F8E5M2, "float8_e5m2", 1},
    {XLA_FFI_DataType_F8E4M3FN, "float8_e4m3fn", 1},
};

/// XLA's number of `dtype`.
constexpr XLA_FFI_DataType xla_dtype(DType dtype) {
  return kElementTypes[static_cast<size_t>(dtype)].code;
}

/// The type of XLA's number `code`; throws Error for what Python has no type for.
inline const ElementType& element_type(XLA_FFI_DataType code) {
  for (const ElementType& type : kElementTypes) {
    if (type.code == code) return type;
  }
  throw Error(ErrorKind::kArgument,
              "a callback takes no buffers of XLA's type " + std::to_string(code));
}

}  // namespace kernelcore::ffi
