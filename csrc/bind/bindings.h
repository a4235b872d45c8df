// What each source file adds to the Python module, and the handler of SIGINT.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

void bind_adjoint_memory(nanobind::module_& m);
void bind_array_memory(nanobind::module_& m);
void bind_bound_names(nanobind::module_& m);
void bind_device_launch(nanobind::module_& m);
void bind_device_objects(nanobind::module_& m);
void bind_launch(nanobind::module_& m);
void bind_launch_entry(nanobind::module_& m);
void bind_operation(nanobind::module_& m);
void bind_tape_launch(nanobind::module_& m);
void bind_tape_memory(nanobind::module_& m);
void bind_torch(nanobind::module_& m);
void bind_torch_autograd(nanobind::module_& m);
void bind_torch_fast_entry(nanobind::module_& m);
void bind_xla(nanobind::module_& m);

/// Makes long launches of Python's main thread end at SIGINT.
void init_interrupts();

}  // namespace kernelcore::bind
