#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind/bindings.h"
#include "bind/errors.h"
#include "bind/function_object.h"
#include "bind/launch/operation.h"
#include "bind/released_gil.h"
#include "bind/torch/dispatch_state.h"
#include "bind/torch/operands.h"
#include "torch/shim.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

/// An operand that a result repeats, and for each of its axes that of the result.
using Repeated = std::pair<size_t, std::vector<size_t>>;

/// The adjoint for some cotangents that are given.
struct Adjoint {
  BoundOperation operation;
  std::vector<size_t> produced;    // the operands of the primal that its results are cotangents of
  std::vector<Repeated> repeated;  // where no result needs a launch, all results; else none
};

/// What calls save for one choice of operands that need cotangents, and how their backward runs.
struct GradPlan {
  nb::object choice;          // what `pull` knows the plan by
  std::vector<size_t> taken;  // operands of the primal that the adjoint takes, in order
  std::vector<size_t> sized;  // operands of which the shape is kept, not the elements
  // Runs forward in place of the operation. Its further results are saved; the adjoints are those
  // that take them, behind `taken`.
  std::optional<BoundOperation> saving;
  nb::object adjoint;   // (given results, as bits) -> Adjoint or None
  nb::object stand_in;  // (operand, shape, a tensor) -> what the adjoint takes for a sized operand
  nb::object pull;      // (choice, shapes, numbers, saved, cotangents) -> gradients
  // By the cotangents that are given, as bits; a null Adjoint means that `pull` runs.
  std::vector<std::pair<uint64_t, std::shared_ptr<const Adjoint>>> adjoints;
};

/// The forward of a function: the operation, and a plan per set of operands that need cotangents.
struct Forward : FunctionState {
  BoundOperation operation;
  nb::object plan;   // (needs_input_grad) -> GradPlan
  nb::object plans;  // a dictionary of those that were asked for
};

// The functions that plans call usually refer back to them.
using GradPlanSlots = CollectedSlots<GradPlan, &GradPlan::choice, &GradPlan::adjoint,
                                     &GradPlan::stand_in, &GradPlan::pull>;
using ForwardSlots = CollectedSlots<Forward, &Forward::plan, &Forward::plans>;

/// Attributes of the context that torch gives to forward and backward.
struct Names {
  PyObject* needs_input_grad = PyUnicode_InternFromString("needs_input_grad");
  PyObject* to_save = PyUnicode_InternFromString("to_save");
  PyObject* materialize_grads = PyUnicode_InternFromString("materialize_grads");
  PyObject* saved_tensors = PyUnicode_InternFromString("saved_tensors");
  PyObject* shape = PyUnicode_InternFromString("shape");
  PyObject* call = PyUnicode_InternFromString("call");
  PyObject* plan = PyUnicode_InternFromString("native_plan");
};

const Names& names() {
  static const Names all;
  return all;
}

nb::object checked(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

nb::object get(PyObject* object, PyObject* name) {
  return checked(held_at_exit([&] { return PyObject_GetAttr(object, name); }));
}

/// What `function`, which is in Python, returns.
nb::object called(const nb::object& function, std::initializer_list<PyObject*> args) {
  return checked(held_at_exit(
      [&] { return PyObject_Vectorcall(function.ptr(), args.begin(), args.size(), nullptr); }));
}

nb::object new_tuple(size_t size) {
  return checked(PyTuple_New(static_cast<Py_ssize_t>(size)));
}

PyObject* item(const nb::object& tuple, size_t index) {
  PyObject* found = PyTuple_GetItem(tuple.ptr(), static_cast<Py_ssize_t>(index));
  if (found == nullptr) throw nb::python_error();
  return found;
}

void set_item(const nb::object& tuple, size_t index, nb::object value) {
  PyObject* stolen = value.release().ptr();
  if (PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(index), stolen) != 0) {
    throw nb::python_error();
  }
}

[[noreturn]] void fail(const Operation& op, const std::string& what) {
  throw Error(ErrorKind::kInternal, op.descriptor.name + "(): " + what);
}

/// The plan that `object` is; contexts are in reach of users.
GradPlan& plan_in(const nb::object& object) {
  static const PyObject* const type = nb::type<GradPlan>().ptr();
  if (reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) != type || !nb::inst_ready(object)) {
    throw Error(ErrorKind::kInternal, "torch: a backward without its plan");
  }
  return *nb::inst_ptr<GradPlan>(object);
}

nb::object plan_of(Forward& forward, PyObject* context) {
  nb::object needs = get(context, names().needs_input_grad);
  PyObject* found = PyDict_GetItemWithError(forward.plans.ptr(), needs.ptr());
  if (found != nullptr) return nb::borrow(found);
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  nb::object made = called(forward.plan, {needs.ptr()});
  plan_in(made);
  forward.plans[needs] = made;
  return made;
}

/// Which of the shapes that are kept is that of operand `k`, if any.
std::optional<size_t> place_of_shape(const GradPlan& plan, size_t k) {
  auto found = std::find(plan.sized.begin(), plan.sized.end(), k);
  if (found == plan.sized.end()) return std::nullopt;
  return static_cast<size_t>(found - plan.sized.begin());
}

/// Leaves on `context` what the backward needs: tensors where torch watches over them.
void keep(const Operation& op, nb::object plan_object, PyObject* context, PyObject* const* args,
          const nb::object& saved) {
  const GradPlan& plan = plan_in(plan_object);
  size_t saved_count = nb::len(saved);
  size_t tensor_count = saved_count;
  auto keeps_tensor = [&](size_t k) { return op.operands[k].is_array && !place_of_shape(plan, k); };
  for (size_t k : plan.taken) tensor_count += keeps_tensor(k) ? 1 : 0;
  nb::object tensors = new_tuple(tensor_count);
  size_t filled = 0;
  for (size_t k : plan.taken) {
    if (keeps_tensor(k)) set_item(tensors, filled++, nb::borrow(args[k]));
  }
  for (size_t i = 0; i < saved_count; ++i) set_item(tensors, filled++, nb::borrow(item(saved, i)));
  nb::object shapes = new_tuple(plan.sized.size());
  for (size_t i = 0; i < plan.sized.size(); ++i) {
    set_item(shapes, i, get(args[plan.sized[i]], names().shape));
  }
  nb::object numbers = new_tuple(op.operands.size());
  for (size_t k = 0; k < op.operands.size(); ++k) {
    set_item(numbers, k, nb::borrow(op.operands[k].is_array ? Py_None : args[k]));
  }
  nb::object call = checked(PyTuple_Pack(3, plan.choice.ptr(), shapes.ptr(), numbers.ptr()));
  nb::handle attributes(context);
  attributes.attr(nb::handle(names().to_save)) = tensors;
  attributes.attr(nb::handle(names().materialize_grads)) = nb::handle(Py_False);
  attributes.attr(nb::handle(names().call)) = call;
  attributes.attr(nb::handle(names().plan)) = plan_object;
}

/// Takes all but the first `count` from `results`, a tuple, and returns them. `results` becomes
/// what a call returns: one result, or a tuple.
nb::object take_saved(nb::object& results, size_t count) {
  auto end = static_cast<Py_ssize_t>(count);
  nb::object others = checked(PyTuple_GetSlice(results.ptr(), end, PyTuple_Size(results.ptr())));
  results =
      count == 1 ? nb::borrow(item(results, 0)) : checked(PyTuple_GetSlice(results.ptr(), 0, end));
  return others;
}

// Called by the entry alone, which has seen that the arguments are plain.
PyObject* run_forward(Forward& forward, PyObject* const* args, Py_ssize_t count) {
  const Operation& op = *forward.operation.operation;
  if (static_cast<size_t>(count) != op.operands.size() + 1) fail(op, "a call past its entry");
  PyObject* context = *args++;
  nb::object plan = plan_of(forward, context);
  const auto& saving = plan_in(plan).saving;
  Operands operands(saving ? *saving : forward.operation);
  for (size_t i = 0; i < op.operands.size(); ++i) {
    if (operands.read(i, args[i], false) != Verdict::kPlain) fail(op, "a call past its entry");
  }
  nb::object results = operands.run();
  if (!results.is_valid()) fail(op, "torch has no memory for results below functionalization");
  nb::object saved = saving ? take_saved(results, op.visible_count) : new_tuple(0);
  keep(op, std::move(plan), context, args, saved);
  return results.release().ptr();
}

PyObject* forward_entry(PyObject* self, PyObject* const* args, Py_ssize_t count) noexcept {
  auto* forward = nb::inst_ptr<Forward>(self);
  return call_guarded([&] { return run_forward(*forward, args, count); });
}

// Shared: another thread may add one while this one runs without the GIL.
std::shared_ptr<const Adjoint> adjoint_for(GradPlan& plan, uint64_t given) {
  for (const auto& [seeds, adjoint] : plan.adjoints) {
    if (seeds == given) return adjoint;
  }
  nb::object number = nb::cast(given);
  nb::object made = called(plan.adjoint, {number.ptr()});
  std::shared_ptr<const Adjoint> adjoint;
  if (!made.is_none()) adjoint = std::make_shared<Adjoint>(nb::cast<Adjoint>(made));
  plan.adjoints.emplace_back(given, adjoint);
  return adjoint;
}

/// One call of a backward.
struct Backward {
  GradPlan& plan;
  nb::object shapes;
  nb::object numbers;
  nb::object saved;
  PyObject* const* cotangents;
  size_t cotangent_count;
};

/// What the adjoint takes for operand `k`, whose shape is the one at `place`. There is an adjoint
/// only where a cotangent is given.
nb::object stand_in_of(const Backward& call, size_t k, size_t place) {
  PyObject* const* end = call.cotangents + call.cotangent_count;
  PyObject* like = *std::find_if(call.cotangents, end, [](PyObject* c) { return c != Py_None; });
  nb::object operand = nb::cast(k);
  return called(call.plan.stand_in, {operand.ptr(), item(call.shapes, place), like});
}

/// Which cotangents are given, as bits; none if there are too many.
uint64_t given_of(const Backward& call) {
  if (call.cotangent_count > 64) return 0;
  uint64_t given = 0;
  for (size_t j = 0; j < call.cotangent_count; ++j) {
    if (call.cotangents[j] != Py_None) given |= uint64_t{1} << j;
  }
  return given;
}

/// The gradients, or an invalid object where something is unusual.
nb::object run_adjoint(const Backward& call, const Adjoint& adjoint) {
  const Operation& op = *adjoint.operation.operation;
  Operands operands(adjoint.operation);
  size_t filled = 0;
  SmallBuffer<PyObject*, 16> read_objects(op.operands.size());
  auto read = [&](PyObject* object) {
    if (filled == op.operands.size()) fail(op, "too many operands");
    read_objects[filled] = object;
    return operands.read_saved(filled++, object) == Verdict::kPlain;
  };
  size_t tensor = 0;
  std::vector<nb::object> stand_ins;
  for (size_t k : call.plan.taken) {
    if (auto place = place_of_shape(call.plan, k)) {
      stand_ins.push_back(stand_in_of(call, k, *place));
      if (!read(stand_ins.back().ptr())) return {};
      continue;
    }
    PyObject* number = item(call.numbers, k);
    if (!read(number != Py_None ? number : item(call.saved, tensor++))) return {};
  }
  for (size_t count = nb::len(call.saved); tensor < count; ++tensor) {
    if (!read(item(call.saved, tensor))) return {};
  }
  for (size_t j = 0; j < call.cotangent_count; ++j) {
    if (call.cotangents[j] != Py_None && !read(call.cotangents[j])) return {};
  }
  if (filled != op.operands.size()) fail(op, "too few operands");
  size_t count = nb::len(call.numbers);
  nb::object grads = new_tuple(count);
  for (size_t k = 0; k < count; ++k) set_item(grads, k, nb::none());
  for (size_t i = 0; i < adjoint.repeated.size(); ++i) {
    const auto& [operand, axes] = adjoint.repeated[i];
    set_item(grads, adjoint.produced[i],
             operands.repeated(i, operand, read_objects[operand], axes));
  }
  if (!adjoint.repeated.empty()) return grads;
  SmallBuffer<PyObject*, 16> found(op.visible_count);
  if (!operands.run(found.data())) return {};
  for (size_t i = 0; i < op.visible_count; ++i) {
    set_item(grads, adjoint.produced[i], nb::steal(found[i]));
  }
  return grads;
}

nb::object pull(const Backward& call) {
  nb::object cotangents = new_tuple(call.cotangent_count);
  for (size_t j = 0; j < call.cotangent_count; ++j) {
    set_item(cotangents, j, nb::borrow(call.cotangents[j]));
  }
  return called(call.plan.pull, {call.plan.choice.ptr(), call.shapes.ptr(), call.numbers.ptr(),
                                 call.saved.ptr(), cotangents.ptr()});
}

/// Whether no mode, transform or second derivative observes the steps of a backward.
bool is_unobserved() {
  return !torch::shim().grad_mode_is_enabled() && !is_observed();
}

PyObject* run_backward(PyObject* context, PyObject* const* cotangents, Py_ssize_t count) {
  nb::object plan_object = get(context, names().plan);
  nb::object call_object = get(context, names().call);
  // Once per backward: torch counts on it where what is saved is made again.
  nb::object saved = get(context, names().saved_tensors);
  Backward call{plan_in(plan_object),
                nb::borrow(item(call_object, 1)),
                nb::borrow(item(call_object, 2)),
                std::move(saved),
                cotangents,
                static_cast<size_t>(count)};
  uint64_t given = given_of(call);
  std::shared_ptr<const Adjoint> adjoint;
  if (given != 0 && is_unobserved()) adjoint = adjoint_for(call.plan, given);
  nb::object grads = adjoint != nullptr ? run_adjoint(call, *adjoint) : nb::object();
  if (!grads.is_valid()) grads = pull(call);
  return grads.release().ptr();
}

PyObject* backward_entry(PyObject* context, PyObject* const* cotangents,
                         Py_ssize_t count) noexcept {
  return call_guarded([&] { return run_backward(context, cotangents, count); });
}

PyMethodDef g_backward_method = {
    "apply", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&backward_entry)), METH_FASTCALL,
    "Run the backward pass of one call."};

nb::object make_forward(const BoundOperation& operation, std::string name, nb::object plan) {
  auto forward = std::make_unique<Forward>(FunctionState{std::move(name)}, operation,
                                           std::move(plan), nb::dict());
  return make_function(std::move(forward), &forward_entry, METH_FASTCALL);
}

void init_adjoint(Adjoint* self, const BoundOperation& operation, std::vector<size_t> produced,
                  std::vector<Repeated> repeated) {
  size_t count = operation.operation->visible_count;
  if (produced.size() != count || (!repeated.empty() && repeated.size() != count)) {
    fail(*operation.operation, "results of an adjoint");
  }
  new (self) Adjoint{operation, std::move(produced), std::move(repeated)};
}

void init_plan(GradPlan* self, nb::object choice, std::vector<size_t> taken,
               std::vector<size_t> sized, std::optional<BoundOperation> saving, nb::object adjoint,
               nb::object stand_in, nb::object pull) {
  new (self) GradPlan{std::move(choice),  std::move(taken),    std::move(sized), std::move(saving),
                      std::move(adjoint), std::move(stand_in), std::move(pull),  {}};
}

}  // namespace

void bind_torch_autograd(nb::module_& m) {
  nb::class_<Adjoint>(m, "TorchAdjoint", "The adjoint of an operation for given cotangents.")
      .def("__init__", &init_adjoint, nb::arg("operation"), nb::arg("produced"),
           nb::arg("repeated"));
  nb::class_<GradPlan>(m, "TorchGradPlan", nb::type_slots(GradPlanSlots::slots),
                       "What a call of an operation keeps, and how its backward runs.")
      .def("__init__", &init_plan, nb::arg("choice"), nb::arg("taken"), nb::arg("sized"),
           nb::arg("saving").none(), nb::arg("adjoint"), nb::arg("stand_in"), nb::arg("pull"));
  nb::class_<Forward>(m, "TorchForward", nb::type_slots(ForwardSlots::slots),
                      "The state of the forward of an autograd function.");
  m.def("torch_forward", &make_forward, nb::arg("operation"), nb::arg("name"), nb::arg("plan"),
        nb::sig("def torch_forward(operation: Operation, name: str, "
                "plan: collections.abc.Callable[[tuple[bool, ...]], TorchGradPlan]) -> "
                "collections.abc.Callable[..., typing.Any]"),
        "A forward(context, *args) for calls that a fast entry found plain.");
  m.def(
      "torch_backward",
      [](nb::handle node_type) {
        auto* type = reinterpret_cast<PyTypeObject*>(node_type.ptr());
        return checked(PyDescr_NewMethod(type, &g_backward_method));
      },
      nb::arg("node_type"),
      "The method `apply` of the nodes that `torch_forward` leaves in autograd's graph.");
}

}  // namespace kernelcore::bind
