#include "torch/boxed_out.h"

#include "core/memory/aliasing.h"
#include "core/run/functional.h"
#include "core/run/pool.h"
#include "torch/stack.h"

namespace kernelcore::torch {
namespace {

/// Reads the tensor for visible result `index`, of which `expected` has the shape.
ArrayView read_out(const Operation& op, size_t index, TensorHandle tensor,
                   const ArrayView& expected) {
  DType dtype = op.results[index].dtype;
  std::string wanted =
      std::string("an out of ") + name_of(dtype) + " and shape " + shape_text(expected);
  DenseTensor found{};
  if (!found.read(tensor)) refuse_result(op, index, wanted, "one without strides or memory");
  if (found.place.device_type != shim().cpu) {
    refuse_result(op, index, "an out in CPU memory", "one on another device");
  }
  if (found.dtype != shim().dtypes[static_cast<size_t>(dtype)]) {
    refuse_result(op, index, wanted, "one of " + dtype_text(found.dtype));
  }
  if (!found.has_shape(expected)) {
    refuse_result(op, index, wanted, "one of shape " + found.shape_text());
  }
  ArrayView view = found.view(expected.ndim, size_bytes(dtype));
  if (view.data == nullptr && view.numel() != 0) {
    refuse_result(op, index, "a tensor with memory", "one without");
  }
  if (repeats_elements(view)) {
    refuse_result(op, index, "an out whose elements are apart", "several that share memory");
  }
  return view;
}

void check_apart(const Operation& op, const ArrayView* operands, const ArrayView* outs) {
  for (size_t i = 0; i < op.visible_count; ++i) {
    size_t item_bytes = size_bytes(op.results[i].dtype);
    auto shares = [&](const ArrayView& other, DType dtype) {
      return may_overlap(outs[i], item_bytes, other, size_bytes(dtype));
    };
    for (size_t k = 0; k < op.operands.size(); ++k) {
      if (op.operands[k].is_array && shares(operands[k], op.operands[k].dtype)) {
        refuse_result(op, i, "an out apart from all arguments", "one that shares their memory");
      }
    }
    for (size_t k = 0; k < i; ++k) {
      if (shares(outs[k], op.results[k].dtype)) {
        refuse_result(op, i, "outs apart from each other", "two that share memory");
      }
    }
  }
}

/// Where the kernel writes: outs themselves, or memory of their own that is copied to them.
class Targets {
 public:
  Targets(const Operation& op, const ArrayView* outs, ArrayView* results)
      : op_(op), copies_(op.visible_count), own_(op.visible_count) {
    for (size_t i = 0; i < op.visible_count; ++i) {
      DType dtype = op.results[i].dtype;
      copies_[i] = nullptr;
      if (outs[i].is_contiguous(size_bytes(dtype)) && is_aligned(outs[i], size_bytes(dtype))) {
        results[i].data = outs[i].data;
      } else {
        own_.add(copies_[i] = allocate(op, dtype, {shim().cpu, 0}, results[i]));
      }
    }
  }

  void copy_to(const StableIValue* outs) {
    for (size_t i = 0; i < op_.visible_count; ++i) {
      if (copies_[i] == nullptr) continue;
      if (shim().copy(reinterpret_cast<TensorHandle>(outs[i]), copies_[i], 0) != 0) {
        refuse_result(op_, i, "an out that torch can copy to", "one that it cannot");
      }
    }
  }

 private:
  const Operation& op_;
  SmallBuffer<TensorHandle, 16> copies_;
  OwnedTensors own_;
};

void run_boxed_out(StableIValue* stack, const Operation& op) {
  StableIValue* given = stack + op.operands.size();
  OwnedTensors inputs(op.operands.size());
  own_operands(op, stack, inputs);
  OwnedTensors outputs(op.visible_count);
  for (size_t i = 0; i < op.visible_count; ++i) {
    outputs.add(reinterpret_cast<TensorHandle>(given[i]));
  }
  ViewBuffer operands(op.operands.size());
  read_host_operands(op, stack, operands.data());
  ViewBuffer outs(op.visible_count);
  ViewBuffer results(op.results.size());
  for (size_t i = 0; i < op.visible_count; ++i) {
    op.shape_result(i, operands.data(), results[i]);
    outs[i] = read_out(op, i, reinterpret_cast<TensorHandle>(given[i]), results[i]);
  }
  check_apart(op, operands.data(), outs.data());
  Targets targets(op, outs.data(), results.data());
  HiddenResults hidden(op, operands.data(), results.data());
  Launch launch = op.launch_for(operands.data(), results.data());
  run_functional(op.descriptor, operands.data(), results.data(), launch, Pool::instance());
  targets.copy_to(given);
  inputs.clear();
  outputs.release_to(stack);
}

}  // namespace
}  // namespace kernelcore::torch

extern "C" void kernelcore_torch_boxed_out(kernelcore::torch::StableIValue* stack, uint64_t,
                                           uint64_t,
                                           const kernelcore::torch::Operation* operation) {
  kernelcore::torch::run_boxed_out(stack, *operation);
}
