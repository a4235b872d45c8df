// Errors of handlers as XLA takes them.
#pragma once

#include <exception>
#include <new>

#include "core/error.h"
#include "xla/ffi/api/c_api.h"

namespace kernelcore::ffi {

inline XLA_FFI_Error* make_error(const XLA_FFI_CallFrame* frame, XLA_FFI_Error_Code code,
                                 const char* message) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message;
  args.errc = code;
  return frame->api->XLA_FFI_Error_Create(&args);
}

inline XLA_FFI_Error_Code code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kArgument:
    case ErrorKind::kElsewhere:
      return XLA_FFI_Error_Code_INVALID_ARGUMENT;
    case ErrorKind::kDevice:
      return XLA_FFI_Error_Code_UNAVAILABLE;
    case ErrorKind::kMemory:
      return XLA_FFI_Error_Code_RESOURCE_EXHAUSTED;
    case ErrorKind::kAssertion:
    case ErrorKind::kIndex:
    case ErrorKind::kFinite:
      return XLA_FFI_Error_Code_FAILED_PRECONDITION;
    case ErrorKind::kUnknownKernel:
      return XLA_FFI_Error_Code_NOT_FOUND;
    case ErrorKind::kInterrupted:
      return XLA_FFI_Error_Code_CANCELLED;
    case ErrorKind::kInternal:
      break;
  }
  return XLA_FFI_Error_Code_INTERNAL;
}

/// Runs `body`, whose exceptions become XLA errors.
template <class Body>
XLA_FFI_Error* guarded(const XLA_FFI_CallFrame* frame, Body body) noexcept {
  try {
    return body();
  } catch (const Error& error) {
    return make_error(frame, code_of(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return make_error(frame, XLA_FFI_Error_Code_RESOURCE_EXHAUSTED, "kernelcore: out of memory");
  } catch (const std::exception& error) {
    return make_error(frame, XLA_FFI_Error_Code_INTERNAL, error.what());
  }
}

}  // namespace kernelcore::ffi
