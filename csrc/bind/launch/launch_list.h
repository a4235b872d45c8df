// Launches that are prepared once and run any number of times.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

void bind_launch_list(nanobind::module_& m);

}  // namespace kernelcore::bind
