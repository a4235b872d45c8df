// Running a kernel on arrays that the caller provides, from Python.
#pragma once

#include <nanobind/nanobind.h>

#include "bind/array/span.h"
#include "core/error.h"
#include "core/run/launch.h"

namespace kernelcore::bind {

/// Runs on the thread pool; runs that are long or may block let other Python threads go on.
void run_from_python(const LaunchDescriptor& descriptor, const void* block, Launch& launch);

/// As `run_from_python`; calls `note_writes` afterwards, also where the run fails: it has written.
template <class Function>
void run_and_note(const LaunchDescriptor& descriptor, const void* block, Launch& launch,
                  Function&& note_writes) {
  try {
    run_from_python(descriptor, block, launch);
  } catch (const Error&) {
    note_writes();
    throw;
  }
  note_writes();
}

/// The grid that `dims`, an int or a sequence of them, stands for; throws an argument Error.
Launch read_dims(const LaunchDescriptor& descriptor, nanobind::handle dims);

/// Throws an argument Error unless there is an argument per parameter.
void check_count(const LaunchDescriptor& descriptor, size_t found);

/// Launches over `dims` (an int or a sequence of them) with one argument per parameter: those in
/// `inputs`, then those in `outputs`, either of which may be null.
bool launch(const LaunchDescriptor& descriptor, nanobind::handle dims, nanobind::handle inputs,
            nanobind::handle outputs);

/// The memory of the array for parameter `index`, on any device; throws an argument Error if it
/// does not fit.
Span array_span(const LaunchDescriptor& descriptor, size_t index, nanobind::handle object);

}  // namespace kernelcore::bind
