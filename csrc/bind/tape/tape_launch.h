// The fast path of a Tape: launches that native code records and runs backwards.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

void bind_tape_launch(nanobind::module_& m);

}  // namespace kernelcore::bind
