#include "bind/torch/operands.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "bind/launch/argument.h"
#include "bind/launch/launch.h"
#include "bind/released_gil.h"
#include "bind/torch/dispatch_state.h"
#include "core/error.h"
#include "torch/threads.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

void set_allocation_error(void*, const char*, const char* message) {
  PyErr_SetString(PyExc_MemoryError, message);
}

/// A new tensor as `empty_tensor` makes it; null if that is to make it.
PyObject* empty_wrapped(DType dtype, DLDevice device, ArrayView& view) {
  WrapTensor wrap = wrap_tensor();
  if (wrap == nullptr) return nullptr;
  const torch::Shim& shim = torch::shim();
  int64_t strides[kMaxArrayDims];
  int64_t stride = 1;
  for (int k = view.ndim - 1; k >= 0; --k) {
    strides[k] = stride;
    // torch's own: those of an array without elements are not 0.
    stride *= std::max<int64_t>(view.shape[k], 1);
  }
  int32_t place = device.device_type == kDLCUDA ? shim.cuda : shim.cpu;
  torch::TensorHandle tensor = nullptr;
  if (shim.empty_strided(view.ndim, view.shape, strides, shim.dtypes[static_cast<size_t>(dtype)],
                         place, device.device_id, &tensor) != 0) {
    return nullptr;
  }
  PyObject* made = shim.get_data_ptr(tensor, &view.data) == 0 ? wrap(tensor) : nullptr;
  shim.delete_tensor(tensor);
  if (made == nullptr) PyErr_Clear();
  return made;
}

/// A new tensor on `device` of the shape of `view`, whose data it sets: null where torch makes
/// functional tensors.
PyObject* empty_tensor(DType dtype, DLDevice device, ArrayView& view) {
  if (PyObject* made = empty_wrapped(dtype, device, view)) return made;
  const DLPackExchangeAPI& api = tensor_exchange_api();
  DLTensor prototype{};
  prototype.device = device;
  prototype.ndim = view.ndim;
  prototype.dtype = dtype_to_dlpack(dtype);
  prototype.shape = view.shape;
  DLManagedTensorVersioned* managed = nullptr;
  if (api.managed_tensor_allocator(&prototype, &managed, nullptr, set_allocation_error) != 0) {
    throw nb::python_error();
  }
  view.data = static_cast<std::byte*>(managed->dl_tensor.data) + managed->dl_tensor.byte_offset;
  void* object = nullptr;
  if (api.managed_tensor_to_py_object_no_sync(managed, &object) != 0) throw nb::python_error();
  return static_cast<PyObject*>(object);
}

/// The results made so far; they are let go unless they are given away.
class NewTensors {
 public:
  explicit NewTensors(PyObject** slots) : slots_(slots) {}
  ~NewTensors() {
    while (count_ > 0) Py_DECREF(slots_[--count_]);
  }
  NewTensors(const NewTensors&) = delete;
  NewTensors& operator=(const NewTensors&) = delete;

  void add(PyObject* tensor) { slots_[count_++] = tensor; }
  void give_away() { count_ = 0; }

 private:
  PyObject** slots_;
  size_t count_ = 0;
};

/// Whether a result starts as operand `index`, which has to be copied for that.
bool starts_result(const Operation& op, size_t index) {
  return std::ranges::any_of(op.descriptor.slots, [&](const ParameterSlot& slot) {
    return slot.is_written() && slot.operand == static_cast<int>(index);
  });
}

}  // namespace

Operands::Operands(const BoundOperation& operation)
    : operation_(*operation.operation),
      on_devices_(operation.on_devices.get()),
      views_(operation_.operands.size()),
      scalars_(operation_.operands.size()) {}

Verdict Operands::read(size_t index, PyObject* object, bool grad_mode) {
  return operation_.operands[index].is_array ? read_tensor(index, object, grad_mode)
                                             : read_scalar(index, object);
}

Verdict Operands::read_tensor(size_t index, PyObject* object, bool grad_mode) {
  if (!is_plain_tensor(object)) return Verdict::kUnusual;
  size_t parameter = operation_.parameter_of(index);
  ArrayInfo info;
  Keeper keeper;
  if (read_array(object, Access::kRead, info, keeper) != ReadStatus::kOk) {
    PyErr_Clear();
    return Verdict::kUnusual;
  }
  if (keeper != nullptr) keepers_.push_back(std::move(keeper));
  if (parameter == Operation::kNoParameter || !is_usable(index, info)) return Verdict::kUnusual;
  bool fits = info.dtype == static_cast<int>(operation_.operands[index].dtype);
  if (!fits && is_autocast_enabled()) return Verdict::kUnusual;
  int ordinal = info.is_on_cuda() ? info.device.device_id : -1;
  check_array(operation_.descriptor, parameter, info, object, ordinal);
  views_[index] = info.view;
  return grad_mode && requires_grad(object) ? Verdict::kNeedsGrad : Verdict::kPlain;
}

Verdict Operands::read_saved(size_t index, PyObject* object) {
  bool has_parameter = operation_.parameter_of(index) != Operation::kNoParameter;
  if (has_parameter || !operation_.operands[index].is_array) return read(index, object, false);
  if (!is_plain_tensor(object)) return Verdict::kUnusual;
  ArrayInfo info;
  Keeper keeper;
  if (read_array(object, Access::kRead, info, keeper) != ReadStatus::kOk) {
    PyErr_Clear();
    return Verdict::kUnusual;
  }
  views_[index] = info.view;
  return Verdict::kPlain;
}

/// Whether native code takes what was read of operand `index`, which is where the others are.
bool Operands::is_usable(size_t index, const ArrayInfo& info) {
  DLDevice device = info.device;
  if (device_.device_type == DLDeviceType{}) device_ = device;
  if (device.device_type != device_.device_type || device.device_id != device_.device_id) {
    return false;
  }
  if (info.has_lazy_sign || (info.view.data == nullptr && info.view.numel() != 0)) return false;
  if (device.device_type == kDLCPU) return true;
  if (device.device_type != kDLCUDA || on_devices_ == nullptr) return false;
  // Of what has gaps torch makes the copy, where the driver would need a call per row.
  return info.view.is_contiguous() || !starts_result(operation_, index);
}

Verdict Operands::read_scalar(size_t index, PyObject* object) {
  size_t parameter = operation_.parameter_of(index);
  bool is_bool = PyBool_Check(object) != 0;
  bool is_number = PyFloat_CheckExact(object) != 0 || PyLong_CheckExact(object) != 0;
  bool plain = operation_.operands[index].dtype == DType::kBool ? is_bool : is_number;
  if (!plain) return Verdict::kUnusual;
  uint64_t* scalar = &scalars_[index];
  if (parameter == Operation::kNoParameter) {
    if (PyLong_CheckExact(object) == 0) return Verdict::kUnusual;
    read_ignored_number(operation_, index, object, scalar);
  } else {
    read_value_argument(operation_.descriptor, parameter, object,
                        reinterpret_cast<std::byte*>(scalar));
  }
  views_[index].ndim = 0;
  views_[index].data = scalar;
  return Verdict::kPlain;
}

bool Operands::run(PyObject** results) {
  bool is_on_device = device_.device_type == kDLCUDA;
  const torch::PlacedOperation* placed =
      is_on_device ? &on_devices_->on(device_.device_id) : nullptr;
  const Operation& op = is_on_device ? *placed->operation : operation_;
  // Without tensors a call runs on the CPU.
  DLDevice device = is_on_device ? device_ : DLDevice{kDLCPU, 0};
  ViewBuffer views(op.results.size());
  NewTensors made(results);
  // Hidden results on a device: freed in the order of the stream, as all that torch allocates
  // there.
  SmallBuffer<PyObject*, 16> hidden(op.results.size());
  NewTensors scratch(hidden.data());
  size_t count = is_on_device ? op.results.size() : op.visible_count;
  for (size_t i = 0; i < count; ++i) {
    op.shape_result(i, views_.data(), views[i]);
    PyObject* tensor = empty_tensor(op.results[i].dtype, device, views[i]);
    (i < op.visible_count ? made : scratch).add(tensor);
    if (views[i].data == nullptr && views[i].numel() != 0) return false;
  }
  if (is_on_device) {
    std::shared_ptr<cuda::Stream> stream = torch::current_stream(device_.device_id);
    // The driver waits where a stream has been given too much.
    ReleasedGil released;
    placed->run(views_.data(), views.data(), *stream);
  } else {
    OperationRun run(op, views_.data(), views.data());
    std::optional<ReleasedGil> released;
    if (run.may_block()) released.emplace();
    run.run(torch::operator_threads());
  }
  made.give_away();
  return true;
}

nb::object Operands::repeated(size_t result, size_t operand, PyObject* tensor,
                              const std::vector<size_t>& axes) {
  ArrayView view;
  operation_.shape_result(result, views_.data(), view);
  const ArrayView& given = views_[operand];
  auto ndim = static_cast<size_t>(view.ndim);
  if (axes.size() == ndim) return nb::borrow(tensor);
  std::vector<int64_t> strides(ndim, 0);
  for (size_t n = 0; n < axes.size(); ++n) {
    strides[axes[n]] = given.stride_bytes[n] / given.item_bytes;
  }
  nb::list sizes;
  nb::list steps;
  for (size_t k = 0; k < ndim; ++k) {
    sizes.append(view.shape[k]);
    steps.append(strides[k]);
  }
  return nb::handle(tensor).attr("as_strided")(sizes, steps);
}

nb::object Operands::run() {
  size_t count = operation_.visible_count;
  SmallBuffer<PyObject*, 16> results(count);
  if (!run(results.data())) return {};
  if (count == 1) return nb::steal(results[0]);
  nb::object all = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i) {
    if (all.is_valid()) {
      PyTuple_SetItem(all.ptr(), static_cast<Py_ssize_t>(i), results[i]);
    } else {
      Py_DECREF(results[i]);
    }
  }
  if (!all.is_valid()) throw nb::python_error();
  return all;
}

}  // namespace kernelcore::bind
