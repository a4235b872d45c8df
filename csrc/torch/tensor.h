// Asks libtorch's C++ functions about a tensor, without Python and the lock of its interpreter.
#pragma once

#include "dlpack.h"

namespace at {
class Tensor;
}

namespace kernelcore::torch {

/// Functions of one libtorch, by the names that fix their binary interface.
///
/// None keeps the tensor, and none reports why it fails: ask the tensor in another way then.
class TensorFunctions {
 public:
  /// Those of the library that has `function`, or of the libraries that it needs; false if this
  /// version lacks one.
  bool find(const void* function);

  /// Describes the memory of `tensor`, which has to stay as it is while `out` is in use.
  bool describe(const at::Tensor& tensor, DLTensor& out) const;

  /// Whether the elements in memory still have to be negated.
  bool is_negated(const at::Tensor& tensor) const { return is_negated_(tensor); }

  /// Tells autograd that `tensor` was written.
  bool note_written(const at::Tensor& tensor) const;

 private:
  void (*describe_)(const at::Tensor&, DLTensor*) = nullptr;
  void (*describe_access_)(const at::Tensor&, DLTensor*, bool is_read_only) = nullptr;
  bool (*is_negated_)(const at::Tensor&) = nullptr;
  void (*note_written_)(const at::Tensor&) = nullptr;
};

}  // namespace kernelcore::torch
