#include <nanobind/nanobind.h>
#include <structmember.h>

#include <algorithm>
#include <array>
#include <cstddef>

#include "bind/array/builtin_call.h"
#include "bind/bindings.h"
#include "bind/errors.h"
#include "bind/launch/bound_names.h"
#include "bind/launch/launch.h"
#include "bind/released_gil.h"
#include "core/error.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

/// Whether `given` is an int, as `max_blocks` and `block_dim` take; only GPUs use them.
bool is_count(PyObject* given) {
  int overflow = 0;
  return PyLong_CheckExact(given) != 0 && PyLong_AsLongLongAndOverflow(given, &overflow) >= 0;
}

bool is_none(PyObject* given) {
  return given == Py_None;
}

/// Whether `given` is None or names the CPU, where plain launches run.
bool is_host(PyObject* given) {
  return is_none(given) ||
         (PyUnicode_Check(given) != 0 && PyUnicode_CompareWithASCIIString(given, "cpu") == 0);
}

bool is_false(PyObject* given) {
  return given == Py_False;
}

/// A parameter of the general function, with the test of arguments that a plain launch accepts;
/// null: any argument.
struct EntryParameter {
  const char* name;
  bool (*is_plain)(PyObject* given);
};

// In order. `record_tape` does not matter: plain launches are not recorded.
const std::array kParameters = std::to_array<EntryParameter>({
    {"kernel", nullptr},
    {"dim", nullptr},
    {"inputs", nullptr},
    {"outputs", nullptr},
    {"adj_inputs", is_none},
    {"adj_outputs", is_none},
    {"device", is_host},
    {"stream", is_none},
    {"adjoint", is_false},
    {"record_tape", nullptr},
    {"record_cmd", is_false},
    {"max_blocks", is_count},
    {"block_dim", [](PyObject* given) { return is_none(given) || is_count(given); }},
});
constexpr size_t kCount = std::tuple_size_v<decltype(kParameters)>;

/// An argument per parameter; null: left out.
struct EntryArguments {
  std::array<PyObject*, kCount> all{};

  PyObject* kernel() const { return all[0]; }
  PyObject* dim() const { return all[1]; }
  PyObject* inputs() const { return all[2]; }
  PyObject* outputs() const { return all[3]; }
};

/// Python objects that the entry uses; never released, guarded by the GIL.
struct Entry {
  PyObject* general = nullptr;     // the function for all launches
  PyTypeObject* kernel = nullptr;  // the class of kernels
  PyObject* recorder = nullptr;    // returns the active recorder of launches, or None
  PyTypeObject* descriptor = nullptr;
  PyObject* fast_path = nullptr;  // the name of the attribute with the descriptor
  std::array<PyObject*, kCount> names{};
};

Entry g_entry;

/// Whether iterating over `arguments` runs no Python code and can be repeated.
bool is_sequence(PyObject* arguments) {
  return arguments == nullptr || PyList_CheckExact(arguments) != 0 ||
         PyTuple_CheckExact(arguments) != 0;
}

bool is_plain(size_t index, PyObject* given) {
  auto* is_plain = kParameters[index].is_plain;
  return is_plain == nullptr || is_plain(given);
}

/// Assigns the arguments of a call to parameters; false if it is not a plain launch.
bool sort_arguments(PyObject* const* given, size_t count, PyObject* keywords,
                    EntryArguments& sorted) {
  if (count > kCount) return false;
  // One by one: a wide load of the caller's recent stores would stall store forwarding.
  for (size_t i = 0; i < count; ++i) {
    if (!is_plain(i, given[i])) return false;
    sorted.all[i] = given[i];
  }
  size_t named = keywords != nullptr ? static_cast<size_t>(PyTuple_Size(keywords)) : 0;
  for (size_t k = 0; k < named; ++k) {
    // Names in calls are interned, as these are.
    PyObject* name = PyTuple_GetItem(keywords, static_cast<Py_ssize_t>(k));
    auto found = std::ranges::find(g_entry.names, name);
    auto at = static_cast<size_t>(found - g_entry.names.begin());
    bool is_new = at != kCount && sorted.all[at] == nullptr;
    if (!is_new || !is_plain(at, given[count + k])) return false;
    sorted.all[at] = given[count + k];
  }
  return sorted.kernel() != nullptr && sorted.dim() != nullptr && is_sequence(sorted.inputs()) &&
         is_sequence(sorted.outputs());
}

/// The descriptor of a fast path with names: a tuple of a descriptor, the kernel that it is of, and
/// names around it. Invalid if they stand for other objects than when it was compiled.
[[gnu::noinline]] nb::object current_descriptor(PyObject* path, nb::object& kernel) {
  if (PyTuple_CheckExact(path) == 0) return {};
  if (!nb::inst_ptr<const BoundNames>(PyTuple_GetItem(path, 2))->hold()) return {};
  kernel = nb::borrow(PyTuple_GetItem(path, 1));
  return nb::borrow(PyTuple_GetItem(path, 0));
}

/// The descriptor of `kernel` if it has a fast path on the CPU, else invalid; `kernel` becomes the
/// version that it is of. Another thread may replace the path while the launch runs.
nb::object fast_descriptor(nb::object& kernel) {
  if (Py_TYPE(kernel.ptr()) != g_entry.kernel) return {};
  nb::object path = nb::steal(PyObject_GetAttr(kernel.ptr(), g_entry.fast_path));
  if (!path.is_valid()) throw nb::python_error();
  if (Py_TYPE(path.ptr()) == g_entry.descriptor) return path;
  return current_descriptor(path.ptr(), kernel);
}

/// Whether `arguments` has None, which the general function replaces by an array without elements.
bool has_none(PyObject* arguments) {
  if (arguments == nullptr) return false;
  auto count = static_cast<Py_ssize_t>(nb::len(arguments));
  for (Py_ssize_t i = 0; i < count; ++i) {
    nb::object argument = nb::steal(PySequence_GetItem(arguments, i));
    if (argument.is_none()) return true;
  }
  return false;
}

bool is_recording() {
  nb::object recorder = call_function(g_entry.recorder, nullptr);
  if (!recorder.is_valid()) throw nb::python_error();
  return !recorder.is_none();
}

/// The descriptor that runs `kernel` on one thread.
[[gnu::noinline]] nb::object serial_descriptor(nb::handle kernel) {
  auto get = [](nb::handle object, const char* name) {
    PyObject* found = held_at_exit([&] { return PyObject_GetAttrString(object.ptr(), name); });
    if (found == nullptr) throw nb::python_error();
    return nb::steal(found);
  };
  return get(get(kernel, "executable"), "serial");
}

/// Launches; false, and nothing was run, if the general function has to.
bool launch_plainly(const EntryArguments& arguments) {
  nb::object kernel = nb::borrow(arguments.kernel());
  nb::object fast_path = fast_descriptor(kernel);
  if (!fast_path.is_valid() || is_recording()) return false;
  auto run = [&](nb::handle descriptor) {
    return launch(*nb::inst_ptr<const LaunchDescriptor>(descriptor), arguments.dim(),
                  arguments.inputs(), arguments.outputs());
  };
  try {
    if (!run(fast_path)) run(serial_descriptor(kernel));
    return true;
  } catch (const Error& error) {
    // None is refused before anything is run.
    if (has_none(arguments.inputs()) || has_none(arguments.outputs())) return false;
    if (error.kind() != ErrorKind::kElsewhere) throw;
    // Later launches will probably use the same device.
    nb::setattr(arguments.kernel(), g_entry.fast_path, nb::none());
    return false;
  }
}

/// None after a launch; the general function if that has to launch; null with an error set.
PyObject* try_plainly(PyObject* const* given, size_t count, PyObject* keywords) noexcept {
  return call_guarded([&] {
    EntryArguments arguments;
    bool is_launched =
        sort_arguments(given, count, keywords, arguments) && launch_plainly(arguments);
    return is_launched ? Py_None : g_entry.general;
  });
}

// The general function is called outside of `noexcept` code: at its end the interpreter unwinds
// threads.
PyObject* enter(PyObject*, PyObject* const* given, size_t count_and_flag, PyObject* keywords) {
  auto count = static_cast<size_t>(PyVectorcall_NARGS(count_and_flag));
  PyObject* tried = try_plainly(given, count, keywords);
  if (tried == g_entry.general) return PyObject_Vectorcall(tried, given, count, keywords);
  return Py_XNewRef(tried);
}

/// The entry as a Python object. A built-in function has no attributes, and torch.compile warns
/// about unknown built-ins.
struct EntryObject {
  PyObject head;
  vectorcallfunc call;
  PyObject* attributes;
  PyObject* weak_references;
};

PyObject* reduce_entry(PyObject*, PyObject*) {
  return PyUnicode_FromString("launch");
}

PyObject* represent_entry(PyObject*) {
  return PyUnicode_FromString("<function kernelcore.launch>");
}

/// With `__get__` help() takes it for a function, and shows its parameters; it binds nothing.
PyObject* get_entry(PyObject* self, PyObject*, PyObject*) {
  return Py_NewRef(self);
}

PyMemberDef g_entry_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(EntryObject, call), READONLY, nullptr},
    {"__dictoffset__", T_PYSSIZET, offsetof(EntryObject, attributes), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(EntryObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyMethodDef g_entry_methods[] = {{"__reduce__", reduce_entry, METH_NOARGS, nullptr},
                                 {nullptr, nullptr, 0, nullptr}};

PyGetSetDef g_entry_properties[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot g_entry_slots[] = {{Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                               {Py_tp_repr, reinterpret_cast<void*>(represent_entry)},
                               {Py_tp_descr_get, reinterpret_cast<void*>(get_entry)},
                               {Py_tp_members, g_entry_members},
                               {Py_tp_methods, g_entry_methods},
                               {Py_tp_getset, g_entry_properties},
                               {0, nullptr}};

PyType_Spec g_entry_spec = {"kernelcore._native.LaunchEntry", sizeof(EntryObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL, g_entry_slots};

nb::object make_launch_entry(nb::handle general, nb::handle kernel, nb::handle recorder) {
  for (size_t i = 0; i < kCount; ++i) {
    g_entry.names[i] = PyUnicode_InternFromString(kParameters[i].name);
  }
  g_entry.fast_path = PyUnicode_InternFromString("cpu_fast_path");
  g_entry.descriptor = reinterpret_cast<PyTypeObject*>(nb::type<LaunchDescriptor>().ptr());
  g_entry.general = general.inc_ref().ptr();
  g_entry.kernel = reinterpret_cast<PyTypeObject*>(kernel.inc_ref().ptr());
  g_entry.recorder = recorder.inc_ref().ptr();
  nb::object type = nb::steal(PyType_FromSpec(&g_entry_spec));
  nb::object made = nb::steal(
      type.is_valid() ? PyType_GenericAlloc(reinterpret_cast<PyTypeObject*>(type.ptr()), 0)
                      : nullptr);
  if (!made.is_valid()) throw nb::python_error();
  reinterpret_cast<EntryObject*>(made.ptr())->call = enter;
  return nb::borrow(made.inc_ref());
}

}  // namespace

void bind_launch_entry(nb::module_& m) {
  m.def("launch_entry", &make_launch_entry, nb::arg("general"), nb::arg("kernel"),
        nb::arg("recorder"),
        nb::sig("def launch_entry(general: collections.abc.Callable[..., typing.Any], "
                "kernel: type, recorder: collections.abc.Callable[[], object]) "
                "-> collections.abc.Callable[..., typing.Any]"),
        "`launch`: runs plain launches itself and calls `general` for the others. Plain launches "
        "have arrays of the CPU, a kernel of class `kernel` that has run before, and no recorder.");
}

}  // namespace kernelcore::bind
