#include "bind/tape/adjoint_memory.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "bind/launch/argument.h"
#include "core/run/exclusive.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

/// One of the arrays that are compared.
struct Known {
  ArrayView view;
  size_t item_bytes;
  bool is_written;
};

bool has_shape(const ArrayView& view, const ArrayView* wanted) {
  if (wanted == nullptr) return view.ndim == 0;
  return view.ndim == wanted->ndim && std::equal(view.shape, view.shape + view.ndim, wanted->shape);
}

bool is_apart(const Known* known, size_t count) {
  for (size_t n = 0; n < count; ++n) {
    if (known[n].is_written && !is_distinct(known[n].view, known[n].item_bytes)) return false;
    for (size_t k = 0; k < n; ++k) {
      bool matters = known[n].is_written || known[k].is_written;
      if (matters &&
          may_overlap(known[n].view, known[n].item_bytes, known[k].view, known[k].item_bytes)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace

AdjointMemory::AdjointMemory(nb::object primal, nb::object adjoint, std::vector<bool> written,
                             std::vector<std::pair<size_t, size_t>> cotangents)
    : primal_owner_(std::move(primal)),
      adjoint_owner_(std::move(adjoint)),
      primal_(nb::cast<const Signature*>(primal_owner_)),
      adjoint_(nb::cast<const Signature*>(adjoint_owner_)),
      written_(std::move(written)),
      cotangents_(std::move(cotangents)) {
  size_t count = primal_->relocations.size();
  bool fits = written_.size() == count;
  for (auto [place, parameter] : cotangents_) {
    fits &= place < adjoint_->relocations.size() && parameter < count;
  }
  if (!fits) throw nb::index_error("AdjointMemory: no such parameter");
}

bool AdjointMemory::admits(nb::handle args, nb::handle actual) const {
  size_t count = primal_->relocations.size();
  if (nb::len(args) != count || nb::len(actual) != adjoint_->relocations.size()) {
    throw nb::index_error("AdjointMemory: another number of arguments");
  }
  Leases leases(count + cotangents_.size());
  SmallBuffer<Known, 16> known(count + cotangents_.size());
  SmallBuffer<const ArrayView*, 16> primals(count);
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    const Relocation& r = primal_->relocations[i];
    primals[i] = nullptr;
    if (r.role == Role::kValue) continue;
    Known& one = known[found++];
    one.item_bytes = size_bytes(r.dtype);
    one.is_written = written_[i];
    nb::object argument = args[i];
    read_array_argument(*primal_, i, argument.ptr(), one.view, leases);
    primals[i] = &one.view;
  }
  for (auto [place, parameter] : cotangents_) {
    Known& one = known[found++];
    one.item_bytes = size_bytes(adjoint_->relocations[place].dtype);
    one.is_written = true;
    nb::object argument = actual[place];
    read_array_argument(*adjoint_, place, argument.ptr(), one.view, leases);
    if (!has_shape(one.view, primals[parameter])) return false;
  }
  return is_apart(known.data(), found);
}

void bind_adjoint_memory(nb::module_& m) {
  nb::class_<AdjointMemory>(m, "AdjointMemory",
                            "What an adjoint asks of its arrays and of those of its primal.")
      .def(nb::init<nb::object, nb::object, std::vector<bool>,
                    std::vector<std::pair<size_t, size_t>>>(),
           nb::arg("primal"), nb::arg("adjoint"), nb::arg("written"), nb::arg("cotangents"),
           nb::sig("def __init__(self, primal: Signature, adjoint: Signature, "
                   "written: collections.abc.Sequence[bool], "
                   "cotangents: collections.abc.Sequence[tuple[int, int]]) -> None"),
           "`written` says which parameters the primal writes; `cotangents` are pairs of a "
           "parameter of the adjoint and that of the primal.")
      .def("admits", &AdjointMemory::admits, nb::arg("args"), nb::arg("actual"),
           nb::sig("def admits(self, args: collections.abc.Sequence[typing.Any], "
                   "actual: collections.abc.Sequence[typing.Any]) -> bool"),
           "Whether cotangents have the shapes of their arrays, and neither they nor what the "
           "primal wrote shares memory.");
}

}  // namespace kernelcore::bind
