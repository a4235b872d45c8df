#include "bind/tape/adjoint_memory.h"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bind/array/array_memory.h"
#include "bind/bindings.h"
#include "bind/launch/launch.h"
#include "core/memory/aliasing.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

struct Known {
  ArrayView view;
  size_t parameter;
  bool is_cotangent;
  bool is_written;

  nb::tuple name() const { return nb::make_tuple(parameter, is_cotangent); }
};

nb::tuple shape_of(const Known* known) {
  return known != nullptr ? extents_of(known->view) : nb::tuple();
}

bool has_shape(const ArrayView& view, const Known* primal) {
  if (primal == nullptr) return view.ndim == 0;
  const ArrayView& wanted = primal->view;
  return view.ndim == wanted.ndim && std::equal(view.shape, view.shape + view.ndim, wanted.shape);
}

nb::object sharing_fault(const Known* known, size_t count) {
  for (size_t n = 0; n < count; ++n) {
    for (size_t k = 0; k < n; ++k) {
      bool matters = known[n].is_written || known[k].is_written;
      if (matters && may_overlap(known[n].view, known[k].view)) {
        return nb::make_tuple("shared", known[n].name(), known[k].name());
      }
    }
    if (known[n].is_written && !is_distinct(known[n].view)) {
      return nb::make_tuple("repeated", known[n].name());
    }
  }
  return nb::none();
}

}  // namespace

AdjointMemory::AdjointMemory(const LaunchDescriptor& primal, const LaunchDescriptor& adjoint,
                             std::vector<bool> written, std::vector<Derivative> cotangents)
    : primal_(&primal),
      adjoint_(&adjoint),
      written_(std::move(written)),
      cotangents_(std::move(cotangents)) {
  size_t count = primal_->slots.size();
  bool fits = written_.size() == count;
  for (auto [position, parameter, is_written] : cotangents_) {
    fits &= position < adjoint_->slots.size() && parameter < count;
  }
  if (!fits) throw nb::index_error("AdjointMemory: no such parameter");
}

nb::object AdjointMemory::fault(nb::handle args, nb::handle actual) const {
  size_t count = primal_->slots.size();
  if (nb::len(args) != count || nb::len(actual) != adjoint_->slots.size()) {
    throw nb::index_error("AdjointMemory: another number of arguments");
  }
  SmallBuffer<Known, 16> known(count + cotangents_.size());
  SmallBuffer<const Known*, 16> primals(count);
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    primals[i] = nullptr;
    if (primal_->slots[i].role == Role::kValue) continue;
    known[found] = {array_span(*primal_, i, nb::object(args[i])), i, false, written_[i]};
    primals[i] = &known[found++];
  }
  for (auto [position, parameter, is_written] : cotangents_) {
    ArrayView view = array_span(*adjoint_, position, nb::object(actual[position]));
    Known& one = known[found++] = {view, parameter, true, is_written};
    if (!has_shape(view, primals[parameter])) {
      return nb::make_tuple("shape", one.name(), shape_of(primals[parameter]), shape_of(&one));
    }
  }
  return sharing_fault(known.data(), found);
}

void bind_adjoint_memory(nb::module_& m) {
  nb::class_<AdjointMemory>(m, "AdjointMemory",
                            "The rule for the arrays of a primal and its adjoint.")
      .def(nb::init<const LaunchDescriptor&, const LaunchDescriptor&, std::vector<bool>,
                    std::vector<AdjointMemory::Derivative>>(),
           nb::arg("primal"), nb::arg("adjoint"), nb::arg("written"), nb::arg("cotangents"),
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>(),
           "`written` says which parameters the primal writes; `cotangents`, which may be "
           "tangents, are rows of a parameter of the adjoint, its parameter of the primal, and "
           "whether the adjoint writes it.")
      .def(
          "fault", &AdjointMemory::fault, nb::arg("args"), nb::arg("actual"),
          nb::sig("def fault(self, args: collections.abc.Sequence[typing.Any], "
                  "actual: collections.abc.Sequence[typing.Any]) -> tuple[typing.Any, ...] | None"),
          "None, or why the adjoint may not run: ('shape', array, expected, found), ('shared', "
          "array, other) or ('repeated', array). An array is a parameter of the primal, and "
          "whether its cotangent is meant.");
}

}  // namespace kernelcore::bind
