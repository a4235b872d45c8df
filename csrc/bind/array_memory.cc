#include "bind/array_memory.h"

#include "core/error.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

void init_array_memory(ArrayMemory* self, nb::handle data, const ArrayMemory* base) {
  Leases leases(1);
  ArrayInfo info{};
  switch (read_array(data.ptr(), true, info, leases)) {
    case ReadStatus::kOk:
      break;
    case ReadStatus::kNotAnArray:
      throw nb::type_error("ArrayMemory: expected an array");
    case ReadStatus::kRefused:
      throw nb::python_error();
  }
  if (info.view.ndim > kMaxArrayDims) throw nb::value_error("ArrayMemory: too many dimensions");
  new (self) ArrayMemory{info, base != nullptr ? base->version : std::make_shared<uint64_t>(0)};
}

}  // namespace

ArrayMemory* array_memory_of(PyObject* object) {
  return nb::inst_ready(object) ? nb::inst_ptr<ArrayMemory>(object) : nullptr;
}

bool is_array_memory(PyTypeObject* type) {
  auto* base = reinterpret_cast<PyTypeObject*>(nb::type<ArrayMemory>().ptr());
  return base != nullptr && PyType_IsSubtype(type, base) != 0;
}

void bind_array_memory(nb::module_& m) {
  nb::class_<ArrayMemory>(m, "ArrayMemory", "What launches read of a data array.")
      .def("__init__", &init_array_memory, nb::arg("data"), nb::arg("base").none(),
           nb::sig("def __init__(self, data: object, base: ArrayMemory | None) -> None"),
           "Of the memory of an array, whose count of writes is that of `base` if that is given.")
      .def_prop_ro(
          "version", [](const ArrayMemory& self) { return *self.version; },
          "How often the memory was written, through this array or another view of it.")
      .def(
          "mark_write", [](ArrayMemory& self) { ++*self.version; },
          "Count a write that neither a launch nor a method of the array made.");
}

}  // namespace kernelcore::bind
