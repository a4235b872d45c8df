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

/// What an array is read for.
enum class Access {
  kRead,   // in place as long as the object and the keeper
  kWrite,  // as kRead; an object that can choose exports memory that may be written
  kKeep,   // as kWrite, in place as long as the keeper
};

/// What is known of a data array, as long as that lives; null for other objects.
const ArrayInfo* known_info(PyObject* object);

/// Reads `object`; to keep it, a DLPack capsule may be given. `keeper` is null where it is not
/// needed.
ReadStatus read_array(PyObject* object, Access access, ArrayInfo& info, Keeper& keeper,
                      Place place = {});

/// Tells the library of `object` that its memory has changed, where it keeps count.
void note_written(PyObject* object);

}  // namespace kernelcore::bind
