// Exports memory as DLPack capsules.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array_memory.h"

namespace kernelcore::bind {

/// Adds `__dlpack__` and `__dlpack_device__`.
void bind_dlpack_export(nanobind::class_<ArrayMemory>& memory);

}  // namespace kernelcore::bind
