// Asks libtorch's C++ functions about a tensor, without Python and the lock of its interpreter.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>

#include "core/memory/array_view.h"
#include "dlpack.h"

namespace at {
class Tensor;
}

namespace kernelcore::torch {

/// What `symbol` names in the library that has `function`, or in one that it needs; null: nothing.
void* symbol_beside(const void* function, const char* symbol);

/// Functions of one libtorch, by the names that fix their binary interface.
///
/// All but `alias` leave the tensor to its owner, and none reports why it fails: ask the tensor in
/// another way then.
class TensorFunctions {
 public:
  /// Those of the library that has `function`, or of the libraries that it needs; false if this
  /// version lacks one.
  bool find(const void* function);

  /// Whether `tensor` has memory of its own: sparse tensors and those that a transform of
  /// torch.func wraps have none. Asking them for it costs milliseconds, as torch writes a
  /// backtrace.
  bool has_storage(const at::Tensor& tensor) const {
    // A tensor is a pointer to its implementation; wrappers answer for what they wrap only where
    // the call is virtual, and this is the function of the base class.
    const void* impl = nullptr;
    std::memcpy(&impl, static_cast<const void*>(&tensor), sizeof(impl));
    return has_storage_(impl);
  }

  /// Describes the memory of `tensor`, which has to stay as it is while `out` is in use.
  bool describe(const at::Tensor& tensor, DLTensor& out) const;

  /// Whether the elements in memory still have to be negated.
  bool is_negated(const at::Tensor& tensor) const { return is_negated_(tensor); }

  /// Tells autograd that `tensor` was written.
  bool note_written(const at::Tensor& tensor) const;

  /// Another tensor over the storage of `tensor`, which it keeps whatever storage `tensor` gets
  /// later; null where there is none.
  std::shared_ptr<const at::Tensor> alias(const at::Tensor& tensor) const;

  /// The memory of a tensor.
  struct Memory {
    void* data;                  // of the first element; null where the storage has no memory
    int64_t storage_size_bytes;  // from the start of the storage on
  };

  /// Whether the storage of `tensor`, whose memory is `view`, has all its elements; true where that
  /// is not known. The tensor is taken to start a storage of its own size, as almost all do: one at
  /// an offset of a storage that was cut to that size is not noticed.
  bool holds(const at::Tensor& tensor, const ArrayView& view) const {
    int64_t size_bytes = 0;
    if (get_storage_size_(&tensor, &size_bytes) != 0) return true;
    bool starts_its_own = view.ndim == 1 && view.stride_bytes[0] == view.item_bytes &&
                          view.shape[0] * view.item_bytes == size_bytes;
    return starts_its_own || holds_span(tensor, view, size_bytes);
  }

  /// The current memory of `tensor`; a storage that is resized gets other memory.
  Memory memory_of(const at::Tensor& tensor) const;

 private:
  bool holds_span(const at::Tensor& tensor, const ArrayView& view,
                  int64_t storage_size_bytes) const;

  /// A tensor that is returned by value: its destructor makes the caller give the address.
  struct Returned {
    void* impl;
    ~Returned() {}  // NOLINT(modernize-use-equals-default): the tensor is released as one.
  };

  bool (*has_storage_)(const void* impl) = nullptr;
  void (*describe_)(const at::Tensor&, DLTensor*) = nullptr;
  void (*describe_access_)(const at::Tensor&, DLTensor*, bool is_read_only) = nullptr;
  bool (*is_negated_)(const at::Tensor&) = nullptr;
  void (*note_written_)(const at::Tensor&) = nullptr;
  Returned (*alias_)(const at::Tensor&) = nullptr;
  int32_t (*delete_)(const at::Tensor*) = nullptr;
  int32_t (*get_data_ptr_)(const at::Tensor*, void**) = nullptr;
  int32_t (*get_storage_size_)(const at::Tensor*, int64_t*) = nullptr;
  int32_t (*get_storage_offset_)(const at::Tensor*, int64_t*) = nullptr;
};

}  // namespace kernelcore::torch
