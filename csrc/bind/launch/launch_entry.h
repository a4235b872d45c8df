// `launch` as Python calls it: plain launches run before any function of Python has begun.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

void bind_launch_entry(nanobind::module_& m);

}  // namespace kernelcore::bind
