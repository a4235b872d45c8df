// The XLA custom-call handlers, as the Python module exports them.
#pragma once

#include <cstddef>

struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

extern "C" {

/// Builds the launch plan of one call site from its attributes.
XLA_FFI_Error* kernelcore_xla_instantiate(XLA_FFI_CallFrame* frame);

/// Runs the plan of the call site on the buffers of `frame`.
XLA_FFI_Error* kernelcore_xla_execute(XLA_FFI_CallFrame* frame);

/// The XLA_FFI_TypeId and XLA_FFI_TypeInfo of the plan, to be registered as a state type.
void* kernelcore_xla_type_id();
void* kernelcore_xla_type_info();

/// How many different plans the call sites of all loaded programs have.
size_t kernelcore_xla_plan_count();
}
