// Whether an adjoint may run on given arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>
#include <vector>

#include "core/launch_descriptor.h"

namespace kernelcore::bind {

/// What an adjoint asks of its arrays and of those of its primal.
class AdjointMemory {
 public:
  /// Of the adjoint `adjoint` of `primal`, which writes to the parameters that are `written`;
  /// `cotangents` are pairs of its parameters and those of the primal that they belong to.
  AdjointMemory(nanobind::object primal, nanobind::object adjoint, std::vector<bool> written,
                std::vector<std::pair<size_t, size_t>> cotangents);

  const Signature& adjoint() const { return *adjoint_; }

  /// Whether cotangents have the shapes of what they belong to, and neither they nor what the
  /// primal writes shares an element with another array. `args` are the arguments of the primal,
  /// `actual` those of the adjoint. Throws an argument Error if one does not fit its parameter.
  bool admits(nanobind::handle args, nanobind::handle actual) const;

 private:
  nanobind::object primal_owner_;
  nanobind::object adjoint_owner_;
  const Signature* primal_;
  const Signature* adjoint_;
  std::vector<bool> written_;
  std::vector<std::pair<size_t, size_t>> cotangents_;
};

void bind_adjoint_memory(nanobind::module_& m);

}  // namespace kernelcore::bind
