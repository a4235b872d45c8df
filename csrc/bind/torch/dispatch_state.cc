#include "bind/torch/dispatch_state.h"

#include "bind/array/builtin_call.h"
#include "bind/array/dlpack_import.h"
#include "core/error.h"

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
};

// Set once by set_torch_hooks, then only read; the references are never given back.
Hooks g_hooks;

/// Whether `function()` is truthy; an error counts as true.
bool is_active(const BuiltinCall& function) {
  if (!function.is_valid()) return false;
  nb::object result = function();
  int truth = result.is_valid() ? PyObject_IsTrue(result.ptr()) : -1;
  if (truth < 0) PyErr_Clear();
  return truth != 0;
}

/// Whether a mode other than torch's default device looks at calls; an error counts as true.
bool has_function_modes() {
  nb::object count = g_hooks.len_function_stack();
  long left = count.is_valid() ? PyLong_AsLong(count.ptr()) : -1;
  while (left > 0 && g_hooks.function_mode_at != nullptr) {
    nb::object place = nb::steal(PyLong_FromLong(left - 1));
    nb::object mode = call_function(g_hooks.function_mode_at, place.ptr());
    if (!mode.is_valid() || Py_TYPE(mode.ptr()) != g_hooks.device_mode_type) break;
    --left;
  }
  if (PyErr_Occurred() != nullptr) PyErr_Clear();
  return left != 0;
}

}  // namespace

void set_torch_hooks(TorchHooks hooks) {
  Hooks set;
  const DLPackExchangeAPI* api = exchange_api_of(hooks.tensor_type.ptr());
  if (api == nullptr) {
    throw Error(ErrorKind::kInternal,
                "torch: Tensor has no DLPack C exchange API; 2.10 or newer is needed");
  }
  set.api = api;
  set.forward_ad_globals = PyModule_GetDict(hooks.forward_ad_module.release().ptr());
  set.tensor_type = reinterpret_cast<PyTypeObject*>(hooks.tensor_type.release().ptr());
  set.parameter_type = reinterpret_cast<PyTypeObject*>(hooks.parameter_type.release().ptr());
  set.len_dispatch_stack = BuiltinCall::of_nothing(hooks.len_dispatch_stack.ptr());
  set.len_function_stack = BuiltinCall::of_nothing(hooks.len_function_stack.ptr());
  set.functorch_active = BuiltinCall::of_nothing(hooks.functorch_active.ptr());
  set.is_tracing = BuiltinCall::of_nothing(hooks.is_tracing.ptr());
  if (!hooks.any_autocast_enabled.is_none()) {
    set.any_autocast_enabled = BuiltinCall::of_nothing(hooks.any_autocast_enabled.ptr());
  }
  if (!hooks.function_mode_at.is_none()) {
    set.function_mode_at = hooks.function_mode_at.release().ptr();
    set.device_mode_type = reinterpret_cast<PyTypeObject*>(hooks.device_mode_type.release().ptr());
  }
  set.requires_grad = PyUnicode_InternFromString("requires_grad");
  set.current_level = PyUnicode_InternFromString("_current_level");
  g_hooks = set;
}

const DLPackExchangeAPI& tensor_exchange_api() {
  if (g_hooks.api == nullptr) throw Error(ErrorKind::kInternal, "torch: torch_init first");
  return *g_hooks.api;
}

bool is_plain_tensor(PyObject* object) {
  return Py_TYPE(object) == g_hooks.tensor_type || Py_TYPE(object) == g_hooks.parameter_type;
}

bool is_observed() {
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
