// Where a call runs: the stream and the device of its execution context.
#pragma once

#include "xla/state.h"

namespace kernelcore::ffi {

/// The stream; null on the CPU, where to ask is an error to XLA.
inline void* read_stream(const XLA_FFI_CallFrame& call) {
  XLA_FFI_Stream_Get_Args args{};
  args.struct_size = XLA_FFI_Stream_Get_Args_STRUCT_SIZE;
  args.ctx = call.ctx;
  return succeeded(call.api, call.api->XLA_FFI_Stream_Get(&args)) ? args.stream : nullptr;
}

/// The ordinal of the device; -1 where the runtime does not tell it.
inline int read_device(const XLA_FFI_CallFrame& call) {
  XLA_FFI_DeviceOrdinal_Get_Args args{};
  args.struct_size = XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE;
  args.ctx = call.ctx;
  return succeeded(call.api, call.api->XLA_FFI_DeviceOrdinal_Get(&args)) ? args.device_ordinal : -1;
}

}  // namespace kernelcore::ffi
