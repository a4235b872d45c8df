#include "bind/tape/tape_memory.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bind/bindings.h"

namespace nb = nanobind;

namespace kernelcore::bind {

TapeRoot& TapeMemory::root_of(const ArrayMemory& array) {
  // Elements of an unordered_map keep their addresses.
  auto [entry, is_new] = roots_.try_emplace(array.storage.get());
  TapeRoot& root = entry->second;
  if (!is_new) return root;
  root.storage = array.storage;
  root.keeper = array.keeper;
  for (auto& [storage, other] : roots_) {
    bool is_shared = storage->begin < array.storage->end && array.storage->begin < storage->end;
    if (&other == &root || !is_shared) continue;
    root.aliases.push_back(&other);
    other.aliases.push_back(&root);
    has_aliases_ = true;
  }
  return root;
}

nb::object TapeMemory::fault(std::span<PyObject* const> inputs,
                             std::span<PyObject* const> outputs) {
  for (auto arrays : {inputs, outputs}) {
    for (PyObject* array : arrays) {
      if (root_of(array).has_gap() && nb::cast<bool>(nb::handle(array).attr("requires_grad"))) {
        return nb::make_tuple("gap", nb::handle(array));
      }
    }
  }
  if (has_aliases_) {
    for (PyObject* array : outputs) {
      if (!root_of(array).aliases.empty()) return nb::make_tuple("alias", nb::handle(array));
    }
    for (PyObject* array : inputs) {
      bool is_written = std::ranges::any_of(root_of(array).aliases, &TapeRoot::is_written);
      if (is_written) return nb::make_tuple("alias", nb::handle(array));
    }
  }
  for (PyObject* array : outputs) root_of(array).is_written = true;
  return nb::none();
}

bool TapeMemory::overlaps(uintptr_t begin, uintptr_t end) const {
  return std::ranges::any_of(roots_, [&](const auto& entry) {
    return begin < entry.first->end && entry.first->begin < end;
  });
}

void bind_tape_memory(nb::module_& m) {
  nb::class_<TapeMemory>(m, "TapeMemory",
                         "What a Tape knows of the memory of arrays; records are numbers.")
      .def(nb::init<>())
      .def(
          "fault",
          [](TapeMemory& self, const nb::list& inputs, const nb::list& outputs) {
            std::vector<PyObject*> loaded, written;
            for (nb::handle array : inputs) loaded.push_back(array.ptr());
            for (nb::handle array : outputs) written.push_back(array.ptr());
            return self.fault(loaded, written);
          },
          nb::arg("inputs"), nb::arg("outputs"),
          nb::sig("def fault(self, inputs: list[typing.Any], outputs: list[typing.Any]) "
                  "-> tuple[str, typing.Any] | None"),
          "None, or why a record that loads and writes these arrays may not be made, and the "
          "array. 'gap': memory with a gradient was written and not recorded; 'alias': memory that "
          "is written shares bytes with an array that is no view of it. If None, `outputs` count "
          "as written.")
      .def("overlaps", &TapeMemory::overlaps, nb::arg("begin"), nb::arg("end"),
           "Whether known memory has bytes from `begin` up to `end`.")
      .def(
          "writers",
          [](TapeMemory& self, const ArrayMemory& array) { return self.root_of(array).writers; },
          nb::arg("array"), "The version after each recorded write, and the record.")
      .def(
          "take_needs",
          [](TapeMemory& self, const ArrayMemory& array) {
            return std::exchange(self.root_of(array).needs, {});
          },
          nb::arg("array"),
          "The records whose backward pass reads the memory, with the parameter; forgets them.")
      .def(
          "need",
          [](TapeMemory& self, const ArrayMemory& array, size_t record, size_t parameter) {
            self.root_of(array).needs.emplace_back(record, parameter);
          },
          nb::arg("array"), nb::arg("record"), nb::arg("parameter"),
          "Note that the backward pass of a record reads the array.")
      .def(
          "wrote",
          [](TapeMemory& self, const ArrayMemory& array, size_t record) {
            self.root_of(array).writers.emplace_back(array.version(), record);
          },
          nb::arg("array"), nb::arg("record"), "Note that a record has written the array.");
}

}  // namespace kernelcore::bind
