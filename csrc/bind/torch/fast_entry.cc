#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>

#include "bind/bindings.h"
#include "bind/errors.h"
#include "bind/function_object.h"
#include "bind/launch/bound_names.h"
#include "bind/released_gil.h"
#include "bind/torch/dispatch_state.h"
#include "bind/torch/operands.h"
#include "torch/shim.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

struct FastEntry : FunctionState {
  BoundOperation operation;
  nb::object differentiated;
  nb::object slow;
  nb::object names;    // around the kernel; None: none
  nb::object changed;  // called where they stand for something else
};

// A fallback usually refers back to the module that holds the entry.
using FastEntrySlots = CollectedSlots<FastEntry, &FastEntry::differentiated, &FastEntry::slow,
                                      &FastEntry::names, &FastEntry::changed>;

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
  if (!entry.names.is_none() && !nb::inst_ptr<const BoundNames>(entry.names)->hold()) {
    fallback = entry.changed.ptr();
  } else if (keywords == nullptr && static_cast<size_t>(count) == wanted) {
    Operands operands(entry.operation);
    Verdict verdict = read_all(wanted, args, operands);
    if (verdict == Verdict::kPlain) {
      nb::object results = operands.run();
      if (results.is_valid()) return results.release().ptr();
    }
    bool wants_grad = verdict == Verdict::kNeedsGrad && !entry.differentiated.is_none();
    if (wants_grad) fallback = entry.differentiated.ptr();
  }
  return held_at_exit(
      [&] { return PyObject_Vectorcall(fallback, args, static_cast<size_t>(count), keywords); });
}

PyObject* fast_entry(PyObject* self, PyObject* const* args, Py_ssize_t count,
                     PyObject* keywords) noexcept {
  const auto* entry = nb::inst_ptr<const FastEntry>(self);
  return call_guarded([&] { return call_fast(*entry, args, count, keywords); });
}

nb::object make_fast_entry(const BoundOperation& operation, std::string name,
                           nb::object differentiated, nb::object slow,
                           const std::optional<nb::handle_t<BoundNames>>& names,
                           nb::object changed) {
  tensor_exchange_api();
  auto entry = std::make_unique<FastEntry>(
      FunctionState{std::move(name)}, operation, std::move(differentiated), std::move(slow),
      names ? nb::borrow(*names) : nb::none(), std::move(changed));
  return make_function(std::move(entry), &fast_entry, METH_FASTCALL | METH_KEYWORDS);
}

}  // namespace

void bind_torch_fast_entry(nb::module_& m) {
  nb::class_<FastEntry>(m, "TorchFastEntry", nb::type_slots(FastEntrySlots::slots),
                        "The state of one fast entry: its operation and its fallbacks.");
  m.def("torch_fast_entry", &make_fast_entry, nb::arg("operation"), nb::arg("name"),
        nb::arg("differentiated").none(), nb::arg("slow"), nb::arg("names") = nb::none(),
        nb::arg("changed") = nb::none(),
        nb::sig("def torch_fast_entry(operation: Operation, name: str, "
                "differentiated: collections.abc.Callable[..., object] | None, "
                "slow: collections.abc.Callable[..., object], names: BoundNames | None = None, "
                "changed: collections.abc.Callable[..., object] | None = None) "
                "-> collections.abc.Callable[..., typing.Any]"),
        "A built-in function that runs `operation` at once on plain tensors of the CPU or one GPU. "
        "It calls `differentiated` when autograd has to know (None: `slow` does that too), and "
        "`slow` whenever the call is not plain: subclasses, modes, transforms, other devices; and "
        "`changed` where `names` do not hold.");
}

}  // namespace kernelcore::bind
