#include "bind/gpu/device_launch.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <span>
#include <vector>

#include "bind/array/array_memory.h"
#include "bind/launch/argument.h"
#include "bind/launch/arguments.h"
#include "bind/launch/launch.h"
#include "bind/released_gil.h"
#include "core/memory/aliasing.h"
#include "core/memory/argument_block.h"
#include "cuda/capture.h"
#include "cuda/graph.h"
#include "cuda/kernel.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace kernelcore::bind {
namespace {

using StreamPointer = std::shared_ptr<cuda::Stream>;

/// Streams and graphs of other libraries that share memory with a launch.
class Neighbours {
 public:
  explicit Neighbours(StreamPointer stream) : stream_(std::move(stream)) {
    // The legacy stream, which most launches go to, captures nothing.
    is_in_graph_ = stream_->handle() != cuda::kLegacyStream && stream_->is_capturing();
  }

  /// Notes that the launch uses what was read of `object`.
  void use(PyObject* object, const ArrayInfo& info) {
    const ArrayMemory* memory =
        is_array_memory(Py_TYPE(object)) ? array_memory_of(object) : nullptr;
    if (memory != nullptr && memory->allocation != nullptr) {
      use_own(memory->allocation);
      return;
    }
    // What a Graph uses of others is theirs to order with its launches.
    if (stream_->capture() != nullptr) return;
    if (info.stream == 0 || info.stream == reinterpret_cast<uintptr_t>(stream_->handle())) return;
    StreamPointer other = cuda::Stream::wrap(stream_->device(), info.stream);
    stream_->wait_for_owner(*other);
    if (info.is_tied) tied_.push_back(std::move(other));
  }

  /// Lets those go on behind the launch that would not ask.
  void release() const {
    for (const StreamPointer& other : tied_) other->wait_for(*stream_);
  }

 private:
  void use_own(const std::shared_ptr<cuda::Allocation>& allocation) {
    if (stream_->capture() != nullptr) {
      stream_->capture()->push_back(allocation);
      return;
    }
    allocation->note_use(stream_);
    if (is_in_graph_) cuda::keep_in_graph(*stream_, allocation);
  }

  StreamPointer stream_;
  bool is_in_graph_;
  std::vector<StreamPointer> tied_;
};

/// The arguments of a launch as its kernel reads them.
class DeviceCall {
 public:
  DeviceCall(const LaunchDescriptor& descriptor, StreamPointer stream, nb::handle dims,
             nb::handle inputs)
      : descriptor_(descriptor),
        stream_(std::move(stream)),
        arguments_(inputs, nb::handle()),
        leases_(descriptor.slots.size()),
        block_(descriptor),
        views_(descriptor.slots.size()),
        infos_(descriptor.slots.size()) {
    check_count(descriptor, arguments_.size());
    launch_ = read_dims(descriptor, dims);
    Place place{stream_->device().ordinal(), reinterpret_cast<uintptr_t>(stream_->handle())};
    // Values first: converting one may run Python code, which must not find arrays half read.
    for (size_t i = 0; i < infos_.size(); ++i) {
      const ParameterSlot& slot = descriptor.slots[i];
      if (slot.role == Role::kValue)
        read_value_argument(descriptor, i, arguments_[i], block_.field(slot));
    }
    for (size_t i = 0; i < infos_.size(); ++i) {
      const ParameterSlot& slot = descriptor.slots[i];
      if (slot.role == Role::kValue) continue;
      read_array_argument(descriptor, i, arguments_[i], infos_[i], leases_, place);
      views_[i] = infos_[i].view;
      block_.write(slot, views_[i]);
    }
    check_grid_indexed_axes(descriptor, views_.data(), launch_);
  }

  /// Whether the arrays that the kernel must have for itself share no memory.
  bool is_unaliased() { return keeps_noalias(descriptor_, views_.data()); }

  void run(cuda::DeviceKernel& kernel, const cuda::Geometry& geometry) {
    Neighbours neighbours(stream_);
    for (size_t i = 0; i < infos_.size(); ++i) {
      bool is_array = descriptor_.slots[i].role != Role::kValue;
      if (is_array) neighbours.use(arguments_[i], infos_[i]);
    }
    {
      ReleasedGil released;
      kernel.launch(*stream_, block_.data(), launch_, geometry);
      neighbours.release();
    }
    note_writes();
  }

  void note_writes() {
    for (size_t i = 0; i < infos_.size(); ++i) {
      if (descriptor_.slots[i].is_written()) note_written(arguments_[i]);
    }
  }

 private:
  const LaunchDescriptor& descriptor_;
  StreamPointer stream_;
  Arguments arguments_;
  Leases leases_;
  ArgumentBlock block_;
  SmallBuffer<ArrayView, 16> views_;
  std::vector<ArrayInfo> infos_;
  Launch launch_{};
};

bool launch_on(cuda::DeviceKernel& kernel, StreamPointer stream, nb::handle dims,
               nb::handle arguments, int64_t block_dim, int64_t max_blocks) {
  DeviceCall call(kernel.descriptor(), std::move(stream), dims, arguments);
  if (!call.is_unaliased()) return false;
  call.run(kernel, {block_dim, max_blocks});
  return true;
}

bool prepare_on(cuda::DeviceKernel& kernel, StreamPointer stream, nb::handle dims,
                nb::handle arguments) {
  DeviceCall call(kernel.descriptor(), stream, dims, arguments);
  if (!call.is_unaliased()) return false;
  {
    ReleasedGil released;
    kernel.prepare(stream->device());
  }
  call.note_writes();
  return true;
}

/// The first CUDA device that has one of `arguments`, or -1.
int device_of(nb::handle arguments) {
  Arguments items(arguments, nb::handle());
  for (size_t i = 0; i < items.size(); ++i) {
    Leases leases(1);
    ArrayInfo info{};
    ReadStatus status = read_array(items[i], false, info, leases);
    if (status == ReadStatus::kRefused) PyErr_Clear();
    if (status == ReadStatus::kOk && info.is_on_cuda()) return info.device.device_id;
  }
  return -1;
}

ArrayView view_of(const ArrayMemory& memory, std::vector<std::shared_ptr<cuda::Allocation>>& used) {
  if (memory.allocation != nullptr) used.push_back(memory.allocation);
  return memory.info.view;
}

/// Refuses a graph that would copy from or to memory of the host each time that it runs, which
/// nobody keeps.
void check_capture(const cuda::Stream& stream, const ArrayMemory& target,
                   const ArrayMemory& source) {
  auto is_lost = [](const ArrayMemory& memory) {
    return memory.info.is_on_host() && memory.allocation == nullptr;
  };
  if ((is_lost(target) || is_lost(source)) && stream.is_capturing()) {
    throw Error(ErrorKind::kDevice,
                "elements cannot be copied from or to the host in a stream that captures a graph\n"
                "  help: copy before or after the capture, or use pinned memory; a callback of JAX "
                "that reads elements is registered with graph_compatible=False");
  }
}

void copy_array(const StreamPointer& stream, ArrayMemory& target, const ArrayMemory& source) {
  check_capture(*stream, target, source);
  std::vector<std::shared_ptr<cuda::Allocation>> used;
  ArrayView to = view_of(target, used), from = view_of(source, used);
  auto item_bytes = static_cast<size_t>(source.info.item_bytes);
  bool is_alike = to.ndim == from.ndim && target.info.item_bytes == source.info.item_bytes &&
                  std::equal(to.shape, to.shape + to.ndim, from.shape);
  if (!is_alike) throw nb::value_error("copy: arrays of other extents or elements");
  int from_device = source.info.device.device_id;
  uintptr_t owner = source.info.stream;
  bool is_peer = source.info.is_on_cuda() && target.info.is_on_cuda() &&
                 from_device != target.info.device.device_id;
  {
    ReleasedGil released;
    for (const auto& allocation : used) cuda::order_use(stream, allocation);
    if (owner != 0 && source.info.is_on_cuda()) {
      stream->wait_for_owner(*cuda::Stream::wrap(cuda::Device::get(from_device), owner));
    }
    if (is_peer) {
      if (!to.is_contiguous(item_bytes) || !from.is_contiguous(item_bytes)) {
        throw Error(
            ErrorKind::kArgument,
            "copy between devices: expected arrays without gaps\n  help: call contiguous()");
      }
      cuda::copy_from_peer(*stream, to.data, cuda::Device::get(from_device), from.data,
                           static_cast<size_t>(to.numel()) * item_bytes);
    } else {
      cuda::CopyKind kind = !target.info.is_on_cuda()   ? cuda::CopyKind::kToHost
                            : !source.info.is_on_cuda() ? cuda::CopyKind::kToDevice
                                                        : cuda::CopyKind::kOnDevice;
      cuda::copy_elements(*stream, kind, to, from, item_bytes);
    }
  }
  target.count_write();
}

void fill_array(const StreamPointer& stream, ArrayMemory& target, nb::bytes pattern) {
  auto item_bytes = static_cast<size_t>(target.info.item_bytes);
  const ArrayView& view = target.info.view;
  size_t bytes = static_cast<size_t>(view.numel()) * item_bytes;
  auto [begin, end] = byte_span(view, item_bytes);
  if (end - begin != bytes) throw nb::value_error("fill: an array with gaps");
  std::span repeated(static_cast<const std::byte*>(pattern.data()), pattern.size());
  if (repeated.empty() || bytes % repeated.size() != 0)
    throw nb::value_error("fill: a part of one");
  {
    ReleasedGil released;
    cuda::order_use(stream, target.allocation);
    cuda::repeat(*stream, reinterpret_cast<void*>(begin), bytes, repeated);
  }
  target.count_write();
}

/// Calls `fill`, which gives steps to a stream from Python.
cuda::Graph::Fill calling(nb::object fill) {
  return [fill = std::move(fill)](const StreamPointer& stream) {
    nb::gil_scoped_acquire gil;
    fill(stream);
  };
}

void capture_branches(const StreamPointer& stream, const ArrayMemory& condition,
                      const std::vector<std::tuple<bool, bool, nb::object>>& branches) {
  std::vector<cuda::Branch> made;
  for (const auto& [is_negated, repeats, body] : branches) {
    made.push_back({is_negated, repeats, calling(body)});
  }
  cuda::order_use(stream, condition.allocation);
  cuda::add_branches(stream, condition.info.view.data,
                     static_cast<size_t>(condition.info.item_bytes), made);
}

void bind_graphs(nb::module_& m) {
  nb::class_<cuda::Graph>(m, "CudaGraph", "Steps that a CUDA device runs as a whole.")
      .def(
          "__init__",
          [](cuda::Graph* self, int ordinal) {
            new (self) cuda::Graph(cuda::Device::get(ordinal));
          },
          "ordinal"_a)
      .def_prop_ro(
          "ordinal", [](const cuda::Graph& self) { return self.device().ordinal(); },
          "Of its device.")
      .def(
          "capture", [](cuda::Graph& self, nb::object fill) { self.capture(calling(fill)); },
          "fill"_a,
          nb::sig(
              "def capture(self, fill: collections.abc.Callable[[CudaStream], object]) -> None"),
          "Take what `fill` gives to a stream, in place of what was captured before.")
      .def("launch", &cuda::Graph::launch, "stream"_a, nb::call_guard<ReleasedGil>(),
           "Queue all of it in a stream.");
  m.def(
      "cuda_prepare_branches",
      [](int ordinal) { return cuda::prepare_branches(cuda::Device::get(ordinal)); }, "ordinal"_a,
      nb::call_guard<ReleasedGil>(),
      "Load what `cuda_add_branches` needs; false where the driver has no conditions of graphs.");
  m.def("cuda_add_branches", &capture_branches, "stream"_a, "condition"_a, "branches"_a,
        nb::sig("def cuda_add_branches(stream: CudaStream, condition: ArrayMemory, branches: "
                "collections.abc.Sequence[tuple[bool, bool, "
                "collections.abc.Callable[[CudaStream], object]]]) -> None"),
        "Capture branches: whether one runs where the condition is zero, whether it repeats, and "
        "what gives its steps to a stream.");
}

}  // namespace

void bind_device_launch(nb::module_& m) {
  nb::class_<cuda::DeviceKernel>(m, "DeviceKernel", "A kernel as CUDA devices run it.")
      .def(
          "__init__",
          [](cuda::DeviceKernel* self, const LaunchDescriptor& descriptor, nb::bytes image,
             std::string symbol) {
            std::string text(static_cast<const char*>(image.data()), image.size());
            new (self) cuda::DeviceKernel(descriptor, std::move(text), std::move(symbol));
          },
          "descriptor"_a, "image"_a, "symbol"_a,
          "Of PTX or a cubin that defines `symbol`; `descriptor` has no address.")
      .def_prop_ro("descriptor", &cuda::DeviceKernel::descriptor, "What it makes of arguments.")
      .def("launch", &launch_on, "stream"_a, "dims"_a.none(), "args"_a, "block_dim"_a = 0,
           "max_blocks"_a = 0,
           nb::sig("def launch(self, stream: CudaStream, "
                   "dims: int | collections.abc.Sequence[int], "
                   "args: collections.abc.Sequence[typing.Any], block_dim: int = 0, "
                   "max_blocks: int = 0) -> bool"),
           "As `launch`, in a stream; it returns when the run is queued.")
      .def("prepare", &prepare_on, "stream"_a, "dims"_a.none(), "args"_a,
           nb::sig("def prepare(self, stream: CudaStream, "
                   "dims: int | collections.abc.Sequence[int], "
                   "args: collections.abc.Sequence[typing.Any]) -> bool"),
           "Check the arguments of a launch and load the code, count the writes that are to come, "
           "and run nothing; false for arrays for which `launch` is false.");
  bind_graphs(m);
  m.def("cuda_device_of", &device_of, "arguments"_a,
        nb::sig("def cuda_device_of(arguments: collections.abc.Sequence[typing.Any]) -> int"),
        "The first CUDA device that has one of some arguments, or -1.");
  m.def(
      "note_written", [](nb::handle array) { note_written(array.ptr()); }, "array"_a,
      "Tell whoever counts writes of an array that it was written.");
  m.def("cuda_copy", &copy_array, "stream"_a, "target"_a, "source"_a,
        "Queue a copy of the elements of an array to another of the same extents, at least one of "
        "which is on the device of the stream, behind all that uses them.");
  m.def("cuda_fill", &fill_array, "stream"_a, "target"_a, "pattern"_a,
        "Queue filling an array without gaps with repetitions of a pattern, a few bytes.");
}

}  // namespace kernelcore::bind
