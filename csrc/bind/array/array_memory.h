// The native half of data arrays: launches read it without asking Python for anything.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>

#include "bind/array/array_info.h"
#include "cuda/memory.h"

namespace kernelcore::bind {

/// State that an array and all views of it share; guarded by the GIL.
struct Storage {
  uint64_t version;  // counts writes
  // The bytes of the array that the views are of.
  uintptr_t begin;
  uintptr_t end;
};

/// Memory that kernelcore has allocated for arrays, and its device.
struct DeviceBuffer {
  std::shared_ptr<cuda::Allocation> allocation;  // null if there are no bytes
  DLDevice device;
};

/// The memory of a data array, with its owner.
struct ArrayMemory : ArrayInfo {
  Keeper keeper;
  std::shared_ptr<cuda::Allocation> allocation;  // null: memory of other libraries
  std::shared_ptr<Storage> storage;

  uint64_t version() const { return storage->version; }
  void count_write() { ++storage->version; }
  /// Zeroes the elements and counts the write; false, and nothing is done, unless they are
  /// contiguous and writable.
  bool clear();
};

/// The memory of `object`, whose type `is_array_memory`; null before it is initialized.
ArrayMemory* array_memory_of(PyObject* object);

/// Whether `type` is ArrayMemory or a subclass.
bool is_array_memory(PyTypeObject* type);

/// New shared state for memory that is not a view of another array.
std::shared_ptr<Storage> storage_of(const ArrayMemory& memory);

/// Zeroed memory for the extents and elements of `info`, whose address and strides it sets.
Keeper take_own_memory(ArrayInfo& info);

/// Copies the elements of `info` to new memory, which `info` describes afterwards.
Keeper copy_to_own_memory(ArrayInfo& info);

/// The extents of `view`, or its strides in bytes.
nanobind::tuple extents_of(const ArrayView& view);
nanobind::tuple strides_of(const ArrayView& view);

/// Adds `__dlpack__`, `__dlpack_device__` and the exchange API.
void bind_dlpack_export(nanobind::class_<ArrayMemory>& memory);

}  // namespace kernelcore::bind
