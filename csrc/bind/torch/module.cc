#include "bind/torch/module.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bind/torch/dispatch_state.h"
#include "bind/torch/operation.h"
#include "core/error.h"
#include "torch/boxed.h"
#include "torch/boxed_out.h"
#include "torch/operation.h"
#include "torch/shim.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

using torch::Operation;
using FlatRule = std::tuple<int64_t, int64_t, int64_t>;
using FlatOperand = std::tuple<bool, int, int>;
using FlatResult = std::pair<int, std::vector<FlatRule>>;

DType parse_dtype(int code) {
  if (code < 0 || code >= kDTypeCount) {
    throw Error(ErrorKind::kInternal, "unknown dtype code " + std::to_string(code));
  }
  return static_cast<DType>(code);
}

std::vector<DimRule> parse_rules(const std::vector<FlatRule>& rules) {
  std::vector<int64_t> flat;
  for (const auto& [operand, axis, value] : rules) flat.insert(flat.end(), {operand, axis, value});
  return parse_dim_rules(flat);
}

void init_operation(TorchOperation* self, const LaunchDescriptor& descriptor,
                    const std::vector<FlatOperand>& operands,
                    const std::vector<FlatResult>& result_rules, size_t n_visible_results,
                    const std::vector<FlatRule>& grid_rule,
                    const TorchDeviceOperation* on_devices) {
  auto made = std::make_shared<Operation>();
  made->descriptor = descriptor;
  for (const auto& [is_array, dtype, ndim] : operands) {
    made->operands.push_back({is_array, parse_dtype(dtype), ndim});
  }
  for (const auto& [dtype, rules] : result_rules) {
    made->results.push_back({parse_dtype(dtype), parse_rules(rules)});
  }
  made->visible_count = n_visible_results;
  made->grid = parse_rules(grid_rule);
  made->validate();
  new (self)
      TorchOperation{std::move(made), on_devices != nullptr ? on_devices->operation : nullptr};
}

// torch never forgets an operator, so what its thunk points at stays for good as well.
std::pair<uintptr_t, uintptr_t> boxed(const TorchOperation& self, bool takes_outs) {
  static auto* kept = new std::vector<std::shared_ptr<const Operation>>();
  kept->push_back(self.operation);
  auto* function = takes_outs ? &kernelcore_torch_boxed_out : &kernelcore_torch_boxed;
  return {reinterpret_cast<uintptr_t>(function), reinterpret_cast<uintptr_t>(self.operation.get())};
}

}  // namespace

void bind_torch(nb::module_& m) {
  bind_fast_entry(m);
  bind_torch_device(m);
  nb::class_<TorchOperation>(m, "TorchOperation",
                             "A functional torch operation that runs one kernel.")
      .def("__init__", &init_operation, nb::arg("descriptor"), nb::arg("operands"),
           nb::arg("result_rules"), nb::arg("n_visible_results"), nb::arg("grid_rule"),
           nb::arg("on_devices") = nb::none(), "Of CPU tensors, and `on_devices` of those of GPUs.")
      .def("boxed", &boxed, nb::arg("takes_outs") = false,
           "Addresses of the boxed function and of the context that a thunk passes it last.");
  bind_torch_autograd(m);
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
