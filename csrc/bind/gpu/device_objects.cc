#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/array/array_memory.h"
#include "bind/bindings.h"
#include "bind/released_gil.h"
#include "cuda/device.h"
#include "cuda/stream.h"

namespace nb = nanobind;
using nb::literals::operator""_a;

namespace kernelcore::bind {
namespace {

using Released = nb::call_guard<ReleasedGil>;

void bind_devices(nb::module_& m) {
  m.def(
      "cuda_set_driver",
      [](const std::string& path) {
        cuda::forget_devices();
        cuda::set_driver_library(path);
      },
      "path"_a, "Open another library than the system's driver; none if the path is empty.");
  m.def("cuda_is_open", &cuda::is_driver_open, "Whether the driver is open: CUDA was used.");
  m.def("cuda_known_devices", &cuda::Device::known,
        "The ordinals of the CUDA devices that were used.");
  m.def("cuda_device_count", &cuda::Device::count, Released(),
        "The number of CUDA devices.\n\nRaises:\n    KernelDeviceError: No driver.");
  m.def(
      "cuda_device_name", [](int ordinal) { return cuda::Device::get(ordinal).name(); },
      "ordinal"_a, Released(), "The name of the hardware.");
  m.def("cuda_compute_capability", &cuda::Device::compute_capability, "ordinal"_a, Released(),
        "10 * major + minor: 90 for sm_90.");
  m.def(
      "cuda_synchronize", [](int ordinal) { cuda::Device::get(ordinal).synchronize(); },
      "ordinal"_a, Released(),
      "Wait for all work on a device.\n\nRaises:\n    KernelError: A kernel has failed.");
}

void bind_streams(nb::module_& m) {
  nb::class_<cuda::Stream>(m, "CudaStream", nb::is_weak_referenceable(),
                           "A queue of a CUDA device.")
      .def_static(
          "create",
          [](int ordinal, int priority) {
            return cuda::Stream::create(cuda::Device::get(ordinal), priority);
          },
          "ordinal"_a, "priority"_a, Released(), "Make a stream.")
      .def_static(
          "wrap",
          [](int ordinal, uintptr_t handle) {
            return cuda::Stream::wrap(cuda::Device::get(ordinal), handle);
          },
          "ordinal"_a, "handle"_a, Released(),
          "Wrap another library's handle; 0 and 1 are the legacy default stream.")
      .def_prop_ro(
          "handle",
          [](const cuda::Stream& self) { return reinterpret_cast<uintptr_t>(self.handle()); },
          "The driver's handle.")
      .def("synchronize", &cuda::Stream::synchronize, Released(),
           "Wait for all work of the stream.\n\nRaises:\n    KernelError: A kernel has failed.")
      .def_prop_ro("is_capturing", &cuda::Stream::is_capturing,
                   "Whether the stream is capturing, for whichever library.")
      .def("is_idle", &cuda::Stream::is_idle, Released(), "Whether all that is over.")
      .def("wait_for", &cuda::Stream::wait_for, "other"_a, Released(),
           "Order later work after all work of another stream that is not captured.")
      .def("follow", &cuda::Stream::follow, "other"_a, Released(),
           "As `wait_for`, but join the capture of the other stream.");
}

void bind_events(nb::module_& m) {
  nb::class_<cuda::Event>(m, "CudaEvent", "A mark in streams of a CUDA device.")
      .def(
          "__init__",
          [](cuda::Event* self, int ordinal, bool is_timed, bool is_interprocess) {
            new (self) cuda::Event(cuda::Device::get(ordinal), is_timed, is_interprocess);
          },
          "ordinal"_a, "is_timed"_a, "is_interprocess"_a)
      .def_static(
          "wrap",
          [](int ordinal, uintptr_t handle) {
            return std::make_shared<cuda::Event>(cuda::Device::get(ordinal), handle);
          },
          "ordinal"_a, "handle"_a, "Wrap another library's handle.")
      .def_prop_ro(
          "handle",
          [](const cuda::Event& self) { return reinterpret_cast<uintptr_t>(self.handle()); },
          "The driver's handle.")
      .def("record", &cuda::Event::record, "stream"_a, Released(), "Put it into a stream.")
      .def("delay", &cuda::Event::delay, "stream"_a, Released(), "Let a stream wait for it.")
      .def("synchronize", &cuda::Event::synchronize, Released(), "Wait for it.")
      .def("is_over", &cuda::Event::is_over, Released(), "Whether it was reached.")
      .def("ms_until", &cuda::Event::ms_until, "end"_a, Released(),
           "Milliseconds between two completed events.");
}

void bind_buffers(nb::module_& m) {
  nb::class_<DeviceBuffer>(m, "DeviceBuffer", "Memory for an array, freed with the last of them.")
      .def_static(
          "on_device",
          [](std::shared_ptr<cuda::Stream> stream, size_t size_bytes) {
            int ordinal = stream->device().ordinal();
            return DeviceBuffer{cuda::Allocation::on_device(std::move(stream), size_bytes),
                                {kDLCUDA, ordinal}};
          },
          "stream"_a, "size_bytes"_a, Released(),
          "Uninitialized memory of a device, in the order of `stream`.")
      .def_static(
          "pinned",
          [](int ordinal, size_t size_bytes) {
            return DeviceBuffer{cuda::Allocation::pinned(cuda::Device::get(ordinal), size_bytes),
                                {kDLCUDAHost, 0}};
          },
          "ordinal"_a, "size_bytes"_a, Released(),
          "Pinned host memory, which devices copy from and to asynchronously.")
      .def_prop_ro(
          "address",
          [](const DeviceBuffer& self) {
            return self.allocation == nullptr
                       ? uintptr_t{0}
                       : reinterpret_cast<uintptr_t>(self.allocation->data());
          },
          "The address of the first byte; 0 if there are no bytes.");
}

}  // namespace

void bind_device_objects(nb::module_& m) {
  bind_devices(m);
  bind_streams(m);
  bind_events(m);
  bind_buffers(m);
}

}  // namespace kernelcore::bind
