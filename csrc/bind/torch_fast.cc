#include "bind/torch_fast.h"

#include <new>
#include <optional>

#include "bind/argument.h"
#include "bind/errors.h"
#include "bind/launch.h"
#include "core/functional.h"
#include "core/pool.h"
#include "torch/shim.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

using torch::Operation;

struct Hooks {
  PyTypeObject* tensor_type = nullptr;
  PyTypeObject* parameter_type = nullptr;
  PyObject* len_dispatch_stack = nullptr;
  PyObject* len_function_stack = nullptr;
  PyObject* any_autocast_enabled = nullptr;
  PyObject* forward_ad_globals = nullptr;
  PyObject* requires_grad = nullptr;
  PyObject* current_level = nullptr;
  const DLPackExchangeAPI* api = nullptr;
};

// Set once by set_torch_hooks, then only read; the references are never given back.
Hooks g_hooks;

struct FastEntry {
  std::shared_ptr<const Operation> operation;
  nb::object slow_grad;
  nb::object slow;
  std::string name;
  std::string doc;
  PyMethodDef method;
};

// A fallback usually refers back to the module that holds the entry: the collector must see it.
int traverse_entry(PyObject* self, visitproc visit, void* arg) noexcept {
  Py_VISIT(Py_TYPE(self));
  if (nb::inst_ready(self)) {
    const auto* entry = nb::inst_ptr<FastEntry>(self);
    Py_VISIT(entry->slow_grad.ptr());
    Py_VISIT(entry->slow.ptr());
  }
  return 0;
}

int clear_entry(PyObject* self) noexcept {
  auto* entry = nb::inst_ptr<FastEntry>(self);
  entry->slow_grad = nb::none();
  entry->slow = nb::none();
  return 0;
}

PyType_Slot g_entry_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_entry)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear_entry)},
                               {0, nullptr}};

enum class Verdict { kPlain, kNeedsGrad, kUnusual };

/// Whether `function()` is truthy; an error counts as true.
bool is_active(PyObject* function) {
  if (function == nullptr) return false;
  nb::object result = nb::steal(PyObject_CallNoArgs(function));
  int truth = result.is_valid() ? PyObject_IsTrue(result.ptr()) : -1;
  if (truth < 0) PyErr_Clear();
  return truth != 0;
}

bool is_transformed() {
  if (is_active(g_hooks.len_dispatch_stack) || is_active(g_hooks.len_function_stack) ||
      is_active(g_hooks.any_autocast_enabled)) {
    return true;
  }
  PyObject* level = PyDict_GetItemWithError(g_hooks.forward_ad_globals, g_hooks.current_level);
  return level == nullptr || PyLong_AsLong(level) >= 0;
}

bool requires_grad(PyObject* tensor) {
  nb::object flag = nb::steal(PyObject_GetAttr(tensor, g_hooks.requires_grad));
  if (!flag.is_valid()) PyErr_Clear();
  return flag.ptr() != Py_False;
}

/// Arguments of one call on their way to the kernel.
struct Operands {
  explicit Operands(size_t count) : views(count), scalars(count), leases(count) {}
  ViewBuffer views;
  SmallBuffer<uint64_t, 16> scalars;
  Leases leases;
};

Verdict read_tensor(const Operation& op, size_t index, PyObject* object, bool grad_mode,
                    Operands& operands) {
  if (Py_TYPE(object) != g_hooks.tensor_type && Py_TYPE(object) != g_hooks.parameter_type) {
    return Verdict::kUnusual;
  }
  size_t parameter = op.parameter_of(index);
  ArrayInfo info;
  if (read_array(object, false, info, operands.leases) != ReadStatus::kOk) {
    PyErr_Clear();
    return Verdict::kUnusual;
  }
  bool plain = parameter != Operation::kNoParameter && info.device.device_type == kDLCPU &&
               !info.has_lazy_sign && (info.view.data != nullptr || info.view.numel() == 0);
  if (!plain) return Verdict::kUnusual;
  check_array(op.signature, parameter, info, object);
  operands.views[index] = info.view;
  return grad_mode && requires_grad(object) ? Verdict::kNeedsGrad : Verdict::kPlain;
}

Verdict read_scalar(const Operation& op, size_t index, PyObject* object, Operands& operands) {
  size_t parameter = op.parameter_of(index);
  bool is_bool = PyBool_Check(object) != 0;
  bool is_number = PyFloat_CheckExact(object) != 0 || PyLong_CheckExact(object) != 0;
  bool plain = op.operands[index].dtype == DType::kBool ? is_bool : is_number;
  if (!plain || parameter == Operation::kNoParameter) return Verdict::kUnusual;
  uint64_t* slot = &operands.scalars[index];
  read_value_argument(op.signature, parameter, object, reinterpret_cast<std::byte*>(slot));
  operands.views[index].ndim = 0;
  operands.views[index].data = slot;
  return Verdict::kPlain;
}

Verdict read_operands(const Operation& op, PyObject* const* args, Operands& operands) {
  if (is_transformed()) return Verdict::kUnusual;
  bool grad_mode = torch::shim().grad_mode_is_enabled();
  Verdict overall = Verdict::kPlain;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    Verdict verdict = op.operands[i].is_array ? read_tensor(op, i, args[i], grad_mode, operands)
                                              : read_scalar(op, i, args[i], operands);
    if (verdict == Verdict::kUnusual) return verdict;
    if (verdict == Verdict::kNeedsGrad) overall = verdict;
  }
  return overall;
}

void set_allocation_error(void*, const char*, const char* message) {
  PyErr_SetString(PyExc_MemoryError, message);
}

nb::object empty_by_exchange(const torch::ResultSpec& spec, ArrayView& view) {
  DLTensor prototype{};
  prototype.device = {kDLCPU, 0};
  prototype.ndim = view.ndim;
  prototype.dtype = dtype_to_dlpack(spec.dtype);
  prototype.shape = view.shape;
  DLManagedTensorVersioned* managed = nullptr;
  if (g_hooks.api->managed_tensor_allocator(&prototype, &managed, nullptr, set_allocation_error) !=
      0) {
    throw nb::python_error();
  }
  view.data = static_cast<std::byte*>(managed->dl_tensor.data) + managed->dl_tensor.byte_offset;
  void* object = nullptr;
  if (g_hooks.api->managed_tensor_to_py_object_no_sync(managed, &object) != 0) {
    throw nb::python_error();
  }
  return nb::steal(static_cast<PyObject*>(object));
}

nb::object run_operation(const Operation& op, Operands& operands) {
  ViewBuffer results(op.results.size());
  nb::object single;
  nb::object all;
  bool is_single = op.visible_count == 1;
  if (!is_single) {
    all = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(op.visible_count)));
    if (!all.is_valid()) throw nb::python_error();
  }
  for (size_t i = 0; i < op.visible_count; ++i) {
    op.shape_result(i, operands.views.data(), results[i]);
    nb::object tensor = empty_by_exchange(op.results[i], results[i]);
    if (is_single) {
      single = std::move(tensor);
    } else {
      PyTuple_SetItem(all.ptr(), static_cast<Py_ssize_t>(i), tensor.release().ptr());
    }
  }
  torch::HiddenResults hidden(op, operands.views.data(), results.data());
  Launch launch = op.launch_for(operands.views.data(), results.data());
  {
    std::optional<nb::gil_scoped_release> released;
    if (launch.total > kInlinePoints || op.signature.may_block) released.emplace();
    run_functional(op.signature, operands.views.data(), results.data(), launch, Pool::instance());
  }
  return is_single ? single : all;
}

PyObject* call_fast(const FastEntry& entry, PyObject* const* args, Py_ssize_t count,
                    PyObject* keywords) {
  const Operation& op = *entry.operation;
  PyObject* fallback = entry.slow.ptr();
  if (keywords == nullptr && static_cast<size_t>(count) == op.operands.size()) {
    Operands operands(op.operands.size());
    Verdict verdict = read_operands(op, args, operands);
    if (verdict == Verdict::kPlain) return run_operation(op, operands).release().ptr();
    if (verdict == Verdict::kNeedsGrad && !entry.slow_grad.is_none()) {
      fallback = entry.slow_grad.ptr();
    }
  }
  return PyObject_Vectorcall(fallback, args, static_cast<size_t>(count), keywords);
}

PyObject* fast_entry(PyObject* self, PyObject* const* args, Py_ssize_t count,
                     PyObject* keywords) noexcept {
  const auto* entry = nb::inst_ptr<const FastEntry>(self);
  try {
    return call_fast(*entry, args, count, keywords);
  } catch (const Error& error) {
    set_python_error(error);
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return nullptr;
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
  set.len_dispatch_stack = hooks.len_dispatch_stack.release().ptr();
  set.len_function_stack = hooks.len_function_stack.release().ptr();
  if (!hooks.any_autocast_enabled.is_none()) {
    set.any_autocast_enabled = hooks.any_autocast_enabled.release().ptr();
  }
  set.requires_grad = PyUnicode_InternFromString("requires_grad");
  set.current_level = PyUnicode_InternFromString("_current_level");
  g_hooks = set;
}

void bind_fast_entry(nb::module_& m) {
  nb::class_<FastEntry>(m, "TorchFastEntry", nb::type_slots(g_entry_slots),
                        "The state of one fast entry: its operation and its fallbacks.");
}

nb::object make_fast_entry(std::shared_ptr<const Operation> operation, const std::string& name,
                           const std::string& doc, nb::object slow_grad, nb::object slow) {
  if (g_hooks.api == nullptr) throw Error(ErrorKind::kInternal, "torch: torch_init first");
  auto* entry = new FastEntry{
      std::move(operation), std::move(slow_grad), std::move(slow), name, doc, PyMethodDef{}};
  nb::object self = nb::cast(entry, nb::rv_policy::take_ownership);
  auto function = reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&fast_entry));
  entry->method = {entry->name.c_str(), function, METH_FASTCALL | METH_KEYWORDS,
                   entry->doc.c_str()};
  // The function holds `self`, which holds the method table that the function points to.
  nb::str module("kernelcore");
  nb::object made = nb::steal(PyCFunction_NewEx(&entry->method, self.ptr(), module.ptr()));
  if (!made.is_valid()) throw nb::python_error();
  return made;
}

}  // namespace kernelcore::bind
