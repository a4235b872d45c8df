// Handlers of call sites: what they keep between calls, and what Python registers of them.
#pragma once

#include <memory>
#include <vector>

#include "xla/errors.h"
#include "xla/state.h"

namespace kernelcore::ffi {

/// Something that XLA is given under `name`: a handler, or the type of a call site's state.
struct Registration {
  const char* name;
  void* pointer;
  bool is_handler = false;
};

std::vector<Registration> host_registrations();
std::vector<Registration> cuda_registrations();

/// The state of a call site, which XLA deletes with the executable.
template <class Site>
struct SiteState {
  static void destroy(void* site) { delete static_cast<Site*>(site); }

  static inline XLA_FFI_TypeId id{0};  // XLA assigns the number when the type is registered
  static inline XLA_FFI_TypeInfo info{XLA_FFI_TypeInfo_STRUCT_SIZE, nullptr, destroy};

  static XLA_FFI_Error* set(XLA_FFI_CallFrame* frame, std::unique_ptr<Site> site) {
    XLA_FFI_Error* error = set_state(frame, &id, site.get(), destroy);
    if (error == nullptr) static_cast<void>(site.release());
    return error;
  }
};

/// A handler that calls `body` with the state of the call site; its exceptions are XLA's errors.
template <class Site, void (*body)(const XLA_FFI_CallFrame&, Site&),
          XLA_FFI_Handler_Traits traits = 0>
XLA_FFI_Error* site_handler(XLA_FFI_CallFrame* frame) {
  if (answer_metadata(frame, nullptr, traits)) return nullptr;
  return guarded(frame, [frame]() -> XLA_FFI_Error* {
    void* state = nullptr;
    if (XLA_FFI_Error* error = get_state(frame, &SiteState<Site>::id, &state)) return error;
    body(*frame, *static_cast<Site*>(state));
    return nullptr;
  });
}

/// The handler that makes the state of a call site from its attributes by `make`.
template <class Site, std::unique_ptr<Site> (*make)(const XLA_FFI_Attrs&)>
XLA_FFI_Error* instantiate_handler(XLA_FFI_CallFrame* frame) {
  if (answer_metadata(frame, &SiteState<Site>::id)) return nullptr;
  return guarded(frame, [frame] { return SiteState<Site>::set(frame, make(frame->attrs)); });
}

/// `handler` as it is registered.
inline Registration registration(const char* name, XLA_FFI_Handler* handler) {
  return {name, reinterpret_cast<void*>(handler), true};
}

}  // namespace kernelcore::ffi
