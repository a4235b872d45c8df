#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <vector>

#include "bind/array/array_memory.h"
#include "bind/array/array_reader.h"
#include "bind/bindings.h"
#include "bind/launch/launch.h"
#include "bind/released_gil.h"
#include "cuda/capture.h"
#include "cuda/graph.h"
#include "cuda/kernel.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace kernelcore::bind {
namespace {

using StreamPointer = std::shared_ptr<cuda::Stream>;

/// A launch on a device, ordered with other uses of its arrays.
class DeviceCall {
 public:
  DeviceCall(const LaunchDescriptor& descriptor, StreamPointer stream, nb::handle dims,
             nb::handle inputs)
      : stream_(std::move(stream)),
        prepared_(descriptor, dims, inputs, nb::handle(),
                  {stream_->device().ordinal(), reinterpret_cast<uintptr_t>(stream_->handle())}) {}

  bool is_unaliased() { return prepared_.is_unaliased(); }
  void note_writes() { prepared_.note_writes(); }

  void run(cuda::DeviceKernel& kernel, const cuda::Geometry& geometry) {
    prepared_.visit_arrays([this](PyObject* object) { use_own(object); });
    std::vector<StreamPointer> tied = wait_for_owners();
    ++kernel.descriptor().launches;
    {
      ReleasedGil released;
      Launch launch = prepared_.launch();
      kernel.launch(*stream_, prepared_.block(), launch, geometry);
      for (const StreamPointer& other : tied) other->wait_for(*stream_);
    }
    note_writes();
  }

 private:
  /// Keeps memory of kernelcore until the launch completes, or as long as the captured graph lives.
  void use_own(PyObject* object) {
    const ArrayMemory* memory =
        is_array_memory(Py_TYPE(object)) ? array_memory_of(object) : nullptr;
    if (memory == nullptr || memory->allocation == nullptr) return;
    if (stream_->capture() != nullptr) {
      stream_->capture()->memory.push_back(memory->allocation);
      return;
    }
    memory->allocation->note_use(stream_);
    // The legacy stream, which most launches use, cannot capture.
    bool is_in_graph = stream_->handle() != cuda::kLegacyStream && stream_->is_capturing();
    if (is_in_graph) cuda::keep_in_graph(*stream_, memory->allocation);
  }

  /// Makes the launch wait for the streams of other libraries that may still write the arrays; the
  /// result are streams that must wait for the launch. A Graph that is captured notes them all, and
  /// every launch of it waits and is waited for.
  std::vector<StreamPointer> wait_for_owners() {
    std::vector<StreamPointer> tied;
    for (auto [handle, is_tied] : prepared_.streams()) {
      if (handle == reinterpret_cast<uintptr_t>(stream_->handle())) continue;
      StreamPointer other = cuda::Stream::wrap(stream_->device(), handle);
      if (stream_->capture() != nullptr) {
        stream_->capture()->add_owner(std::move(other), is_tied);
        continue;
      }
      stream_->wait_for_owner(*other);
      if (is_tied) tied.push_back(std::move(other));
    }
    return tied;
  }

  StreamPointer stream_;
  PreparedLaunch prepared_;
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
    Keeper keeper;
    ArrayInfo info;
    ReadStatus status = read_array(items[i], Access::kRead, info, keeper);
    if (status == ReadStatus::kRefused) PyErr_Clear();
    if (status == ReadStatus::kOk && info.is_on_cuda()) return info.device.device_id;
  }
  return -1;
}

/// Refuses to capture a copy from or to host memory that the graph cannot keep alive.
void check_capture(const cuda::Stream& stream, const ArrayMemory& target,
                   const ArrayMemory& source) {
  auto is_lost = [](const ArrayMemory& memory) {
    return memory.is_on_host() && memory.allocation == nullptr;
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
  ArrayView to = target.view, from = source.view;
  int from_device = source.device.device_id;
  uintptr_t owner = source.stream;
  bool is_peer =
      source.is_on_cuda() && target.is_on_cuda() && from_device != target.device.device_id;
  bool is_alike = to.ndim == from.ndim && to.item_bytes == from.item_bytes &&
                  std::equal(to.shape, to.shape + to.ndim, from.shape) &&
                  (!is_peer || (to.is_contiguous() && from.is_contiguous()));
  if (!is_alike) throw nb::value_error("copy: arrays of other extents, elements or layouts");
  {
    ReleasedGil released;
    cuda::order_use(stream, target.allocation);
    cuda::order_use(stream, source.allocation);
    if (owner != 0 && source.is_on_cuda()) {
      StreamPointer other = cuda::Stream::wrap(cuda::Device::get(from_device), owner);
      if (stream->capture() != nullptr) {
        stream->capture()->add_owner(std::move(other), source.is_tied);
      } else {
        stream->wait_for_owner(*other);
      }
    }
    if (is_peer) {
      cuda::copy_from_peer(*stream, to.data, cuda::Device::get(from_device), from.data,
                           to.size_bytes());
    } else {
      cuda::copy_elements(*stream, to, from);
    }
  }
  target.count_write();
}

void fill_array(const StreamPointer& stream, ArrayMemory& target, nb::bytes pattern) {
  size_t bytes = target.view.size_bytes();
  auto [begin, end] = target.view.byte_span();
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

/// Wraps a Python function that queues work in a stream.
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
  cuda::add_branches(stream, condition.view.data, static_cast<size_t>(condition.view.item_bytes),
                     made);
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
          "capture",
          [](cuda::Graph& self, nb::object fill) {
            cuda::Graph::Fill function = calling(std::move(fill));
            // Another thread that launches the graph may wait for work that needs the GIL.
            ReleasedGil released;
            self.capture(function);
          },
          "fill"_a,
          nb::sig(
              "def capture(self, fill: collections.abc.Callable[[CudaStream], object]) -> None"),
          "Capture the work that `fill` queues in a stream; it replaces the previous graph.")
      .def("launch", &cuda::Graph::launch, "stream"_a, nb::call_guard<ReleasedGil>(),
           "Queue the graph in a stream.");
  m.def(
      "cuda_prepare_branches",
      [](int ordinal) { return cuda::prepare_branches(cuda::Device::get(ordinal)); }, "ordinal"_a,
      nb::call_guard<ReleasedGil>(),
      "Load the code of `cuda_add_branches`; false if the driver has no conditional nodes.");
  m.def("cuda_add_branches", &capture_branches, "stream"_a, "condition"_a, "branches"_a,
        nb::sig("def cuda_add_branches(stream: CudaStream, condition: ArrayMemory, branches: "
                "collections.abc.Sequence[tuple[bool, bool, "
                "collections.abc.Callable[[CudaStream], object]]]) -> None"),
        "Capture conditional nodes. A branch: whether it runs if the condition is zero, whether it "
        "repeats, and the function that queues its work in a stream.");
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
          "`image` is PTX or a cubin that defines `symbol`; `descriptor` has no address.")
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
      "Tell the library of an array that it was written.");
  m.def(
      "cuda_copy", &copy_array, "stream"_a, "target"_a, "source"_a,
      "Queue a copy between arrays of the same extents, at least one of which is on the device of "
      "the stream, after all other uses of them.");
  m.def("cuda_fill", &fill_array, "stream"_a, "target"_a, "pattern"_a,
        "Queue filling a contiguous array with repetitions of a pattern of a few bytes.");
}

}  // namespace kernelcore::bind
