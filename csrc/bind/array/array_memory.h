// The native half of data arrays: launches read it without asking Python for anything.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "bind/array/array_info.h"
#include "cuda/memory.h"

namespace kernelcore::bind {

/// What an array and all views of it have in common; guarded by the GIL.
struct Storage {
  uint64_t version;  // counts writes
  // The bytes of the array that the others are views of.
  uintptr_t begin;
  uintptr_t end;
};

/// Memory that kernelcore has allocated for arrays, and where it is.
struct DeviceBuffer {
  std::shared_ptr<cuda::Allocation> allocation;  // null where there are no bytes
  DLDevice device;
};

/// What launches read of a data array, and what keeps its memory in place.
struct ArrayMemory : ArrayInfo {
  Keeper keeper;
  std::shared_ptr<cuda::Allocation> allocation;  // null: memory of others, or of NumPy
  std::shared_ptr<Storage> storage;

  uint64_t version() const { return storage->version; }
  void count_write() { ++storage->version; }
  /// Zeroes the bytes and counts the write; false, and nothing is done, unless they are adjacent
  /// and may be written.
  bool clear();
};

/// The native half of `object`, of a type that `is_array_memory`; null before it is initialized.
ArrayMemory* array_memory_of(PyObject* object);

/// Whether objects of `type` have one.
bool is_array_memory(PyTypeObject* type);

/// For memory that is no view of another array's.
std::shared_ptr<Storage> storage_of(const ArrayMemory& memory);

/// Zeroed memory for the extents and elements of `info`, whose address and strides it sets.
Keeper take_own_memory(ArrayInfo& info);

/// Copies the elements of `info` to memory of their own, which `info` has afterwards.
Keeper copy_to_own_memory(ArrayInfo& info);

/// The extents of `view`, or its strides in bytes.
nanobind::tuple extents_of(const ArrayView& view);
nanobind::tuple strides_of(const ArrayView& view);

}  // namespace kernelcore::bind
