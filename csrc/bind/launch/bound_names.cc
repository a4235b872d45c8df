#include "bind/launch/bound_names.h"

#include "bind/bindings.h"
#include "bind/function_object.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

/// Whether `name` stands for `found` in `space`; null: for nothing.
bool stands_for(PyObject* space, PyObject* name, PyObject* found) {
  bool is_dict = PyDict_Check(space) != 0;
  PyObject* now = is_dict ? PyDict_GetItemWithError(space, name) : PyObject_GetAttr(space, name);
  if (now == nullptr) PyErr_Clear();
  // `found`, if it is that, has a reference of its own.
  if (!is_dict) Py_XDECREF(now);
  return now == found;
}

}  // namespace

BoundNames::BoundNames(nb::list given) : rows(nb::tuple(given)) {
  for (nb::handle row : rows) {
    nb::object found = row[2];
    PyObject* object = found.is_none() ? nullptr : nb::object(found[0]).ptr();
    names_.push_back({nb::object(row[0]).ptr(), nb::object(row[1]).ptr(), object});
  }
}

bool BoundNames::hold() const {
  if (rows.is_none()) return false;
  for (const Name& one : names_) {
    if (!stands_for(one.space, one.name, one.found)) return false;
  }
  return true;
}

void bind_bound_names(nb::module_& m) {
  nb::class_<BoundNames>(m, "BoundNames",
                         nb::type_slots(CollectedSlots<BoundNames, &BoundNames::rows>::slots),
                         "Names that code was made with, and the objects that they stood for.")
      .def(nb::init<nb::list>(), nb::arg("rows"),
           nb::sig("def __init__(self, rows: list[tuple[object, str, tuple[object] | None]]) -> "
                   "None"))
      .def("hold", &BoundNames::hold, "Whether all names stand for the same objects as before.");
}

}  // namespace kernelcore::bind
