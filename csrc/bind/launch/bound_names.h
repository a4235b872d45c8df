// Names that code was made with, and the objects that they stood for.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace kernelcore::bind {

/// Names in dictionaries, or attributes of other objects, with the objects that they stand for.
/// What code was made with includes settings: where these change, no names hold until they are
/// replaced.
class BoundNames {
 public:
  /// Takes rows of (dictionary or other object, name, tuple of the object that it stands for, or
  /// None if it stands for nothing).
  explicit BoundNames(nanobind::list given) { replace(std::move(given)); }

  /// Takes other rows; the object stays the same.
  void replace(nanobind::list given);

  /// Whether all names stand for the same objects as before, and no setting has changed.
  bool hold() const;

  /// Lets no names hold that there are, and unless `may_hold`, no other names.
  static void forget_all(bool may_hold);

  /// What the names point into; None once the garbage collector has cleared it.
  nanobind::object rows;

 private:
  struct Name {
    PyObject* space;
    PyObject* name;
    PyObject* found;  // null: nothing
  };

  bool has_attribute(Name one) const;

  std::vector<Name> names_;
  // How often settings had changed when the rows were taken.
  uint64_t settings_ = 0;
};

}  // namespace kernelcore::bind
