#include "bind/torch/tensor_access.h"

#include <cstring>
#include <memory>
#include <utility>

#include "bind/array/builtin_call.h"
#include "bind/array/dlpack_import.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

/// Whether the word behind the head of `object` is the address that torch gives for its tensor.
bool holds_tensor_in_place(PyObject* object) {
  nb::object number = nb::steal(PyObject_GetAttrString(object, "_cdata"));
  void* expected = number.is_valid() ? PyLong_AsVoidPtr(number.ptr()) : nullptr;
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  void* found = nullptr;
  std::memcpy(&found, object + 1, sizeof(found));
  return expected != nullptr && found == expected;
}

/// The storage of a tensor, kept by a tensor of its own.
class StorageLender : public Lender {
 public:
  StorageLender(const torch::TensorFunctions& functions, std::shared_ptr<const at::Tensor> alias)
      : functions_(functions), alias_(std::move(alias)), memory_(functions.memory_of(*alias_)) {}

  bool describe(DLTensor& out) const { return functions_.describe(*alias_, out); }

  bool still_lends() const override {
    auto [data, size_bytes] = functions_.memory_of(*alias_);
    return data == memory_.data && size_bytes >= memory_.storage_size_bytes;
  }
  const char* loss() const override {
    return "one over a tensor whose storage was resized or moved since";
  }
  const char* remedy() const override {
    return "make the array again after resize_(), share_memory_() and the like";
  }

 private:
  const torch::TensorFunctions& functions_;
  std::shared_ptr<const at::Tensor> alias_;
  torch::TensorFunctions::Memory memory_;
};

}  // namespace

bool keep_storage(const torch::TensorFunctions& functions, const at::Tensor& tensor,
                  ArrayInfo& info, Keeper& keeper) {
  auto alias = functions.alias(tensor);
  if (alias == nullptr) return false;
  auto lender = std::make_shared<StorageLender>(functions, std::move(alias));
  DLTensor described;
  if (!lender->describe(described) || !read_dl_tensor(described, info)) return false;
  // An array without elements reads no memory.
  if (info.view.numel() != 0) info.lender = lender.get();
  keeper = std::move(lender);
  return true;
}

const torch::TensorFunctions* tensor_functions_of(PyObject* object, const DLPackExchangeAPI& api) {
  PyTypeObject* type = Py_TYPE(object);
  bool is_known =
      is_class_of(type, "torch", "Tensor") || is_class_of(type, "torch.nn.parameter", "Parameter");
  if (!is_known || !holds_tensor_in_place(object)) return nullptr;
  static torch::TensorFunctions functions;
  static bool has_functions =
      functions.find(reinterpret_cast<const void*>(api.dltensor_from_py_object_no_sync));
  return has_functions ? &functions : nullptr;
}

}  // namespace kernelcore::bind
