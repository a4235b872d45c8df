// Reads the memory of Python arrays: DLPack exchange API, buffer protocol, or __dlpack__.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "core/array_view.h"
#include "core/small_buffer.h"
#include "dlpack.h"

namespace kernelcore::bind {

/// What was read of one array object.
struct ArrayInfo {
  ArrayView view;  // shape and strides are filled only up to kMaxArrayDims
  int dtype;       // a DType, or -1 for one that kernels do not have
  DLDevice device;
  bool is_read_only;
  bool has_lazy_sign;  // the elements in memory still have to be negated
};

enum class ReadStatus {
  kOk,
  kNotAnArray,
  kRefused,  // the object's own Python error is set
};

/// Keeps what a call has read in place until the call is over.
class Leases {
 public:
  explicit Leases(size_t max_arrays) : buffers_(max_arrays), objects_(max_arrays) {}
  ~Leases();
  Leases(const Leases&) = delete;
  Leases& operator=(const Leases&) = delete;

  /// Room for one more buffer; it is released at the end once `keep_buffer` is called.
  Py_buffer* next_buffer() { return &buffers_[buffer_count_]; }
  void keep_buffer() { ++buffer_count_; }
  /// Takes over the reference.
  void keep_object(PyObject* object) { objects_[object_count_++] = object; }

 private:
  SmallBuffer<Py_buffer, 16> buffers_;
  SmallBuffer<PyObject*, 16> objects_;
  size_t buffer_count_ = 0;
  size_t object_count_ = 0;
};

/// Reads `object`; with `writable`, prefers an export that may be written.
ReadStatus read_array(PyObject* object, bool writable, ArrayInfo& info, Leases& leases);

/// Tells the library of `object` that its memory has changed, where it keeps count.
void note_written(PyObject* object);

/// Fills `info` from `tensor`, whose memory someone else keeps alive.
void read_dl_tensor(const DLTensor& tensor, ArrayInfo& info);

/// The DType of a DLPack dtype, or -1.
int dtype_from_dlpack(DLDataType dtype);

/// The DLPack dtype of `dtype`.
DLDataType dtype_to_dlpack(DType dtype);

/// The exchange API that `type` offers, or null; sets no Python error.
const DLPackExchangeAPI* exchange_api_of(PyObject* type);

}  // namespace kernelcore::bind
