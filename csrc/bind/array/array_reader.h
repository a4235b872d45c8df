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

/// Reads `object`, with kKeep also a DLPack capsule. `keeper` stays null if nothing has to be kept.
ReadStatus read_array(PyObject* object, Access access, ArrayInfo& info, Keeper& keeper,
                      Consumer consumer = {});

/// Tells the library of `object` that its memory was written, if it counts versions.
void note_written(PyObject* object);

}  // namespace kernelcore::bind
