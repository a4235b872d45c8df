// Reads the memory of Python arrays: DLPack exchange API, buffer protocol, __dlpack__, or one of
// the array interfaces.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <vector>

#include "bind/array/array_info.h"
#include "bind/array/dlpack_import.h"
#include "core/memory/small_buffer.h"

namespace kernelcore::bind {

enum class ReadStatus {
  kOk,
  kNotAnArray,
  kRefused,  // the object's own Python error is set
};

/// Keeps what a call has read in place until the call is over.
class Leases {
 public:
  explicit Leases(size_t max_arrays) : buffers_(max_arrays) {}
  ~Leases();
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  /// Room for one more buffer; it is released at the end once `keep_buffer` is called.
  Py_buffer* next_buffer() { return &buffers_[buffer_count_]; }
  void keep_buffer() { ++buffer_count_; }
  /// Room for what keeps one more array in place.
  Keeper& next_keeper() { return keepers_.emplace_back(); }

 private:
  SmallBuffer<Py_buffer, 16> buffers_;
  size_t buffer_count_ = 0;
  std::vector<Keeper> keepers_;
};

/// What is known of a data array, as long as that lives; null for other objects.
const ArrayInfo* known_info(PyObject* object);

/// Reads `object`; with `writable`, prefers an export that may be written.
ReadStatus read_array(PyObject* object, bool writable, ArrayInfo& info, Leases& leases,
                      Place place = {});

/// Reads `object`, an array or a DLPack capsule, whose memory stays in place as long as `keeper`.
ReadStatus adopt_array(PyObject* object, ArrayInfo& info, Keeper& keeper, Place place = {});

/// Tells the library of `object` that its memory has changed, where it keeps count.
void note_written(PyObject* object);

}  // namespace kernelcore::bind
