#include "bind/torch/tensor_access.h"

#include <cstring>

#include "bind/array/builtin_call.h"

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

}  // namespace

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
