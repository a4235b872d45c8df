// Exports memory as DLPack capsules.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_memory.h"
#include "dlpack.h"

namespace kernelcore::bind {

/// The memory as DLPack 1 has it, for whoever calls its deleter; throws with BufferError set.
DLManagedTensorVersioned* export_versioned(const ArrayMemory& memory);

/// Adds `__dlpack__` and `__dlpack_device__`.
void bind_dlpack_export(nanobind::class_<ArrayMemory>& memory);

}  // namespace kernelcore::bind
