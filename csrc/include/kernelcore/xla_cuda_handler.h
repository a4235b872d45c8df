// The XLA custom-call handlers for CUDA devices, as the Python module exports them.
#pragma once

struct XLA_FFI_CallFrame;
struct XLA_FFI_Error;

extern "C" {

/// Builds the launch plan of one call site from its attributes.
XLA_FFI_Error* kernelcore_xla_cuda_instantiate(XLA_FFI_CallFrame* frame);

/// Loads the code of the call site on the device of a run, before anything of the run is queued,
/// and reports what an earlier run has failed of.
XLA_FFI_Error* kernelcore_xla_cuda_initialize(XLA_FFI_CallFrame* frame);

/// Queues the launches of the call site in the stream of the run, which may be capturing.
XLA_FFI_Error* kernelcore_xla_cuda_execute(XLA_FFI_CallFrame* frame);

/// Queues them as a graph of their own.
XLA_FFI_Error* kernelcore_xla_cuda_execute_graph(XLA_FFI_CallFrame* frame);

/// The XLA_FFI_TypeId and XLA_FFI_TypeInfo of a call site, to be registered as a state type.
void* kernelcore_xla_cuda_type_id();
void* kernelcore_xla_cuda_type_info();
}
