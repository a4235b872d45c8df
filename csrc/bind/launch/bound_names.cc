#include "bind/launch/bound_names.h"

#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include "bind/array/builtin_call.h"
#include "bind/bindings.h"
#include "bind/errors.h"
#include "bind/function_object.h"
#include "bind/released_gil.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

// How often settings have changed, and whether they let names hold; guarded by the GIL.
uint64_t g_settings = 0;
bool g_may_hold = true;

}  // namespace

void BoundNames::replace(nb::list given) {
  nb::object kept = nb::tuple(given);
  std::vector<Name> names;
  for (nb::handle row : kept) {
    nb::object found = row[2];
    PyObject* object = found.is_none() ? nullptr : nb::object(found[0]).ptr();
    names.push_back({nb::object(row[0]).ptr(), nb::object(row[1]).ptr(), object});
  }
  // What is let go may run Python code, which may ask whether the names hold.
  names_ = std::move(names);
  settings_ = g_settings;
  std::swap(rows, kept);
}

bool BoundNames::hold() const {
  if (rows.is_none() || settings_ != g_settings || !g_may_hold) return false;
  for (size_t i = 0; i < names_.size(); ++i) {
    const Name& one = names_[i];
    if (PyDict_Check(one.space) == 0) {
      if (!has_attribute(one)) return false;
      continue;
    }
    // No Python code runs: all keys of namespaces are strings.
    PyObject* now = PyDict_GetItemWithError(one.space, one.name);
    if (now == nullptr) drop_exception();
    if (now != one.found) return false;
  }
  return true;
}

/// Whether an attribute is as it was, and the names are.
[[gnu::noinline]] bool BoundNames::has_attribute(Name one) const {
  // Attributes may run Python code and other threads, which may replace the names.
  nb::object kept = rows;
  nb::object now = nb::steal(held_at_exit([&] { return PyObject_GetAttr(one.space, one.name); }));
  if (!now.is_valid()) drop_exception();
  return now.ptr() == one.found && rows.is(kept);
}

void BoundNames::forget_all(bool may_hold) {
  ++g_settings;
  g_may_hold = may_hold;
}

namespace {

struct Following : FunctionState {
  nb::object names;
  nb::object function;
  nb::object find;
};

using FollowingSlots =
    CollectedSlots<Following, &Following::names, &Following::function, &Following::find>;

/// Takes the names that stand for something else now, and the function for them.
[[gnu::noinline]] void follow(Following& state) {
  nb::object given = call_function(state.find.ptr(), nullptr);
  if (!given.is_valid()) throw nb::python_error();
  nb::tuple found = nb::cast<nb::tuple>(given);
  nb::object names = found[0], function = found[1];
  std::swap(state.names, names);
  std::swap(state.function, function);
}

PyObject* call_following(PyObject* self, PyObject* const* args, Py_ssize_t count,
                         PyObject* keywords) noexcept {
  auto* state = nb::inst_ptr<Following>(self);
  nb::object function;
  PyObject* found = call_guarded([&] {
    // Another thread may replace both meanwhile.
    nb::object names = state->names;
    if (names.is_none() || !nb::inst_ptr<const BoundNames>(names)->hold()) follow(*state);
    function = state->function;
    return Py_None;
  });
  if (found == nullptr) return nullptr;
  return held_at_exit([&] {
    return PyObject_Vectorcall(function.ptr(), args, static_cast<size_t>(count), keywords);
  });
}

nb::object make_following(nb::handle find, std::string name) {
  auto state = std::make_unique<Following>(FunctionState{std::move(name)});
  state->find = nb::borrow(find);
  state->names = nb::none();
  return make_function(std::move(state), &call_following, METH_FASTCALL | METH_KEYWORDS);
}

}  // namespace

void bind_bound_names(nb::module_& m) {
  nb::class_<BoundNames>(m, "BoundNames",
                         nb::type_slots(CollectedSlots<BoundNames, &BoundNames::rows>::slots),
                         "Names that code was made with, and the objects that they stood for.")
      .def(nb::init<nb::list>(), nb::arg("rows"),
           nb::sig("def __init__(self, rows: list[tuple[object, str, tuple[object] | None]]) -> "
                   "None"))
      .def("replace", &BoundNames::replace, nb::arg("rows"),
           nb::sig("def replace(self, rows: list[tuple[object, str, tuple[object] | None]]) -> "
                   "None"),
           "Take other names in place of these.")
      .def("hold", &BoundNames::hold,
           "Whether all names stand for the same objects as before, and no setting has changed.");
  m.def("forget_bound_names", &BoundNames::forget_all, nb::arg("may_hold"),
        "Let no names hold until they are replaced, since a setting has changed; none at all "
        "unless `may_hold`, so that all calls ask Python.");
  nb::class_<Following>(m, "Following", nb::type_slots(FollowingSlots::slots),
                        "The state of one function that follows names.");
  m.def("following", &make_following, nb::arg("find"), nb::arg("name"),
        nb::sig("def following(find: collections.abc.Callable[[], "
                "tuple[BoundNames, collections.abc.Callable[..., object]]], name: str) "
                "-> collections.abc.Callable[..., typing.Any]"),
        "A built-in function that calls what `find` gives, which is asked again where the names "
        "that came with it do not hold.");
}

}  // namespace kernelcore::bind
