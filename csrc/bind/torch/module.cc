#include "bind/torch/module.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>

#include "bind/torch/autograd.h"
#include "bind/torch/device.h"
#include "bind/torch/dispatch_state.h"
#include "bind/torch/fast_entry.h"
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

void torch_init(nb::object tensor_type, nb::object parameter_type,
                nb::object len_torch_dispatch_stack, nb::object len_torch_function_stack,
                nb::object forward_ad_module, nb::object functorch_active, nb::object is_tracing,
                nb::object any_autocast_enabled, nb::object function_mode_at,
                nb::object device_mode_type) {
  set_torch_hooks({std::move(tensor_type), std::move(parameter_type),
                   std::move(len_torch_dispatch_stack), std::move(len_torch_function_stack),
                   std::move(forward_ad_module), std::move(functorch_active), std::move(is_tracing),
                   std::move(any_autocast_enabled), std::move(function_mode_at),
                   std::move(device_mode_type)});
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
  m.def("torch_init", &torch_init, nb::arg("Tensor"), nb::arg("Parameter"),
        nb::arg("len_torch_dispatch_stack"), nb::arg("len_torch_function_stack"),
        nb::arg("forward_ad_module"), nb::arg("are_functorch_transforms_active"),
        nb::arg("is_tracing"), nb::arg("any_autocast_enabled").none() = nb::none(),
        nb::arg("function_mode_at").none() = nb::none(),
        nb::arg("device_mode_type").none() = nb::none(),
        "Bind the state that native calls look at.");
  m.def(
      "torch_impl",
      [](const std::string& ns, const std::string& name, const std::string& dispatch_key,
         uintptr_t thunk_address) {
        torch::implement_operator(ns, name, dispatch_key,
                                  reinterpret_cast<torch::BoxedKernel>(thunk_address));
      },
      nb::arg("ns"), nb::arg("opname"), nb::arg("dispatch_key"), nb::arg("thunk_address"),
      "Make a thunk the kernel of an operator for a dispatch key.");
  m.def(
      "torch_fast_entry",
      [](const TorchOperation& operation, const std::string& name, const std::string& doc,
         nb::object differentiated, nb::object slow) {
        return make_fast_entry(operation, name, doc, std::move(differentiated), std::move(slow));
      },
      nb::arg("operation"), nb::arg("name"), nb::arg("doc"), nb::arg("differentiated").none(),
      nb::arg("slow"),
      nb::sig("def torch_fast_entry(operation: TorchOperation, name: str, doc: str, "
              "differentiated: collections.abc.Callable[..., object] | None, "
              "slow: collections.abc.Callable[..., object]) -> collections.abc.Callable[..., "
              "typing.Any]"),
      "A built-in function for eager calls that falls back to the operator.");
}

}  // namespace kernelcore::bind
