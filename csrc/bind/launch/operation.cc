#include "bind/launch/operation.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "bind/bindings.h"
#include "bind/launch/argument.h"
#include "bind/launch/arguments.h"
#include "bind/launch/launch.h"
#include "bind/released_gil.h"
#include "core/error.h"
#include "core/run/pool.h"
#include "core/scalar.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

using FlatRules = std::vector<std::array<int64_t, kDimRuleFields>>;
using FlatOperand = std::tuple<bool, int, int>;
using FlatWindows = std::vector<std::array<int64_t, 4>>;
using FlatReads = std::tuple<int64_t, uint64_t, std::array<int64_t, 2>, FlatWindows>;
using FlatResult = std::pair<int, FlatRules>;

DType parse_dtype(int code) {
  if (code < 0 || code >= kDTypeCount) {
    throw Error(ErrorKind::kInternal, "unknown dtype code " + std::to_string(code));
  }
  return static_cast<DType>(code);
}

/// An operation whose code for a device `make` gives; null if it is None.
std::shared_ptr<const torch::DeviceOperation> placed_by(nb::object make) {
  if (make.is_none()) return nullptr;
  // Kept for ever, as the operator is: its destructor may not run where Python has ended.
  auto place = [kept = make.release()](int ordinal) -> torch::PlacedOperation {
    // A Python error propagates, and torch shows its text.
    nb::gil_scoped_acquire gil;
    using Kernel = std::shared_ptr<cuda::DeviceKernel>;
    auto [operation, kernel] = nb::cast<std::pair<BoundOperation, Kernel>>(kept(ordinal));
    return {std::move(operation.operation), std::move(kernel)};
  };
  return std::make_shared<const torch::DeviceOperation>(place);
}

void init_operation(BoundOperation* self, const LaunchDescriptor& descriptor,
                    const std::vector<FlatOperand>& operands,
                    const std::vector<FlatResult>& result_rules, size_t n_visible_results,
                    const FlatRules& grid_rule, nb::object on_devices,
                    const std::vector<FlatReads>& reads) {
  auto made = std::make_shared<Operation>();
  made->descriptor = descriptor;
  for (const auto& [is_array, dtype, ndim] : operands) {
    made->operands.push_back({is_array, parse_dtype(dtype), ndim});
  }
  if (reads.size() > operands.size()) {
    throw Error(ErrorKind::kInternal, descriptor.name + "(): reads of too many operands");
  }
  for (size_t i = 0; i < reads.size(); ++i) {
    OperandSpec& spec = made->operands[i];
    FlatWindows windows;
    std::tie(spec.reads, spec.swept_axes, spec.element, windows) = reads[i];
    for (auto [launch_axis, axis, low, high] : windows) {
      spec.windows.push_back({static_cast<int>(launch_axis), static_cast<int>(axis), low, high});
    }
  }
  for (const auto& [dtype, rules] : result_rules) {
    made->results.push_back({parse_dtype(dtype), parse_dim_rules(flat(rules))});
  }
  made->visible_count = n_visible_results;
  made->grid = parse_dim_rules(flat(grid_rule));
  made->validate();
  new (self) BoundOperation{std::move(made), placed_by(std::move(on_devices))};
}

/// Reads operand `index`, an array; of one that the kernel ignores the shape is enough.
ArrayView read_operand(const Operation& op, size_t index, PyObject* object, Keeper& keeper) {
  size_t parameter = op.parameter_of(index);
  ArrayInfo info;
  ReadStatus status = read_array(object, Access::kRead, info, keeper);
  bool is_read = status == ReadStatus::kOk;
  if (parameter == Operation::kNoParameter) {
    if (!is_read) {
      bool is_array = status != ReadStatus::kNotAnArray;
      throw op.descriptor.launch_error("expected an array, found " + type_name(object),
                                       is_array ? take_python_error() : "pass an array");
    }
  } else if (is_read) {
    info.is_read_only = false;  // A result that starts as a copy of it is written.
    check_array(op.descriptor, parameter, info, object);
  } else {
    PyErr_Clear();
    read_array_argument(op.descriptor, parameter, object, info, keeper);  // Throws the reason.
  }
  return info.view;
}

/// Reads result `index`, which must have the shape `expected`.
ArrayView read_result(const Operation& op, size_t index, PyObject* object,
                      const ArrayView& expected, Keeper& keeper) {
  size_t parameter = op.parameter_of_result(index);
  ArrayInfo info;
  const ArrayView& view = read_array_argument(op.descriptor, parameter, object, info, keeper).view;
  bool has_shape = std::equal(view.shape, view.shape + view.ndim, expected.shape);
  if (has_shape && view.is_contiguous()) return view;
  throw op.descriptor.argument_error(parameter,
                                     "expected a contiguous array of shape " +
                                         shape_text(expected) + ", found shape " + shape_text(view),
                                     "");
}

void run_operation(const BoundOperation& self, nb::handle operands, nb::handle results) {
  const Operation& op = *self.operation;
  size_t count = op.operands.size();
  Arguments given(operands, results);
  if (given.size() != count + op.visible_count) {
    throw op.descriptor.launch_error("expected " + std::to_string(count) + " operands and " +
                                         std::to_string(op.visible_count) + " results, found " +
                                         std::to_string(given.size()) + " arrays",
                                     "");
  }
  std::vector<Keeper> keepers(given.size());
  ViewBuffer views(count);
  ViewBuffer made(op.results.size());
  SmallBuffer<uint64_t, 16> numbers(count);
  // Values first: their conversion may run Python code, which could change arrays already read.
  for (size_t i = 0; i < count; ++i) {
    size_t parameter = op.parameter_of(i);
    if (op.operands[i].is_array) continue;
    if (parameter == Operation::kNoParameter) {
      read_ignored_number(op, i, given[i], &numbers[i]);
    } else {
      read_value_argument(op.descriptor, parameter, given[i],
                          reinterpret_cast<std::byte*>(&numbers[i]));
    }
    views[i].ndim = 0;
    views[i].data = &numbers[i];
  }
  for (size_t i = 0; i < count; ++i) {
    if (op.operands[i].is_array) views[i] = read_operand(op, i, given[i], keepers[i]);
  }
  for (size_t i = 0; i < op.visible_count; ++i) {
    op.shape_result(i, views.data(), made[i]);
    made[i] = read_result(op, i, given[count + i], made[i], keepers[count + i]);
  }
  OperationRun run(op, views.data(), made.data());
  {
    std::optional<ReleasedGil> released;
    if (run.may_block()) released.emplace();
    run.run(Pool::instance());
  }
}

}  // namespace

void read_ignored_number(const Operation& op, size_t index, PyObject* object, void* target) {
  DType dtype = op.operands[index].dtype;
  ScalarKind kind = traits_of(dtype).kind;
  store_integer(dtype, 0, target);
  if (kind == ScalarKind::kFloat || kind == ScalarKind::kBool) return;
  nb::object number = nb::steal(PyNumber_Index(object));
  int overflow = 0;
  int64_t value =
      number.is_valid() ? PyLong_AsLongLongAndOverflow(number.ptr(), &overflow) : int64_t{};
  if (!number.is_valid()) {
    throw op.descriptor.launch_error("a shape: expected an integer", take_python_error());
  }
  if (overflow != 0 || !holds(dtype, value)) {
    throw op.descriptor.launch_error("a shape: expected an extent below 2**31, found more", "");
  }
  store_integer(dtype, static_cast<uint64_t>(value), target);
}

void bind_operation(nb::module_& m) {
  nb::class_<BoundOperation>(m, "Operation", "A kernel as a pure function of arrays.")
      .def("__init__", &init_operation, nb::arg("descriptor"), nb::arg("operands"),
           nb::arg("result_rules"), nb::arg("n_visible_results"), nb::arg("grid_rule"),
           nb::arg("on_devices") = nb::none(), nb::arg("reads") = std::vector<FlatReads>(),
           nb::sig("def __init__(self, descriptor: LaunchDescriptor, "
                   "operands: collections.abc.Sequence[tuple[bool, int, int]], "
                   "result_rules: collections.abc.Sequence[tuple[int, "
                   "collections.abc.Sequence[collections.abc.Sequence[int]]]], "
                   "n_visible_results: int, "
                   "grid_rule: collections.abc.Sequence[collections.abc.Sequence[int]], "
                   "on_devices: collections.abc.Callable[[int], tuple[Operation, DeviceKernel]] | "
                   "None = None, "
                   "reads: collections.abc.Sequence[tuple[int, int, tuple[int, int], "
                   "collections.abc.Sequence[tuple[int, int, int, int]]]] = ()) -> None"),
           "`reads` says per operand how many elements a point reads, along which axes, as bits, "
           "it loops, the extents of the last axes that code for packed arrays takes for an "
           "element, and per window the axis of the launch, that of the operand, and the least and "
           "the greatest distance from the launch index. `on_devices` makes the operation and its "
           "code for torch's CUDA tensors on the "
           "device of an ordinal, once.")
      .def(
          "prepare",
          [](const BoundOperation& self, int ordinal) { self.on_devices->prepare(ordinal); },
          nb::arg("ordinal"),
          "Make the code for a device, and raise why an earlier run there failed: in a call of the "
          "operator, torch would turn both into errors of its own.")
      .def("run", &run_operation, nb::arg("operands"), nb::arg("results"),
           nb::sig("def run(self, operands: collections.abc.Sequence[object], "
                   "results: collections.abc.Sequence[object]) -> None"),
           "Write what the kernel makes of `operands` to contiguous arrays, apart from them.");
}

}  // namespace kernelcore::bind
