#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "bind/bindings.h"
#include "bind/launch/operation.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

using torch::DeviceOperation;
using torch::PlacedOperation;

/// Calls `make` for a device; a Python error propagates, and torch shows its text.
PlacedOperation place(const nb::object& make, int ordinal) {
  nb::gil_scoped_acquire gil;
  using Kernel = std::shared_ptr<cuda::DeviceKernel>;
  auto [operation, kernel] = nb::cast<std::pair<BoundOperation, Kernel>>(make(ordinal));
  return {std::move(operation.operation), std::move(kernel)};
}

void init_operation(BoundDeviceOperation* self, std::vector<bool> is_tensor, nb::object make) {
  // Kept for ever, as the operator is: its destructor may not run where Python has ended.
  nb::handle kept = make.release();
  auto placing = [kept](int ordinal) { return place(nb::borrow(kept), ordinal); };
  new (self) BoundDeviceOperation{
      std::make_shared<const DeviceOperation>(std::move(is_tensor), std::move(placing))};
}

}  // namespace

void bind_torch_device(nb::module_& m) {
  nb::class_<BoundDeviceOperation>(m, "TorchDeviceOperation",
                                   "A functional torch operation on CUDA devices.")
      .def("__init__", &init_operation, nb::arg("is_tensor"), nb::arg("make"),
           nb::sig("def __init__(self, is_tensor: collections.abc.Sequence[bool], "
                   "make: collections.abc.Callable[[int], tuple[Operation, DeviceKernel]]) "
                   "-> None"),
           "Whether the schema has a tensor for each operand, and what makes the operation and its "
           "code for the device of an ordinal, once.")
      .def(
          "prepare",
          [](const BoundDeviceOperation& self, int ordinal) { self.operation->prepare(ordinal); },
          nb::arg("ordinal"),
          "Make the code for a device, and raise why an earlier run there failed: in a call of the "
          "operator, torch would turn both into errors of its own.");
}

}  // namespace kernelcore::bind
