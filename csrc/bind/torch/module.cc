#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "bind/bindings.h"
#include "bind/launch/operation.h"
#include "bind/torch/dispatch_state.h"
#include "torch/threads.h"

namespace nb = nanobind;

namespace kernelcore::bind {
void bind_torch(nb::module_& m) {
  torch::watch_forks();
  bind_torch_fast_entry(m);
  bind_torch_autograd(m);
  m.def(
      "torch_boxed",
      [](const BoundOperation& self) {
        // torch never forgets an operator, so what its thunk points at stays for good as well.
        const auto* context = new torch::Operator(self);
        return std::pair(reinterpret_cast<uintptr_t>(&kernelcore_torch_boxed),
                         reinterpret_cast<uintptr_t>(context));
      },
      nb::arg("operation"),
      "Addresses of the boxed function and of the context that a thunk passes it last.");
  m.def("torch_bind", &torch::load_shim, nb::arg("libtorch_cpu_path"),
        "Bind torch's stable C functions, of a library that this process has loaded.");
  m.def("torch_init", &set_tensor_types, nb::arg("Tensor"), nb::arg("Parameter"),
        "Bind the classes of plain tensors, and the state of torch that native calls look at.");
  m.def(
      "torch_impl",
      [](const std::string& ns, const std::string& name, const std::string& dispatch_key,
         uintptr_t thunk_address) {
        torch::implement_operator(ns, name, dispatch_key,
                                  reinterpret_cast<torch::BoxedKernel>(thunk_address));
      },
      nb::arg("ns"), nb::arg("opname"), nb::arg("dispatch_key"), nb::arg("thunk_address"),
      "Make a thunk the kernel of an operator for a dispatch key.");
}

}  // namespace kernelcore::bind
