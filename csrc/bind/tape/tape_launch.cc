#include <nanobind/stl/vector.h>

#include <span>

#include "bind/array/array_memory.h"
#include "bind/bindings.h"
#include "bind/launch/launch.h"
#include "bind/tape/adjoint_memory.h"
#include "bind/tape/tape_memory.h"
#include "core/error.h"
#include "core/memory/small_buffer.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

/// The kinds of arguments, as the characters of a key.
enum Kind : char { kNumber = 'n', kOther = 'o', kConstant = 'c', kTracked = 't' };

using Indices = std::vector<size_t>;

/// The half of a LaunchPlan that native code follows: the backward pass needs the arguments of the
/// launch and nothing else, as long as they are not overwritten. Indices are parameters.
struct NativePlan {
  const LaunchDescriptor* descriptor;
  const AdjointMemory* adjoint;  // null: no cotangent passes
  Indices inputs;                // data arrays that are loaded
  Indices outputs;               // data arrays that are written
  Indices needs;                 // data arrays that the adjoint reads
  Indices primals;               // what the adjoint takes first
  Indices taken;                 // whose gradients it takes after that
};

// Names of attributes, and the classes that tell the kinds of arguments; never released.
PyObject* g_array_type = nullptr;
PyObject* g_number_type = nullptr;
PyObject* g_requires_grad = nullptr;
PyObject* g_grad = nullptr;

void set_argument_types(nb::handle array, nb::handle number) {
  g_array_type = array.inc_ref().ptr();
  g_number_type = number.inc_ref().ptr();
  g_requires_grad = PyUnicode_InternFromString("requires_grad");
  g_grad = PyUnicode_InternFromString("grad");
}

nb::object attribute(nb::handle object, PyObject* name) {
  nb::object found = nb::steal(PyObject_GetAttr(object.ptr(), name));
  if (!found.is_valid()) throw nb::python_error();
  return found;
}

bool is_instance(nb::handle object, PyObject* type) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == type) return true;
  int found = PyObject_IsInstance(object.ptr(), type);
  if (found < 0) throw nb::python_error();
  return found != 0;
}

Kind kind_of(nb::handle argument) {
  if (is_instance(argument, g_array_type)) {
    return attribute(argument, g_requires_grad).ptr() == Py_True ? kTracked : kConstant;
  }
  bool is_number = PyLong_Check(argument.ptr()) != 0 || PyFloat_Check(argument.ptr()) != 0 ||
                   is_instance(argument, g_number_type);
  return is_number ? kNumber : kOther;
}

nb::object kinds_of(const nb::tuple& arguments) {
  std::string kinds;
  for (nb::handle argument : arguments) kinds += kind_of(argument);
  return nb::bytes(kinds.data(), kinds.size());
}

const ArrayMemory& memory_of(const nb::tuple& arguments, size_t i) {
  return *array_memory_of(nb::handle(arguments[i]).ptr());
}

/// Of an entry of `Kernel.tape_plans`; null if there is none.
const NativePlan* native_plan(nb::handle entry) {
  return nb::cast<const NativePlan*>(nb::borrow<nb::tuple>(entry)[1]);
}

void add_key(const nb::dict& set, nb::handle key) {
  if (PyDict_SetItem(set.ptr(), key.ptr(), Py_None) != 0) throw nb::python_error();
}

/// Whether the launch has no fault, and overwrites nothing that the backward pass reads.
bool is_plain(const NativePlan& plan, const nb::tuple& arguments, TapeMemory& memory) {
  SmallBuffer<PyObject*, 16> arrays(plan.inputs.size() + plan.outputs.size());
  size_t count = 0;
  for (size_t i : plan.inputs) arrays[count++] = nb::handle(arguments[i]).ptr();
  for (size_t i : plan.outputs) {
    arrays[count] = nb::handle(arguments[i]).ptr();
    if (!memory.root_of(arrays[count++]).needs.empty()) return false;
  }
  std::span<PyObject* const> all(arrays.data(), count);
  return memory.fault(all.first(plan.inputs.size()), all.subspan(plan.inputs.size())).is_none();
}

/// Notes the writers and the needs of a record; the versions of what the adjoint reads.
nb::tuple keep(const NativePlan& plan, const nb::tuple& arguments, TapeMemory& memory,
               size_t record) {
  for (size_t i : plan.outputs) {
    const ArrayMemory& array = memory_of(arguments, i);
    memory.root_of(array).writers.emplace_back(array.version(), record);
  }
  nb::list versions;
  for (size_t i : plan.needs) {
    const ArrayMemory& array = memory_of(arguments, i);
    memory.root_of(array).needs.emplace_back(record, i);
    versions.append(array.version());
  }
  return nb::tuple(versions);
}

bool record_launch(TapeMemory& memory, nb::list records, nb::dict arrays, nb::dict written,
                   const nb::dict& plans, nb::handle dim, const nb::tuple& arguments,
                   nb::handle line) {
  nb::object known = nb::borrow(PyDict_GetItemWithError(plans.ptr(), kinds_of(arguments).ptr()));
  const NativePlan* found = known.is_valid() ? native_plan(known) : nullptr;
  if (found == nullptr || !is_plain(*found, arguments, memory)) return false;
  const NativePlan& plan = *found;
  if (!launch(*plan.descriptor, dim, arguments, nb::handle())) return false;
  nb::tuple versions = keep(plan, arguments, memory, nb::len(records));
  records.append(nb::make_tuple(known, dim, arguments, line, versions));
  for (size_t i : plan.inputs) add_key(arrays, arguments[i]);
  for (size_t i : plan.outputs) {
    add_key(arrays, arguments[i]);
    add_key(written, arguments[i]);
  }
  return true;
}

/// The arguments of the adjoint; invalid if one is missing.
nb::object adjoint_arguments(const NativePlan& plan, const nb::tuple& arguments) {
  nb::list actual;
  for (size_t i : plan.primals) actual.append(arguments[i]);
  for (size_t i : plan.taken) {
    nb::object gradient = attribute(arguments[i], g_grad);
    if (gradient.is_none()) return {};
    actual.append(gradient);
  }
  return actual;
}

bool has_fault(const AdjointMemory& adjoint, nb::handle arguments, nb::handle actual) {
  try {
    return !adjoint.fault(arguments, actual).is_none();
  } catch (const Error&) {
    return true;  // Python finds the same error, and names the launch.
  }
}

/// Runs the adjoint of a record that `record_launch` made; false, and nothing was run, if it is
/// for the general path in Python.
bool run_backwards(const nb::tuple& record) {
  const NativePlan& plan = *native_plan(record[0]);
  if (plan.adjoint == nullptr) return true;
  auto arguments = nb::borrow<nb::tuple>(record[2]);
  auto versions = nb::borrow<nb::tuple>(record[4]);
  for (size_t n = 0; n < plan.needs.size(); ++n) {
    uint64_t version = memory_of(arguments, plan.needs[n]).version();
    if (nb::cast<uint64_t>(versions[n]) != version) return false;
  }
  nb::object actual = adjoint_arguments(plan, arguments);
  if (!actual.is_valid() || has_fault(*plan.adjoint, arguments, actual)) return false;
  return launch(plan.adjoint->adjoint(), record[1], actual, nb::handle());
}

size_t replay_launches(const nb::list& records, size_t count) {
  for (; count > 0; --count) {
    nb::object record = records[count - 1];
    if (PyTuple_CheckExact(record.ptr()) == 0) break;
    if (!run_backwards(nb::borrow<nb::tuple>(record))) break;
  }
  return count;
}

}  // namespace

void bind_tape_launch(nb::module_& m) {
  nb::class_<NativePlan>(m, "NativePlan", "The half of a LaunchPlan that native code follows.")
      .def(nb::init<const LaunchDescriptor*, const AdjointMemory*, Indices, Indices, Indices,
                    Indices, Indices>(),
           nb::arg("descriptor"), nb::arg("adjoint").none(), nb::arg("inputs"), nb::arg("outputs"),
           nb::arg("needs"), nb::arg("primals"), nb::arg("taken"), nb::keep_alive<1, 2>(),
           nb::keep_alive<1, 3>(),
           "Parameters whose data arrays are loaded, written, and read by the adjoint; those that "
           "the adjoint takes first, and those whose gradients it takes after that.");
  m.def("set_argument_types", &set_argument_types, nb::arg("array"), nb::arg("number"),
        nb::sig("def set_argument_types(array: type, number: type) -> None"),
        "Set the class of data arrays, and that of NumPy's numbers.");
  m.def(
      "argument_kinds", &kinds_of, nb::arg("arguments"),
      nb::sig("def argument_kinds(arguments: tuple[typing.Any, ...]) -> bytes"),
      "The kind of each argument: a number (n), another library's array (o), a data array without "
      "(c) or with a gradient (t).");
  m.def("record_launch", &record_launch,
        nb::sig("def record_launch(memory: TapeMemory, records: list[typing.Any], "
                "arrays: dict[typing.Any, None], written: dict[typing.Any, None], "
                "plans: dict[bytes, tuple[typing.Any, NativePlan | None]], "
                "dim: typing.Any, "
                "arguments: tuple[typing.Any, ...], line: typing.Any, /) -> bool"),
        "Launch, and append a record: the entry of `plans`, `dim`, `arguments`, `line`, and the "
        "versions of what the adjoint reads. The arrays are added to `arrays`, those that are "
        "written to `written`. False, and nothing was run, if that is not enough.");
  m.def("replay_launches", &replay_launches,
        nb::sig("def replay_launches(records: list[typing.Any], count: int, /) -> int"),
        "Run the first `count` records backwards, the last first, up to one for the general path; "
        "how many are left.");
}

}  // namespace kernelcore::bind
