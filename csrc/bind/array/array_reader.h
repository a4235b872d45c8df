// Reads the memory of Python arrays: DLPack exchange API, buffer protocol, __dlpack__, or one of
// the array interfaces.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/array_info.h"
#include "bind/array/dlpack_import.h"

namespace kernelcore::bind {

enum class ReadStatus {
  kOk,
  kNotAnArray,
  kRefused,  // the object's own Python error is set
};

/// The purpose of reading an array, and how long its memory must stay valid.
enum class Access {
  kRead,   // valid while both the object and the keeper live
  kWrite,  // as kRead, but prefers a writable export
  kKeep,   // as kWrite, but valid while the keeper lives
};

/// The memory of a data array, valid while the object lives; null for other objects.
const ArrayInfo* known_info(PyObject* object);

/// Whether `object` is an array of numpy.ma, whose memory has elements that are none.
bool is_masked(PyObject* object);

/// Reads `object`, with kKeep also a DLPack capsule. `keeper` stays null if nothing has to be kept.
ReadStatus read_array(PyObject* object, Access access, ArrayInfo& info, Keeper& keeper,
                      Consumer consumer = {});

/// Whether the library of `object` may give it other memory or take its memory back, and
/// `is_unchanged` costs little.
bool is_followed(PyObject* object);

/// Whether an array that `is_followed` still has the memory `info`.
bool is_unchanged(PyObject* object, const ArrayInfo& info);

/// Tells the library of `object` that its memory was written, if it counts versions.
void note_written(PyObject* object);

}  // namespace kernelcore::bind
