#include "core/run/operation.h"

#include <algorithm>

#include "core/error.h"
#include "core/run/functional.h"
#include "core/run/packed_operands.h"
#include "core/scalar.h"

namespace kernelcore {
namespace {

[[noreturn]] void fail(const Operation& op, const std::string& what) {
  throw Error(ErrorKind::kInternal,
              op.descriptor.name + "(): malformed operation description: " + what);
}

// Rules may name operands that are arrays and, for the grid, results after them.
void check_rules(const Operation& op, const std::vector<DimRule>& rules, bool may_name_results) {
  for (const DimRule& rule : rules) {
    if (rule.operand < 0) {
      if (rule.value < 0) fail(op, "negative extent");
      continue;
    }
    auto index = static_cast<size_t>(rule.operand);
    size_t ndim = 0;
    if (rule.axis == DimRule::kValue) {
      bool is_integer = index < op.operands.size() && !op.operands[index].is_array &&
                        (traits_of(op.operands[index].dtype).kind == ScalarKind::kInt ||
                         traits_of(op.operands[index].dtype).kind == ScalarKind::kUInt);
      if (!is_integer) fail(op, "dimension rule");
      continue;
    }
    if (index < op.operands.size()) {
      const OperandSpec& operand = op.operands[index];
      ndim = operand.is_array ? static_cast<size_t>(operand.ndim) : 0;
    } else if (may_name_results && index - op.operands.size() < op.results.size()) {
      ndim = op.results[index - op.operands.size()].dims.size();
    }
    if (static_cast<size_t>(rule.axis) >= ndim) fail(op, "dimension rule");
  }
}

void check_slot(const Operation& op, const ParameterSlot& slot) {
  auto in_range = [](int index, size_t size) {
    return index >= 0 && static_cast<size_t>(index) < size;
  };
  if (slot.operand >= 0) {
    if (!in_range(slot.operand, op.operands.size())) fail(op, "operand index");
    const OperandSpec& operand = op.operands[static_cast<size_t>(slot.operand)];
    int ndim = slot.role == Role::kValue ? 0 : slot.ndim;
    if (operand.dtype != slot.dtype || operand.ndim != ndim) fail(op, "operand type");
    if (slot.role != Role::kValue && !operand.is_array) fail(op, "operand kind");
  } else if (slot.role == Role::kInput || slot.role == Role::kInOut) {
    fail(op, "parameter without operand");
  }
  if (!slot.is_written()) return;
  if (!in_range(slot.result, op.results.size())) fail(op, "result index");
  const ResultSpec& result = op.results[static_cast<size_t>(slot.result)];
  if (result.dtype != slot.dtype || result.dims.size() != static_cast<size_t>(slot.ndim)) {
    fail(op, "result type");
  }
}

/// The value of operand `index`, which is an extent.
int64_t size_in(const Operation& op, size_t index, const ArrayView& view) {
  int64_t value = load_integer(op.operands[index].dtype, view.data);
  if (value >= 0 && value < kExtentLimit) return value;
  std::string problem =
      "expected an extent of a shape, 0 to 2**31 - 1, found " + std::to_string(value);
  std::string help =
      value < 0 ? "extents are not negative" : "split the launch: indices of kernels have 32 bits";
  size_t parameter = op.parameter_of(index);
  if (parameter != Operation::kNoParameter) {
    throw op.descriptor.argument_error(parameter, problem, help);
  }
  throw op.descriptor.launch_error("a shape: " + problem, help);
}

int64_t extent(const Operation& op, const DimRule& rule, const ArrayView* operand_views,
               const ArrayView* result_views) {
  if (rule.operand < 0) return rule.value;
  auto index = static_cast<size_t>(rule.operand);
  if (rule.axis == DimRule::kValue) return size_in(op, index, operand_views[index]);
  const ArrayView& view =
      index < op.operands.size() ? operand_views[index] : result_views[index - op.operands.size()];
  return view.shape[rule.axis];
}

}  // namespace

void Operation::validate() const {
  descriptor.validate();
  if (visible_count > results.size()) fail(*this, "visible results");
  if (descriptor.grid_rank != 0 && grid.size() != static_cast<size_t>(descriptor.grid_rank)) {
    fail(*this, "grid rank");
  }
  if (grid.size() > static_cast<size_t>(kMaxGridDims)) fail(*this, "grid rank");
  for (const OperandSpec& operand : operands) {
    if (operand.ndim < 0 || operand.ndim > kMaxArrayDims) fail(*this, "operand rank");
    int next_axis = 0;  // One window per axis, in the order of axes.
    for (const ReadWindow& window : operand.windows) {
      bool is_axis = window.axis >= next_axis && window.axis < operand.ndim;
      bool is_of_launch = window.launch_axis >= 0 && window.launch_axis < kMaxGridDims;
      if (!is_axis || !is_of_launch || window.high < window.low) fail(*this, "read window");
      next_axis = window.axis + 1;
    }
  }
  for (const ResultSpec& result : results) {
    if (result.dims.size() > static_cast<size_t>(kMaxArrayDims)) fail(*this, "result rank");
    check_rules(*this, result.dims, false);
  }
  check_rules(*this, grid, true);
  for (const ParameterSlot& slot : descriptor.slots) check_slot(*this, slot);
}

size_t Operation::parameter_of(size_t index) const {
  const auto& all = descriptor.slots;
  auto it = std::ranges::find(all, static_cast<int>(index), &ParameterSlot::operand);
  return it == all.end() ? kNoParameter : static_cast<size_t>(it - all.begin());
}

size_t Operation::parameter_of_result(size_t index) const {
  const auto& all = descriptor.slots;
  auto it = std::ranges::find_if(all, [index](const ParameterSlot& slot) {
    return slot.is_written() && slot.result == static_cast<int>(index);
  });
  return static_cast<size_t>(it - all.begin());
}

void Operation::shape_result(size_t index, const ArrayView* operand_views,
                             ArrayView& result) const {
  const ResultSpec& spec = results[index];
  result.ndim = static_cast<int>(spec.dims.size());
  result.item_bytes = static_cast<int64_t>(size_bytes(spec.dtype));
  for (size_t k = 0; k < spec.dims.size(); ++k) {
    result.shape[k] = extent(*this, spec.dims[k], operand_views, nullptr);
  }
  result.set_contiguous();
}

Launch Operation::launch_for(const ArrayView* operand_views, const ArrayView* result_views) const {
  int64_t dims[kMaxGridDims];
  for (size_t k = 0; k < grid.size(); ++k) {
    dims[k] = extent(*this, grid[k], operand_views, result_views);
  }
  return make_launch(descriptor, {dims, grid.size()});
}

OperationRun::OperationRun(const Operation& operation, const ArrayView* operands,
                           ArrayView* results)
    : operation_(operation), operands_(operands), results_(results) {
  for (size_t i = operation.visible_count; i < operation.results.size(); ++i) {
    operation.shape_result(i, operands, results[i]);
    hidden_.push_back(std::make_unique_for_overwrite<std::byte[]>(results[i].size_bytes()));
    results[i].data = hidden_.back().get();
  }
  launch_ = operation.launch_for(operands, results);
}

void OperationRun::run(Executor& executor) {
  HostBackend backend(executor);
  PackedOperands operands(operation_, operands_, launch_, executor);
  Launch launch = launch_;
  launch.windows = operands.windows();
  run_functional(operation_.descriptor, operands.views(), results_, launch, backend);
}

}  // namespace kernelcore
