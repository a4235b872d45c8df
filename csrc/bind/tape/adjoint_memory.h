// Whether an adjoint may run on given arrays.
#pragma once

#include <nanobind/nanobind.h>

#include <tuple>
#include <vector>

#include "core/launch_descriptor.h"

namespace kernelcore::bind {

/// The rule for the arrays of a primal and its adjoint: a cotangent has the shape of its array,
/// and neither cotangents nor arrays that the primal writes share elements.
class AdjointMemory {
 public:
  /// A parameter of the adjoint, its parameter of the primal, and whether the adjoint writes it.
  using Derivative = std::tuple<size_t, size_t, bool>;

  /// `written` says which parameters the primal writes; `cotangents` may be tangents.
  AdjointMemory(const LaunchDescriptor& primal, const LaunchDescriptor& adjoint,
                std::vector<bool> written, std::vector<Derivative> cotangents);

  const LaunchDescriptor& adjoint() const { return *adjoint_; }

  /// None if `args` of the primal and `actual` of the adjoint keep the rule, else a reason code:
  /// ("shape", array, expected, found), ("shared", array, other) or ("repeated", array), where an
  /// array is a parameter of the primal and whether its cotangent is meant. Throws an argument
  /// Error if one does not fit its parameter.
  nanobind::object fault(nanobind::handle args, nanobind::handle actual) const;

 private:
  const LaunchDescriptor* primal_;
  const LaunchDescriptor* adjoint_;
  std::vector<bool> written_;
  std::vector<Derivative> cotangents_;
};

}  // namespace kernelcore::bind
