// Launches that a Tape records and runs backwards without asking Python.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

void bind_tape_launch(nanobind::module_& m);

}  // namespace kernelcore::bind
