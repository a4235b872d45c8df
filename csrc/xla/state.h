// State, errors and version handshake of call sites across versions of the XLA FFI API.
#pragma once

#include <algorithm>
#include <cstddef>

#include "xla/ffi/api/c_api.h"

namespace kernelcore::ffi {

/// State arguments of API 0.2, which had no stage.
struct StateArgsV02 {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_TypeId* type_id;
  void* state;
};

/// State_Set arguments of API 0.1, where the deleter was not part of the type.
struct StateSetArgsV01 {
  size_t struct_size;
  XLA_FFI_Extension_Base* extension_start;
  XLA_FFI_ExecutionContext* ctx;
  XLA_FFI_TypeId* type_id;
  void* state;
  void (*deleter)(void* object);
};

/// The API that both sides know. A runtime that shows none in a metadata query is 0.1.
inline int api_minor(const XLA_FFI_CallFrame* frame) {
  if (frame->api == nullptr) return 1;
  return std::min(XLA_FFI_API_MINOR, frame->api->api_version.minor_version);
}

/// Whether `error` is none; frees it otherwise.
inline bool succeeded(const XLA_FFI_Api* api, XLA_FFI_Error* error) {
  if (error == nullptr) return true;
  XLA_FFI_Error_Destroy_Args args{};
  args.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
  args.error = error;
  api->XLA_FFI_Error_Destroy(&args);
  return false;
}

/// Hands `state` to XLA, which deletes it with the executable.
inline XLA_FFI_Error* set_state(XLA_FFI_CallFrame* frame, XLA_FFI_TypeId* type_id, void* state,
                                void (*deleter)(void*)) {
  auto* set = frame->api->XLA_FFI_State_Set;
  int minor = api_minor(frame);
  if (minor >= 3) {
    XLA_FFI_State_Set_Args args{};
    args.struct_size = XLA_FFI_State_Set_Args_STRUCT_SIZE;
    args.ctx = frame->ctx;
    args.stage = XLA_FFI_ExecutionStage_INSTANTIATE;
    args.type_id = type_id;
    args.state = state;
    return set(&args);
  }
  if (minor == 2) {
    StateArgsV02 args{sizeof args, nullptr, frame->ctx, type_id, state};
    return set(reinterpret_cast<XLA_FFI_State_Set_Args*>(&args));
  }
  StateSetArgsV01 args{sizeof args, nullptr, frame->ctx, type_id, state, deleter};
  return set(reinterpret_cast<XLA_FFI_State_Set_Args*>(&args));
}

/// The state that INSTANTIATE stored for this call site.
inline XLA_FFI_Error* get_state(XLA_FFI_CallFrame* frame, XLA_FFI_TypeId* type_id, void** state) {
  auto* get = frame->api->XLA_FFI_State_Get;
  XLA_FFI_Error* error = nullptr;
  if (api_minor(frame) >= 3) {
    XLA_FFI_State_Get_Args args{};
    args.struct_size = XLA_FFI_State_Get_Args_STRUCT_SIZE;
    args.ctx = frame->ctx;
    args.stage = XLA_FFI_ExecutionStage_INSTANTIATE;
    args.type_id = type_id;
    error = get(&args);
    *state = args.state;
  } else {
    StateArgsV02 args{sizeof args, nullptr, frame->ctx, type_id, nullptr};
    error = get(reinterpret_cast<XLA_FFI_State_Get_Args*>(&args));
    *state = args.state;
  }
  return error;
}

/// Answers a metadata query; false when the call is not one.
///
/// A handler that reports a version newer than the runtime's stops the whole backend.
inline bool answer_metadata(XLA_FFI_CallFrame* frame, const XLA_FFI_TypeId* state_type,
                            XLA_FFI_Handler_Traits traits = 0) {
  XLA_FFI_Extension_Base* extension = frame->extension_start;
  if (extension == nullptr || extension->type != XLA_FFI_Extension_Metadata) return false;
  auto* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = api_minor(frame);
  metadata->traits = traits;
  constexpr size_t kSizeWithState =
      offsetof(XLA_FFI_Metadata, state_type_id) + sizeof(XLA_FFI_TypeId);
  if (state_type != nullptr && metadata->struct_size >= kSizeWithState) {
    metadata->state_type_id = *state_type;
  }
  return true;
}

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
