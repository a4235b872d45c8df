#include "bind/torch/dispatch_state.h"

#include "bind/array/builtin_call.h"
#include "bind/array/dlpack_import.h"
#include "core/error.h"
#include "torch/tensor.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

struct Hooks {
  PyTypeObject* tensor_type = nullptr;
  PyTypeObject* parameter_type = nullptr;
  BuiltinCall len_dispatch_stack;
  BuiltinCall len_function_stack;
  BuiltinCall any_autocast_enabled;
  BuiltinCall functorch_active;
  BuiltinCall is_tracing;
  PyObject* forward_ad_globals = nullptr;
  PyObject* function_mode_at = nullptr;
  PyTypeObject* device_mode_type = nullptr;
  PyObject* requires_grad = nullptr;
  PyObject* current_level = nullptr;
  const DLPackExchangeAPI* api = nullptr;
  WrapTensor wrap = nullptr;
};

// Set by set_tensor_types, then only read; the references are never given back.
Hooks g_hooks;

/// Whether `function()` is truthy; an error counts as true.
bool is_active(const BuiltinCall& function) {
  nb::object result = function();
  int truth = result.is_valid() ? PyObject_IsTrue(result.ptr()) : -1;
  if (truth < 0) PyErr_Clear();
  return truth != 0;
}

/// Whether a mode other than torch's default device looks at calls; an error counts as true.
bool has_function_modes() {
  nb::object count = g_hooks.len_function_stack();
  long left = count.is_valid() ? PyLong_AsLong(count.ptr()) : -1;
  while (left > 0) {
    nb::object place = nb::steal(PyLong_FromLong(left - 1));
    nb::object mode = call_function(g_hooks.function_mode_at, place.ptr());
    if (!mode.is_valid() || Py_TYPE(mode.ptr()) != g_hooks.device_mode_type) break;
    --left;
  }
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  return left != 0;
}

}  // namespace

void set_tensor_types(nb::object tensor_type, nb::object parameter_type) {
  Hooks set;
  set.api = exchange_api_of(tensor_type.ptr());
  if (set.api == nullptr) {
    throw Error(ErrorKind::kInternal,
                "torch: Tensor has no DLPack C exchange API; 2.10 or newer is needed");
  }
  nb::object torch = nb::module_::import_("torch._C");
  nb::object forward_ad = nb::module_::import_("torch.autograd.forward_ad");
  nb::object device_mode = nb::module_::import_("torch.utils._device").attr("DeviceContext");
  auto builtin = [&](const char* name) { return BuiltinCall::of_nothing(torch.attr(name).ptr()); };
  set.tensor_type = reinterpret_cast<PyTypeObject*>(tensor_type.release().ptr());
  set.parameter_type = reinterpret_cast<PyTypeObject*>(parameter_type.release().ptr());
  set.len_dispatch_stack = builtin("_len_torch_dispatch_stack");
  set.len_function_stack = builtin("_len_torch_function_stack");
  set.any_autocast_enabled = builtin("_is_any_autocast_enabled");
  set.functorch_active = builtin("_are_functorch_transforms_active");
  set.is_tracing = builtin("_is_tracing");
  set.forward_ad_globals = PyModule_GetDict(forward_ad.release().ptr());
  set.function_mode_at = nb::object(torch.attr("_get_function_stack_at")).release().ptr();
  set.device_mode_type = reinterpret_cast<PyTypeObject*>(device_mode.release().ptr());
  set.requires_grad = PyUnicode_InternFromString("requires_grad");
  set.current_level = PyUnicode_InternFromString("_current_level");
  set.wrap = reinterpret_cast<WrapTensor>(torch::symbol_beside(
      reinterpret_cast<const void*>(set.api->managed_tensor_to_py_object_no_sync),
      "_Z16THPVariable_WrapRKN2at10TensorBaseE"));
  g_hooks = set;
}

const DLPackExchangeAPI& tensor_exchange_api() {
  if (g_hooks.api == nullptr) throw Error(ErrorKind::kInternal, "torch: torch_init first");
  return *g_hooks.api;
}

WrapTensor wrap_tensor() {
  return g_hooks.wrap;
}

bool is_plain_tensor(PyObject* object) {
  return Py_TYPE(object) == g_hooks.tensor_type || Py_TYPE(object) == g_hooks.parameter_type;
}

bool is_observed() {
  bool (*is_recording)() = torch::shim().is_recording;
  if (is_recording != nullptr && is_recording()) return true;
  if (is_active(g_hooks.len_dispatch_stack) || has_function_modes() ||
      is_active(g_hooks.functorch_active) || is_active(g_hooks.is_tracing)) {
    return true;
  }
  PyObject* level = PyDict_GetItemWithError(g_hooks.forward_ad_globals, g_hooks.current_level);
  return level == nullptr || PyLong_AsLong(level) >= 0;
}

bool is_autocast_enabled() {
  return is_active(g_hooks.any_autocast_enabled);
}

bool requires_grad(PyObject* tensor) {
  nb::object flag = nb::steal(PyObject_GetAttr(tensor, g_hooks.requires_grad));
  if (!flag.is_valid()) PyErr_Clear();
  return flag.ptr() != Py_False;
}

}  // namespace kernelcore::bind
