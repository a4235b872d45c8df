#include "bind/launch/launch.h"

#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <span>

#include "bind/bindings.h"
#include "bind/launch/argument.h"
#include "bind/released_gil.h"
#include "core/error.h"
#include "core/run/pool.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

int64_t extent_of(const LaunchDescriptor& descriptor, PyObject* object) {
  constexpr const char* kHelp =
      "pass the launch shape before the arguments, such as dim=n or dim=(n, m)";
  nb::object number = nb::steal(PyNumber_Index(object));
  if (!number.is_valid()) {
    PyErr_Clear();
    throw descriptor.launch_error(
        "grid: expected an int or a tuple of ints, found " + type_name(object), kHelp);
  }
  int overflow = 0;
  int64_t value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0) return value;
  throw descriptor.launch_error(
      "grid: expected extents from 0 to 2**31 - 1, found " + nb::cast<std::string>(nb::str(number)),
      kHelp);
}

/// The grid that `dims`, an int or a sequence of them, stands for; throws an argument Error.
Launch read_dims(const LaunchDescriptor& descriptor, nb::handle dims) {
  int64_t extents[kMaxGridDims + 1];
  size_t rank = 1;
  if (PyTuple_Check(dims.ptr()) != 0 || PyList_Check(dims.ptr()) != 0) {
    // `make_launch` refuses a rank above the limit.
    rank = std::min<size_t>(nb::len(dims), kMaxGridDims + 1);
    for (size_t k = 0; k < std::min<size_t>(rank, kMaxGridDims); ++k) {
      nb::object item = nb::steal(PySequence_GetItem(dims.ptr(), static_cast<Py_ssize_t>(k)));
      extents[k] = extent_of(descriptor, item.ptr());
    }
  } else {
    extents[0] = extent_of(descriptor, dims.ptr());
  }
  return make_launch(descriptor, {extents, rank});
}

/// Throws an argument Error unless there is an argument per parameter.
void check_count(const LaunchDescriptor& descriptor, size_t found) {
  size_t expected = descriptor.slots.size();
  if (found == expected) return;
  std::string names;
  for (size_t i = 0; i < expected; ++i) {
    names += (i == 0 ? "" : ", ") + descriptor.parameter_name(i);
  }
  throw descriptor.launch_error("expected " + std::to_string(expected) +
                                    (expected == 1 ? " argument (" : " arguments (") + names +
                                    "), found " + std::to_string(found),
                                "pass one argument per parameter, inputs first, then outputs");
}

}  // namespace

PreparedLaunch::PreparedLaunch(const LaunchDescriptor& descriptor, nb::handle dims,
                               nb::handle inputs, nb::handle outputs, Consumer consumer, Use use)
    : descriptor_(descriptor),
      arguments_(inputs, outputs),
      block_(descriptor),
      views_(descriptor.slots.size()) {
  size_t count = descriptor.slots.size();
  // First: without the grid, the arguments are taken for it.
  launch_ = read_dims(descriptor, dims);
  check_count(descriptor, arguments_.size());
  // Values first: their conversion may run Python code, which could change arrays already read.
  for (size_t i = 0; i < count; ++i) {
    const ParameterSlot& slot = descriptor.slots[i];
    if (slot.role == Role::kValue)
      read_value_argument(descriptor, i, arguments_[i], block_.field(slot));
  }
  for (size_t i = 0; i < count; ++i) {
    if (descriptor.slots[i].role != Role::kValue) read_array(i, consumer, use);
  }
  for (const GridIndexedAxis& indexed : descriptor.grid_indexed_axes) {
    check_extent(descriptor, indexed, views_[indexed.parameter], launch_);
  }
}

void PreparedLaunch::read_array(size_t index, Consumer consumer, Use use) {
  bool follows = use == Use::kFollowed && is_followed(arguments_[index]);
  bool is_kept = use != Use::kOnce && !follows;
  ArrayInfo found;
  Keeper keeper;
  const ArrayInfo& info =
      read_array_argument(descriptor_, index, arguments_[index], found, keeper, consumer, is_kept);
  if (keeper != nullptr) keepers_.push_back(std::move(keeper));
  if (info.stream != 0) streams_.push_back({info.stream, info.is_tied});
  if (is_kept && info.lender != nullptr) lenders_.emplace_back(index, info.lender);
  if (follows) followed_.emplace_back(index, info);
  views_[index] = info.view;
  block_.write(descriptor_.slots[index], info.view);
}

bool PreparedLaunch::run() {
  for (const auto& [index, info] : followed_) {
    if (!is_unchanged(arguments_[index], info)) return false;
  }
  for (auto [index, lender] : lenders_) require_lent(descriptor_, index, lender);
  ++descriptor_.launches;
  // Another thread may run the same launch meanwhile.
  Launch launch = launch_;
  try {
    std::optional<ReleasedGil> released;
    if (launch.total > kInlinePoints || descriptor_.may_block) released.emplace();
    kernelcore::run(descriptor_, block_.data(), launch, Pool::instance());
  } catch (...) {
    note_writes();
    throw;
  }
  note_writes();
  return true;
}

void PreparedLaunch::note_writes() {
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (descriptor_.slots[i].is_written()) note_written(arguments_[i]);
  }
}

bool launch(const LaunchDescriptor& descriptor, nb::handle dims, nb::handle inputs,
            nb::handle outputs) {
  PreparedLaunch prepared(descriptor, dims, inputs, outputs);
  if (!prepared.is_unaliased()) return false;
  prepared.run();
  return true;
}

ArrayView array_span(const LaunchDescriptor& descriptor, size_t index, nb::handle object) {
  if (index >= descriptor.slots.size()) throw nb::index_error("no such parameter");
  ArrayInfo found;
  Keeper keeper;
  const ArrayInfo* info = known_info(object.ptr());
  if (info == nullptr &&
      read_array(object.ptr(), Access::kRead, found, keeper) == ReadStatus::kOk) {
    info = &found;
  }
  PyErr_Clear();
  Consumer consumer;
  if (info != nullptr && info->is_on_cuda()) consumer.ordinal = info->device.device_id;
  return read_array_argument(descriptor, index, object.ptr(), found, keeper, consumer).view;
}

namespace {

void init_descriptor(LaunchDescriptor* self, std::string name, std::string key, uintptr_t address,
                     const nb::bytes& block_template,
                     const std::vector<std::array<int64_t, kSlotFields>>& slots,
                     const std::vector<std::string>& param_names,
                     const std::vector<std::string>& wheres, int grid_rank, std::string where,
                     const std::vector<std::tuple<size_t, int, int>>& grid_indexed_axes,
                     std::vector<std::string> messages, bool may_block,
                     const std::vector<std::array<int64_t, kAccumulatedFields>>& accumulated,
                     std::vector<size_t> noalias, bool is_serial, std::vector<size_t> stored,
                     const std::vector<std::tuple<size_t, int, int>>& covered_axes,
                     bool flush_denormals, int panel_rows, int points_at_once, int other_axis,
                     int64_t other_axis_points) {
  LaunchDescriptor made;
  made.name = std::move(name);
  made.key = std::move(key);
  made.fn = reinterpret_cast<KernelFn>(address);
  const auto* bytes = static_cast<const std::byte*>(block_template.data());
  made.block_template.assign(bytes, bytes + block_template.size());
  made.slots = parse_slots(flat(slots));
  for (size_t i = 0; i < param_names.size(); ++i) {
    made.parameters.push_back({param_names[i], i < wheres.size() ? wheres[i] : ""});
  }
  made.grid_rank = grid_rank;
  made.where = std::move(where);
  for (auto [parameter, axis, grid_axis] : grid_indexed_axes) {
    made.grid_indexed_axes.push_back({parameter, axis, grid_axis});
  }
  for (auto [parameter, axis, grid_axis] : covered_axes) {
    made.covered_axes.push_back({parameter, axis, grid_axis});
  }
  made.messages = std::move(messages);
  made.may_block = may_block;
  made.accumulated = parse_accumulated(flat(accumulated));
  made.noalias = std::move(noalias);
  made.is_serial = is_serial;
  made.stored = std::move(stored);
  made.flush_denormals = flush_denormals;
  made.panel_rows = panel_rows;
  made.points_at_once = points_at_once;
  made.other_axis = other_axis;
  made.other_axis_points = other_axis_points;
  made.validate();
  new (self) LaunchDescriptor(std::move(made));
}

/// A launch that may be run any number of times; null if an array that the kernel needs exclusively
/// shares memory. Counts the writes in advance.
std::unique_ptr<PreparedLaunch> prepare_launch(const LaunchDescriptor& descriptor, nb::handle dims,
                                               nb::handle args, bool follows) {
  Use use = follows ? Use::kFollowed : Use::kKept;
  auto made =
      std::make_unique<PreparedLaunch>(descriptor, dims, args, nb::handle(), Consumer{}, use);
  if (!made->is_unaliased()) return nullptr;
  made->note_writes();
  return made;
}

}  // namespace

void bind_launch(nb::module_& m) {
  nb::class_<LaunchDescriptor>(m, "LaunchDescriptor", "What a launcher knows of a compiled kernel.")
      .def(
          "__init__", &init_descriptor, nb::arg("name"), nb::arg("key"), nb::arg("address"),
          nb::arg("template"), nb::arg("slots"), nb::arg("param_names"), nb::arg("wheres"),
          nb::arg("grid_rank") = 0, nb::arg("where") = "",
          nb::arg("grid_indexed_axes") = nb::list(), nb::arg("messages") = nb::list(),
          nb::arg("may_block") = false, nb::arg("accumulated") = nb::list(),
          nb::arg("noalias") = nb::list(), nb::arg("is_serial") = false,
          nb::arg("stored") = nb::list(), nb::arg("covered_axes") = nb::list(),
          nb::arg("flush_denormals") = false, nb::arg("panel_rows") = 0,
          nb::arg("points_at_once") = 0, nb::arg("other_axis") = -1,
          nb::arg("other_axis_points") = 0,
          "`address` is 0 for code of a device, `template` the argument block before arguments are "
          "written to it.")
      .def_ro("name", &LaunchDescriptor::name)
      .def_ro("key", &LaunchDescriptor::key)
      .def_ro("grid_rank", &LaunchDescriptor::grid_rank)
      .def_ro("launches", &LaunchDescriptor::launches,
              "Launches so far that began, of `launch` and of recorded launches.");
  nb::class_<PreparedLaunch>(m, "PreparedLaunch", "A launch that may be run any number of times.")
      .def(
          "__call__", &PreparedLaunch::run,
          "Run the kernel on the arrays that it was given. False, and nothing was run, if an array "
          "that is followed has other memory than before.");
  m.def("prepare_launch", &prepare_launch, nb::arg("descriptor"), nb::arg("dims").none(),
        nb::arg("args"), nb::arg("follows") = false, nb::keep_alive<0, 1>(),
        nb::sig("def prepare_launch(descriptor: LaunchDescriptor, "
                "dims: int | collections.abc.Sequence[int], "
                "args: collections.abc.Sequence[typing.Any], follows: bool = False) "
                "-> PreparedLaunch | None"),
        "Check the arguments of a launch, keep its arrays alive, and count the writes in advance. "
        "None if an array that the kernel needs exclusively shares memory. With `follows`, runs "
        "use the memory that arrays have then, else that which they have now.");
  m.def(
      "is_followed", [](nb::handle object) { return is_followed(object.ptr()); }, nb::arg("object"),
      "Whether the memory of an array may change, and a launch that `follows` it notices at little "
      "cost.");
  m.def(
      "launch",
      [](const LaunchDescriptor& descriptor, nb::handle dims, nb::handle args) {
        return launch(descriptor, dims, args, nb::handle());
      },
      nb::arg("descriptor"), nb::arg("dims").none(), nb::arg("args"),
      nb::sig("def launch(descriptor: LaunchDescriptor, dims: int | collections.abc.Sequence[int], "
              "args: collections.abc.Sequence[typing.Any]) -> bool"),
      "Run a kernel over a grid with one argument per parameter, in order. False, and nothing was "
      "run, if an array that the kernel needs exclusively shares memory.");
  m.def("array_span", &array_span, nb::arg("descriptor"), nb::arg("index"), nb::arg("array"),
        "The memory of an array that parameter `index` takes.");
}

}  // namespace kernelcore::bind
