// The arguments of a call on torch tensors: read, and run by an operation.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "bind/array/array_reader.h"
#include "bind/launch/operation.h"
#include "core/memory/array_view.h"
#include "core/memory/small_buffer.h"

namespace kernelcore::bind {

/// How a call may be run: at once, if autograd is told, or by those who know what is unusual.
enum class Verdict { kPlain, kNeedsGrad, kUnusual };

/// Arguments of one call on their way to the kernel.
class Operands {
 public:
  explicit Operands(const BoundOperation& operation);

  /// Reads argument `index`; with `grad_mode`, tensors that require grad need it.
  ///
  /// Throws an argument Error if it is a plain one of another type than the kernel takes.
  Verdict read(size_t index, PyObject* object, bool grad_mode);

  /// Reads argument `index`, an array that was checked before, of which the kernel may need the
  /// shape alone.
  Verdict read_saved(size_t index, PyObject* object);

  /// Runs the operation on what was read and gives its visible results, references that are the
  /// caller's, to `results`. False if torch's new tensors have no memory, as those of
  /// functionalization: then nothing ran.
  bool run(PyObject** results);

  /// A view of `tensor`, read as operand `operand`, in the shape of result `result`: axis `n` of it
  /// is axis `axes[n]` of the view, and the elements repeat along all others.
  nanobind::object repeated(size_t result, size_t operand, PyObject* tensor,
                            const std::vector<size_t>& axes);

  /// The same as what a call returns: a tensor, or a tuple of them; invalid for false.
  nanobind::object run();

 private:
  Verdict read_tensor(size_t index, PyObject* object, bool grad_mode);
  Verdict read_scalar(size_t index, PyObject* object);
  bool is_usable(size_t index, const ArrayInfo& info);

  const Operation& operation_;
  const torch::DeviceOperation* on_devices_;
  // Where all tensors are; of no type before one was read.
  DLDevice device_{};
  ViewBuffer views_;
  SmallBuffer<uint64_t, 16> scalars_;
  std::vector<Keeper> keepers_;
};

}  // namespace kernelcore::bind
