#include "bind/tape/tape_memory.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;

namespace kernelcore::bind {

TapeRoot& TapeMemory::root_of(const ArrayMemory& array) {
  // What a map holds stays where it is.
  auto [place, is_new] = roots_.try_emplace(array.storage.get());
  TapeRoot& root = place->second;
  if (!is_new) return root;
  root.storage = array.storage;
  root.keeper = array.keeper;
  for (auto& [storage, other] : roots_) {
    bool is_shared = storage->begin < array.storage->end && array.storage->begin < storage->end;
    if (&other == &root || !is_shared) continue;
    root.twins.push_back(&other);
    other.twins.push_back(&root);
    has_twins_ = true;
  }
  return root;
}

bool TapeMemory::overlaps(uintptr_t begin, uintptr_t end) const {
  for (const auto& [storage, root] : roots_) {
    if (begin < storage->end && storage->begin < end) return true;
  }
  return false;
}

namespace {

bool has_gradient(nb::handle array) {
  return nb::cast<bool>(array.attr("requires_grad"));
}

bool is_any_written(const std::vector<TapeRoot*>& roots) {
  for (const TapeRoot* root : roots) {
    if (root->is_written) return true;
  }
  return false;
}

/// What is wrong with a record that uses `inputs` and writes `outputs`: a word, and the array.
nb::object fault(TapeMemory& memory, const nb::list& inputs, const nb::list& outputs) {
  for (const nb::list& row : {inputs, outputs}) {
    for (nb::handle array : row) {
      TapeRoot& root = memory.root_of(nb::cast<const ArrayMemory&>(array));
      if (root.has_gap() && has_gradient(array)) return nb::make_tuple("gap", array);
    }
  }
  auto root = [&](nb::handle array) -> TapeRoot& {
    return memory.root_of(nb::cast<const ArrayMemory&>(array));
  };
  if (memory.has_twins()) {
    for (nb::handle array : outputs) {
      if (!root(array).twins.empty()) return nb::make_tuple("twin", array);
    }
    for (nb::handle array : inputs) {
      if (is_any_written(root(array).twins)) return nb::make_tuple("twin", array);
    }
  }
  for (nb::handle array : outputs) root(array).is_written = true;
  return nb::none();
}

}  // namespace

void bind_tape_memory(nb::module_& m) {
  nb::class_<TapeMemory>(m, "TapeMemory",
                         "What a Tape knows of the memory of arrays; records are numbers.")
      .def(nb::init<>())
      .def("fault", &fault, nb::arg("inputs"), nb::arg("outputs"),
           nb::sig("def fault(self, inputs: list[typing.Any], outputs: list[typing.Any]) "
                   "-> tuple[str, typing.Any] | None"),
           "What is wrong with a record of these arrays: 'gap', memory with a gradient was written "
           "unknown to the tape; 'twin', it is shared unknown to it; and the array. If nothing is, "
           "`outputs` are going to be written.")
      .def("overlaps", &TapeMemory::overlaps, nb::arg("begin"), nb::arg("end"),
           "Whether known memory has bytes from `begin` up to `end`.")
      .def(
          "writers",
          [](TapeMemory& self, const ArrayMemory& array) { return self.root_of(array).writers; },
          nb::arg("array"), "The count of writes after each record that wrote it, and the record.")
      .def(
          "take_needs",
          [](TapeMemory& self, const ArrayMemory& array) {
            return std::exchange(self.root_of(array).needs, {});
          },
          nb::arg("array"), "Who needs the memory, a record and its parameter each; forgets them.")
      .def(
          "need",
          [](TapeMemory& self, const ArrayMemory& array, size_t record, size_t parameter) {
            self.root_of(array).needs.emplace_back(record, parameter);
          },
          nb::arg("array"), nb::arg("record"), nb::arg("parameter"),
          "Note that a record needs what the array holds.")
      .def(
          "wrote",
          [](TapeMemory& self, const ArrayMemory& array, size_t record) {
            self.root_of(array).writers.emplace_back(array.version(), record);
          },
          nb::arg("array"), nb::arg("record"), "Note that a record has written the array.");
}

}  // namespace kernelcore::bind
