// What a Tape knows of the memory of arrays: who wrote it, who needs it, and who shares it.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
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
  std::vector<TapeRoot*> twins;  // memory of others, no views of this one, that shares bytes
  std::vector<std::pair<uint64_t, size_t>> writers;  // the version after it, and the record
  std::vector<std::pair<size_t, size_t>> needs;      // a record that needs it, and its parameter

  /// Whether something that was not recorded has written it since a record did.
  bool has_gap() const { return !writers.empty() && writers.back().first != storage->version; }
};

/// The memory of the arrays that a Tape has seen; records are numbers, by order.
class TapeMemory {
 public:
  TapeMemory() = default;
  TapeMemory(const TapeMemory&) = delete;
  TapeMemory& operator=(const TapeMemory&) = delete;

  TapeRoot& root_of(const ArrayMemory& array);

  /// Whether memory is shared that was not known to be.
  bool has_twins() const { return has_twins_; }

  bool overlaps(uintptr_t begin, uintptr_t end) const;

 private:
  std::unordered_map<const Storage*, TapeRoot> roots_;
  bool has_twins_ = false;
};

void bind_tape_memory(nanobind::module_& m);

}  // namespace kernelcore::bind
