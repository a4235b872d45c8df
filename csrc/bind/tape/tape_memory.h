// What a Tape knows of the memory of arrays: its writers, its readers in the backward pass,
// aliases.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bind/array/array_memory.h"

namespace kernelcore::bind {

/// The memory of an array and of all views of it.
struct TapeRoot {
  std::shared_ptr<Storage> storage;
  Keeper keeper;  // neither the addresses nor the memory are used again
  bool is_written = false;
  std::vector<TapeRoot*> aliases;  // other roots, of no views of this one, that share bytes
  std::vector<std::pair<uint64_t, size_t>> writers;  // the version after the write, and the record
  std::vector<std::pair<size_t, size_t>> needs;  // a record that reads it backwards, its parameter

  /// Whether something that was not recorded has written it since a record did.
  bool has_gap() const { return !writers.empty() && writers.back().first != storage->version; }
};

/// The memory of the arrays that a Tape has seen; records are numbers, in order.
class TapeMemory {
 public:
  TapeMemory() = default;
  TapeMemory(const TapeMemory&) = delete;
  TapeMemory& operator=(const TapeMemory&) = delete;

  TapeRoot& root_of(const ArrayMemory& array);
  TapeRoot& root_of(PyObject* array) { return root_of(*array_memory_of(array)); }

  /// None, or why a record of arrays that load and write may not be made: a reason code and the
  /// array. "gap": memory with a gradient was written and not recorded. "alias": memory that is
  /// written shares bytes with an array that is no view of it. If None, `outputs` count as written.
  nanobind::object fault(std::span<PyObject* const> inputs, std::span<PyObject* const> outputs);

  bool overlaps(uintptr_t begin, uintptr_t end) const;

 private:
  std::unordered_map<const Storage*, TapeRoot> roots_;
  bool has_aliases_ = false;
};

}  // namespace kernelcore::bind
