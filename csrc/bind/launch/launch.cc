#include "bind/launch/launch.h"

#include <optional>

#include "bind/launch/argument.h"
#include "bind/launch/arguments.h"
#include "bind/released_gil.h"
#include "core/error.h"
#include "core/memory/aliasing.h"
#include "core/memory/argument_block.h"
#include "core/run/pool.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

int64_t extent_of(const LaunchDescriptor& descriptor, PyObject* object) {
  nb::object number = nb::steal(PyNumber_Index(object));
  int64_t value = number.is_valid() ? PyLong_AsLongLong(number.ptr()) : -1;
  if (value == -1 && PyErr_Occurred() != nullptr) {
    throw descriptor.launch_error(
        "grid: expected an int or a tuple of ints, found neither (" + take_python_error() + ")",
        "pass the launch shape, such as dim=n or dim=(n, m)");
  }
  return value;
}

}  // namespace

Launch read_dims(const LaunchDescriptor& descriptor, nb::handle dims) {
  int64_t extents[kMaxGridDims + 1];
  size_t rank = 1;
  if (PyTuple_Check(dims.ptr()) != 0 || PyList_Check(dims.ptr()) != 0) {
    rank = nb::len(dims);
    // One more than the limit is enough to be refused by its check.
    for (size_t k = 0; k < std::min<size_t>(rank, kMaxGridDims); ++k) {
      nb::object item = nb::steal(PySequence_GetItem(dims.ptr(), static_cast<Py_ssize_t>(k)));
      extents[k] = extent_of(descriptor, item.ptr());
    }
    rank = std::min<size_t>(rank, kMaxGridDims + 1);
  } else {
    extents[0] = extent_of(descriptor, dims.ptr());
  }
  return make_launch(descriptor, {extents, rank});
}

void check_count(const LaunchDescriptor& descriptor, size_t found) {
  if (found == descriptor.slots.size()) return;
  std::string names;
  for (size_t i = 0; i < descriptor.slots.size(); ++i) {
    names += (i == 0 ? "" : ", ") + descriptor.parameter_name(i);
  }
  size_t expected = descriptor.slots.size();
  throw descriptor.launch_error("expected " + std::to_string(expected) +
                                    (expected == 1 ? " argument (" : " arguments (") + names +
                                    "), found " + std::to_string(found),
                                "pass one argument per parameter, inputs first, then outputs");
}

void run_from_python(const LaunchDescriptor& descriptor, const void* block, Launch& launch) {
  std::optional<ReleasedGil> released;
  if (launch.total > kInlinePoints || descriptor.may_block) released.emplace();
  run(descriptor, block, launch, Pool::instance());
}

bool launch(const LaunchDescriptor& descriptor, nb::handle dims, nb::handle inputs,
            nb::handle outputs) {
  size_t count = descriptor.slots.size();
  Arguments arguments(inputs, outputs);
  check_count(descriptor, arguments.size());
  Launch request = read_dims(descriptor, dims);
  Leases leases(count);
  ArgumentBlock block(descriptor);
  SmallBuffer<ArrayView, 16> views(count);
  // Values first: converting one may run Python code, which must not find arrays half read.
  for (size_t i = 0; i < count; ++i) {
    const ParameterSlot& slot = descriptor.slots[i];
    if (slot.role == Role::kValue)
      read_value_argument(descriptor, i, arguments[i], block.field(slot));
  }
  for (size_t i = 0; i < count; ++i) {
    const ParameterSlot& slot = descriptor.slots[i];
    if (slot.role == Role::kValue) continue;
    read_array_argument(descriptor, i, arguments[i], views[i], leases);
    block.write(slot, views[i]);
  }
  check_grid_indexed_axes(descriptor, views.data(), request);
  if (!keeps_noalias(descriptor, views.data())) return false;
  run_and_note(descriptor, block.data(), request, [&] {
    for (size_t i = 0; i < count; ++i) {
      if (descriptor.slots[i].is_written()) note_written(arguments[i]);
    }
  });
  return true;
}

Span array_span(const LaunchDescriptor& descriptor, size_t index, nb::handle object) {
  if (index >= descriptor.slots.size()) throw nb::index_error("no such parameter");
  Leases leases(2);
  ArrayInfo read{};
  const ArrayInfo* info = known_info(object.ptr());
  if (info == nullptr && read_array(object.ptr(), false, read, leases) == ReadStatus::kOk) {
    info = &read;
  }
  PyErr_Clear();
  Span span{{}, size_bytes(descriptor.slots[index].dtype)};
  if (info != nullptr && info->is_on_cuda()) {
    check_array(descriptor, index, *info, object.ptr(), info->device.device_id);
    span.view = info->view;
  } else {
    read_array_argument(descriptor, index, object.ptr(), span.view, leases);
  }
  return span;
}

}  // namespace kernelcore::bind
