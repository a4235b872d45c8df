#include "bind/launch/launch.h"

#include <optional>

#include "bind/launch/argument.h"
#include "bind/launch/arguments.h"
#include "bind/released_gil.h"
#include "core/error.h"
#include "core/memory/argument_block.h"
#include "core/run/exclusive.h"
#include "core/run/pool.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

int64_t extent_of(const Signature& signature, PyObject* object) {
  nb::object number = nb::steal(PyNumber_Index(object));
  int64_t value = number.is_valid() ? PyLong_AsLongLong(number.ptr()) : -1;
  if (value == -1 && PyErr_Occurred() != nullptr) {
    throw signature.launch_error(
        "grid: expected an int or a tuple of ints, found neither (" + take_python_error() + ")",
        "pass the launch shape, such as dim=n or dim=(n, m)");
  }
  return value;
}

}  // namespace

Launch read_dims(const Signature& signature, nb::handle dims) {
  int64_t extents[kMaxGridDims + 1];
  size_t rank = 1;
  if (PyTuple_Check(dims.ptr()) != 0 || PyList_Check(dims.ptr()) != 0) {
    rank = nb::len(dims);
    // One more than the limit is enough to be refused by its check.
    for (size_t k = 0; k < std::min<size_t>(rank, kMaxGridDims); ++k) {
      nb::object item = nb::steal(PySequence_GetItem(dims.ptr(), static_cast<Py_ssize_t>(k)));
      extents[k] = extent_of(signature, item.ptr());
    }
    rank = std::min<size_t>(rank, kMaxGridDims + 1);
  } else {
    extents[0] = extent_of(signature, dims.ptr());
  }
  return make_launch(signature, {extents, rank});
}

void check_count(const Signature& signature, size_t found) {
  if (found == signature.relocations.size()) return;
  std::string names;
  for (size_t i = 0; i < signature.relocations.size(); ++i) {
    names += (i == 0 ? "" : ", ") + signature.parameter_name(i);
  }
  size_t expected = signature.relocations.size();
  throw signature.launch_error("expected " + std::to_string(expected) +
                                   (expected == 1 ? " argument (" : " arguments (") + names +
                                   "), found " + std::to_string(found),
                               "pass one argument per parameter, inputs first, then outputs");
}

void run_from_python(const Signature& signature, const void* block, Launch& launch) {
  std::optional<ReleasedGil> released;
  if (launch.total > kInlinePoints || signature.may_block) released.emplace();
  run(signature, block, launch, Pool::instance());
}

bool launch(const Signature& signature, nb::handle dims, nb::handle inputs, nb::handle outputs) {
  size_t count = signature.relocations.size();
  Arguments arguments(inputs, outputs);
  check_count(signature, arguments.size());
  Launch request = read_dims(signature, dims);
  Leases leases(count);
  ArgumentBlock block(signature);
  SmallBuffer<ArrayView, 16> views(count);
  // Values first: converting one may run Python code, which must not find arrays half read.
  for (size_t i = 0; i < count; ++i) {
    const Relocation& r = signature.relocations[i];
    if (r.role == Role::kValue) read_value_argument(signature, i, arguments[i], block.field(r));
  }
  for (size_t i = 0; i < count; ++i) {
    const Relocation& r = signature.relocations[i];
    if (r.role == Role::kValue) continue;
    read_array_argument(signature, i, arguments[i], views[i], leases);
    block.write(r, views[i]);
  }
  check_reach(signature, views.data(), request);
  if (!keeps_exclusive(signature, views.data())) return false;
  run_and_note(signature, block.data(), request, [&] {
    for (size_t i = 0; i < count; ++i) {
      if (signature.relocations[i].is_written()) note_written(arguments[i]);
    }
  });
  return true;
}

Span array_span(const Signature& signature, size_t index, nb::handle object) {
  if (index >= signature.relocations.size()) throw nb::index_error("no such parameter");
  Leases leases(2);
  ArrayInfo read{};
  const ArrayInfo* info = known_info(object.ptr());
  if (info == nullptr && read_array(object.ptr(), false, read, leases) == ReadStatus::kOk) {
    info = &read;
  }
  PyErr_Clear();
  Span span{{}, size_bytes(signature.relocations[index].dtype)};
  if (info != nullptr && info->is_on_cuda()) {
    check_array(signature, index, *info, object.ptr(), info->device.device_id);
    span.view = info->view;
  } else {
    read_array_argument(signature, index, object.ptr(), span.view, leases);
  }
  return span;
}

}  // namespace kernelcore::bind
