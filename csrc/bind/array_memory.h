// The native half of data arrays: launches read it without asking Python for anything.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "bind/array_info.h"

namespace kernelcore::bind {

/// What launches read of a data array, and what keeps its memory in place.
struct ArrayMemory {
  ArrayInfo info;
  Keeper keeper;
  std::shared_ptr<uint64_t> version;  // counts writes, also through views; guarded by the GIL

  void count_write() { ++*version; }
};

/// The native half of `object`, of a type that `is_array_memory`; null before it is initialized.
ArrayMemory* array_memory_of(PyObject* object);

/// Whether objects of `type` have one.
bool is_array_memory(PyTypeObject* type);

/// Zeroed memory for the extents and elements of `info`, whose address and strides it sets.
Keeper take_own_memory(ArrayInfo& info);

/// Copies the elements of `info` to memory of their own, which `info` has afterwards.
Keeper copy_to_own_memory(ArrayInfo& info);

void bind_array_memory(nanobind::module_& m);

}  // namespace kernelcore::bind
