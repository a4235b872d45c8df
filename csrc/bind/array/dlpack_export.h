// Exports memory as DLPack capsules, and by DLPack's exchange API.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_memory.h"

namespace kernelcore::bind {

/// Adds `__dlpack__`, `__dlpack_device__` and the exchange API.
void bind_dlpack_export(nanobind::class_<ArrayMemory>& memory);

}  // namespace kernelcore::bind
