#include "bind/torch/fast_entry.h"

#include "bind/errors.h"
#include "bind/torch/dispatch_state.h"
#include "bind/torch/operands.h"
#include "torch/shim.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

struct FastEntry {
  TorchOperation operation;
  nb::object differentiated;
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
    Py_VISIT(entry->differentiated.ptr());
    Py_VISIT(entry->slow.ptr());
  }
  return 0;
}

int clear_entry(PyObject* self) noexcept {
  if (!nb::inst_ready(self)) return 0;
  auto* entry = nb::inst_ptr<FastEntry>(self);
  entry->differentiated = nb::none();
  entry->slow = nb::none();
  return 0;
}

PyType_Slot g_entry_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse_entry)},
                               {Py_tp_clear, reinterpret_cast<void*>(clear_entry)},
                               {0, nullptr}};

Verdict read_all(size_t count, PyObject* const* args, Operands& operands) {
  if (is_observed()) return Verdict::kUnusual;
  bool grad_mode = torch::shim().grad_mode_is_enabled();
  Verdict overall = Verdict::kPlain;
  for (size_t i = 0; i < count; ++i) {
    Verdict verdict = operands.read(i, args[i], grad_mode);
    if (verdict == Verdict::kUnusual) return verdict;
    if (verdict == Verdict::kNeedsGrad) overall = verdict;
  }
  return overall;
}

PyObject* call_fast(const FastEntry& entry, PyObject* const* args, Py_ssize_t count,
                    PyObject* keywords) {
  size_t wanted = entry.operation.operation->operands.size();
  PyObject* fallback = entry.slow.ptr();
  if (keywords == nullptr && static_cast<size_t>(count) == wanted) {
    Operands operands(entry.operation);
    Verdict verdict = read_all(wanted, args, operands);
    if (verdict == Verdict::kPlain) {
      nb::object results = operands.run();
      if (results.is_valid()) return results.release().ptr();
    }
    bool wants_grad = verdict == Verdict::kNeedsGrad && !entry.differentiated.is_none();
    if (wants_grad) fallback = entry.differentiated.ptr();
  }
  return PyObject_Vectorcall(fallback, args, static_cast<size_t>(count), keywords);
}

PyObject* fast_entry(PyObject* self, PyObject* const* args, Py_ssize_t count,
                     PyObject* keywords) noexcept {
  const auto* entry = nb::inst_ptr<const FastEntry>(self);
  return call_guarded([&] { return call_fast(*entry, args, count, keywords); });
}

}  // namespace

void bind_fast_entry(nb::module_& m) {
  nb::class_<FastEntry>(m, "TorchFastEntry", nb::type_slots(g_entry_slots),
                        "The state of one fast entry: its operation and its fallbacks.");
}

nb::object make_fast_entry(TorchOperation operation, const std::string& name,
                           const std::string& doc, nb::object differentiated, nb::object slow) {
  tensor_exchange_api();
  auto* entry = new FastEntry{
      std::move(operation), std::move(differentiated), std::move(slow), name, doc, PyMethodDef{}};
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
