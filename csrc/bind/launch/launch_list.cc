#include "bind/launch/launch_list.h"

#include <optional>
#include <vector>

#include "bind/launch/argument.h"
#include "bind/launch/launch.h"
#include "core/memory/aliasing.h"
#include "core/memory/argument_block.h"
#include "core/run/pool.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

/// A launch with its argument block, and what keeps its memory in place.
struct Prepared {
  nb::object owner;  // of the descriptor
  const LaunchDescriptor* descriptor;
  std::vector<std::max_align_t> block;
  Launch launch;
  std::vector<Keeper> keepers;
  std::vector<nb::object> written;
};

/// Launches in order.
class LaunchList {
 public:
  /// Checks the arguments as a launch does, and counts the writes that are to come. False, and
  /// nothing was added, if an array that the kernel must have for itself shares memory.
  bool add(nb::object owner, nb::handle dims, nb::handle arguments) {
    const auto& descriptor = *nb::cast<const LaunchDescriptor*>(owner);
    size_t count = descriptor.slots.size();
    check_count(descriptor, nb::len(arguments));
    Prepared made{owner, &descriptor, {}, read_dims(descriptor, dims), {}, {}};
    ArgumentBlock block(descriptor);
    std::vector<ArrayView> views(count);
    for (size_t i = 0; i < count; ++i) {
      const ParameterSlot& slot = descriptor.slots[i];
      nb::object argument = arguments[i];
      if (slot.role == Role::kValue) {
        read_value_argument(descriptor, i, argument.ptr(), block.field(slot));
        continue;
      }
      ArrayInfo info;
      adopt_array_argument(descriptor, i, argument.ptr(), info, made.keepers.emplace_back(), {});
      views[i] = info.view;
      block.write(slot, views[i]);
      if (slot.is_written()) made.written.push_back(argument);
    }
    check_grid_indexed_axes(descriptor, views.data(), made.launch);
    if (!keeps_noalias(descriptor, views.data())) return false;
    made.block.resize(descriptor.block_bytes / sizeof(std::max_align_t) + 1);
    std::memcpy(made.block.data(), block.data(), descriptor.block_bytes);
    for (const nb::object& array : made.written) note_written(array.ptr());
    launches_.push_back(std::move(made));
    return true;
  }

  void run() {
    for (Prepared& prepared : launches_) {
      Launch launch = prepared.launch;
      run_and_note(*prepared.descriptor, prepared.block.data(), launch, [&] {
        for (const nb::object& array : prepared.written) note_written(array.ptr());
      });
    }
  }

  size_t size() const { return launches_.size(); }

 private:
  std::vector<Prepared> launches_;
};

}  // namespace

void bind_launch_list(nb::module_& m) {
  nb::class_<LaunchList>(m, "LaunchList",
                         "Launches that are prepared once and run any number of times.")
      .def(nb::init<>())
      .def("add", &LaunchList::add, nb::arg("descriptor"), nb::arg("dims").none(), nb::arg("args"),
           nb::sig("def add(self, descriptor: LaunchDescriptor, "
                   "dims: int | collections.abc.Sequence[int], "
                   "args: collections.abc.Sequence[typing.Any]) -> bool"),
           "Prepare a launch with one argument per parameter; its arrays stay in place.")
      .def("__call__", &LaunchList::run, "Run all launches in order.")
      .def("__len__", &LaunchList::size);
}

}  // namespace kernelcore::bind
