// DLPack's exchange API of data arrays: C functions, for libraries that ask no Python.
#pragma once

#include <nanobind/nanobind.h>

namespace kernelcore::bind {

/// Adds the API to the type of `ArrayMemory` and, by inheritance, to those of its subclasses.
void bind_dlpack_exchange(nanobind::handle memory_type);

}  // namespace kernelcore::bind
