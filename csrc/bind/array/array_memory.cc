#include "bind/array/array_memory.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <new>

#include "bind/array/array_interface.h"
#include "bind/array/array_reader.h"
#include "bind/array/dlpack_exchange.h"
#include "bind/array/dlpack_export.h"
#include "bind/gpu/device_objects.h"
#include "core/memory/copy.h"
#include "core/memory/own_memory.h"
#include "core/scalar.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

PyTypeObject* g_array_memory = nullptr;

/// Throws unless the memory of `source` was read.
void require_read(ReadStatus status, nb::handle source) {
  if (status == ReadStatus::kOk) return;
  if (status == ReadStatus::kNotAnArray) {
    PyErr_Format(PyExc_TypeError, "%s exports no memory",
                 nb::cast<std::string>(nb::type_name(source.type())).c_str());
  }
  throw nb::python_error();
}

ArrayMemory adopted(nb::handle source) {
  ArrayMemory made{};
  require_read(adopt_array(source.ptr(), made.info, made.keeper), source);
  return made;
}

/// `kept`, of whose memory `owner` gets to know behind what `stream` was given by then.
Keeper given_back_to(std::shared_ptr<cuda::Stream> owner,
                     std::shared_ptr<const cuda::Stream> stream, Keeper kept) {
  void* memory = kept.get();
  auto give_back = [owner = std::move(owner), stream = std::move(stream),
                    kept = std::move(kept)](void*) {
    try {
      owner->wait_for(*stream);
    } catch (const Error&) {
      return;  // There is no driver left, or nothing works any more.
    }
  };
  return Keeper(memory, std::move(give_back));
}

/// Of memory that is going to be used in `stream`, which waits for what its owner does with it. An
/// owner that goes on without asking has it back behind that.
ArrayMemory adopted_in(nb::handle source, const cuda::Stream& stream) {
  ArrayMemory made{};
  ArrayInfo& info = made.info;
  Place place{stream.device().ordinal(), reinterpret_cast<uintptr_t>(stream.handle())};
  require_read(adopt_array(source.ptr(), info, made.keeper, place), source);
  if (info.stream != 0 && info.is_on_cuda()) {
    auto owner = cuda::Stream::wrap(cuda::Device::get(info.device.device_id), info.stream);
    stream.wait_for_owner(*owner);
    if (info.is_tied && info.stream != place.stream) {
      made.keeper =
          given_back_to(std::move(owner), stream.shared_from_this(), std::move(made.keeper));
    }
  }
  info.stream = 0;
  info.is_tied = false;
  return made;
}

bool is_usable(const ArrayInfo& info) {
  return (info.is_on_host() || info.is_on_cuda()) && !info.has_lazy_sign && info.dtype >= 0;
}

/// A copy in memory of its own; without any where the elements are none that the CPU can use.
ArrayMemory copied(nb::handle source) {
  ArrayMemory made{};
  Leases leases(1);
  require_read(read_array(source.ptr(), false, made.info, leases), source);
  if (made.info.is_on_host() && is_usable(made.info)) made.keeper = copy_to_own_memory(made.info);
  return made;
}

void init_array_memory(ArrayMemory* self, nb::handle source, const ArrayMemory* base,
                       const DeviceBuffer* buffer) {
  ArrayMemory made = adopted(source);
  // NumPy knows the layout of memory that it must not touch, and not where that is.
  if (buffer != nullptr) {
    made.info.device = buffer->device;
    made.allocation = buffer->allocation;
    if (made.info.is_on_cuda()) made.keeper = buffer->allocation;
  } else if (base != nullptr) {
    made.info.device = base->info.device;
    made.allocation = base->allocation;
    if (made.info.is_on_cuda()) made.keeper = base->keeper;
  }
  made.storage = base != nullptr ? base->storage : storage_of(made);
  new (self) ArrayMemory(std::move(made));
}

/// An instance of `type`, a subclass whose own attributes are still to be set.
nb::object instance_of(nb::handle type, ArrayMemory&& memory) {
  nb::object made = nb::inst_alloc(type);
  memory.storage = storage_of(memory);
  new (nb::inst_ptr<ArrayMemory>(made)) ArrayMemory(std::move(memory));
  nb::inst_mark_ready(made);
  return made;
}

ArrayMemory zeroed(nb::handle extents, int index) {
  ArrayMemory made{};
  ArrayInfo& info = made.info;
  info.dtype = index;
  info.item_bytes = static_cast<int64_t>(size_bytes(static_cast<DType>(index)));
  info.device = {kDLCPU, 0};
  info.view.ndim = static_cast<int>(nb::len(extents));
  if (info.view.ndim > kMaxArrayDims) throw nb::value_error("zeroed: too many dimensions");
  for (int k = 0; k < info.view.ndim; ++k) {
    info.view.shape[k] = nb::cast<int64_t>(extents[k]);
  }
  made.keeper = take_own_memory(info);
  return made;
}

nb::object interface_of(const ArrayMemory& self, bool on_host) {
  nb::object dict = interface_dict(self.info);
  if (self.info.is_on_host() == on_host && !dict.is_none()) return dict;
  throw nb::attribute_error(on_host ? "no __array_interface__ for this memory"
                                    : "no __cuda_array_interface__ for memory of the CPU");
}

}  // namespace

std::shared_ptr<Storage> storage_of(const ArrayMemory& memory) {
  auto [begin, end] = byte_span(memory.info.view, static_cast<size_t>(memory.info.item_bytes));
  return std::make_shared<Storage>(0, begin, end);
}

bool ArrayMemory::clear() {
  auto item_bytes = static_cast<size_t>(info.item_bytes);
  if (info.is_read_only || !info.is_on_host() || !info.view.is_contiguous(item_bytes)) return false;
  zero_fill(info.view.data, info.view.numel(), item_bytes);
  count_write();
  return true;
}

Keeper take_own_memory(ArrayInfo& info) {
  auto item_bytes = info.item_bytes;
  int64_t size_bytes = item_bytes;
  bool is_empty = false;
  for (int k = 0; k < info.view.ndim; ++k) {
    int64_t extent = info.view.shape[k];
    is_empty |= extent == 0;
    bool fits = extent >= 0 &&
                !__builtin_mul_overflow(size_bytes, std::max<int64_t>(extent, 1), &size_bytes);
    if (!fits) throw std::bad_alloc();
  }
  Keeper keeper = allocate_zeroed(is_empty ? 0 : static_cast<size_t>(size_bytes));
  if (keeper == nullptr) throw std::bad_alloc();
  info.view.data = keeper.get();
  info.view.set_contiguous(static_cast<size_t>(item_bytes));
  info.is_read_only = false;
  return keeper;
}

Keeper copy_to_own_memory(ArrayInfo& info) {
  ArrayView source = info.view;
  Keeper keeper = take_own_memory(info);
  copy_to_contiguous(keeper.get(), source, static_cast<size_t>(info.item_bytes));
  return keeper;
}

ArrayMemory* array_memory_of(PyObject* object) {
  return nb::inst_ready(object) ? nb::inst_ptr<ArrayMemory>(object) : nullptr;
}

bool is_array_memory(PyTypeObject* type) {
  return PyType_IsSubtype(type, g_array_memory) != 0;
}

void bind_array_memory(nb::module_& m) {
  nb::class_<ArrayMemory> memory(
      m, "ArrayMemory", nb::is_weak_referenceable(),
      "Memory of an array as launches read it: any library's, shared and kept in place.\n\n"
      "It stands for the array in launches, and in whatever takes DLPack.");
  g_array_memory = reinterpret_cast<PyTypeObject*>(memory.ptr());
  memory
      .def("__init__", &init_array_memory, nb::arg("source"), nb::arg("base") = nb::none(),
           nb::arg("buffer") = nb::none(),
           nb::sig("def __init__(self, source: object, base: ArrayMemory | None = None, "
                   "buffer: DeviceBuffer | None = None) -> None"),
           "Of an array or a DLPack capsule; its count of writes is that of `base`.\n\n"
           "`buffer`, or `base`, says where the memory is that `source` is the layout of.")
      .def_prop_ro(
          "version", [](const ArrayMemory& self) { return self.version(); },
          "How often the memory was written, through this array or another view of it.")
      .def("mark_write", &ArrayMemory::count_write,
           "Count a write that neither a launch nor a method of the array made.")
      .def_prop_ro(
          "ptr",
          [](const ArrayMemory& self) { return reinterpret_cast<uintptr_t>(self.info.view.data); },
          "The address of the first element.")
      .def_prop_ro("span", &ArrayMemory::span, "Where the elements lie.")
      .def(
          "set_one",
          [](ArrayMemory& self) {
            if (!is_usable(self.info) || self.info.is_read_only || self.info.view.numel() != 1) {
              throw nb::value_error("set_one: no element, or several");
            }
            auto dtype = static_cast<DType>(self.info.dtype);
            auto* target = static_cast<std::byte*>(self.info.view.data);
            bool is_float = traits_of(dtype).kind == ScalarKind::kFloat;
            is_float ? store_float(dtype, 1.0, target) : store_integer(dtype, 1, target);
            self.count_write();
          },
          "Set the only element to 1, and count the write.")
      .def("clear", &ArrayMemory::clear,
           "Zero the bytes and count the write; false, and nothing is done, unless they are "
           "adjacent and may be written.")
      .def_prop_ro(
          "extents",
          [](const ArrayMemory& self) {
            return integers(self.info.view.shape, self.info.view.ndim);
          },
          nb::sig("def extents(self) -> tuple[int, ...]"),
          "The shape, components of elements included.")
      .def_prop_ro(
          "stride_bytes",
          [](const ArrayMemory& self) {
            return integers(self.info.view.stride_bytes, self.info.view.ndim);
          },
          nb::sig("def stride_bytes(self) -> tuple[int, ...]"),
          "Bytes between neighbours along each of these dimensions.")
      .def_prop_ro(
          "total_ndim", [](const ArrayMemory& self) { return self.info.view.ndim; },
          "The number of dimensions, those of components included.")
      .def_prop_ro(
          "numel", [](const ArrayMemory& self) { return self.info.view.numel(); },
          "The number of components of all elements.")
      .def_prop_ro(
          "scalar_index",
          [](const ArrayMemory& self) { return is_usable(self.info) ? self.info.dtype : -1; },
          "The place of the scalar type in `types.SCALARS`; -1 for elements that kernels cannot "
          "use.")
      .def_prop_ro(
          "is_on_cuda", [](const ArrayMemory& self) { return self.info.is_on_cuda(); },
          "Whether the memory is that of a CUDA device.")
      .def_prop_ro(
          "is_pinned",
          [](const ArrayMemory& self) { return self.info.device.device_type == kDLCUDAHost; },
          "Whether it is memory of the host that CUDA devices copy from without waiting.")
      .def_prop_ro(
          "is_read_only", [](const ArrayMemory& self) { return self.info.is_read_only; },
          "Whether the memory must not be written.")
      .def_prop_ro(
          "is_on_host", [](const ArrayMemory& self) { return self.info.is_on_host(); },
          "Whether the CPU may touch the memory.")
      .def_prop_ro(
          "has_lazy_sign", [](const ArrayMemory& self) { return self.info.has_lazy_sign; },
          "Whether the elements in memory still have to be negated.")
      .def_prop_ro(
          "__array_interface__", [](const ArrayMemory& self) { return interface_of(self, true); },
          nb::sig("def __array_interface__(self) -> dict[str, typing.Any]"))
      .def(
          "cuda_interface",
          [](const ArrayMemory& self, const cuda::Stream* stream) {
            nb::object dict = interface_of(self, false);
            if (stream == nullptr || self.allocation == nullptr) return dict;
            self.allocation->note_export();
            self.allocation->delay(*stream);
            dict["stream"] = reinterpret_cast<uintptr_t>(stream->handle());
            return dict;
          },
          nb::arg("stream").none(),
          nb::sig("def cuda_interface(self, stream: CudaStream | None) -> dict[str, typing.Any]"),
          "The interface of memory of a GPU, which names `stream`: it waits for all that uses the "
          "memory.")
      .def_prop_ro(
          "__cuda_array_interface__",
          [](const ArrayMemory& self) { return interface_of(self, false); },
          nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"));
  bind_dlpack_export(memory);
  bind_dlpack_exchange(memory);
  m.def(
      "allocation_counts",
      [] {
        AllocationCounts c = allocation_counts();
        return nb::make_tuple(c.count, c.size_bytes, c.live_count, c.live_bytes, c.peak_bytes);
      },
      nb::sig("def allocation_counts() -> tuple[int, int, int, int, int]"),
      "Of memory that data arrays own: how often and how many bytes were allocated, how many of "
      "both are in use, and the most bytes that were since `restart_peak`.");
  m.def("restart_peak", &restart_peak, nb::arg("least_bytes") = 0,
        "Set the most bytes that were in use to those that are, or to `least_bytes`.");
  // Without keywords, whose parsing would take a third of the time.
  m.def(
      "adopted",
      [](nb::handle type, nb::handle source) { return instance_of(type, adopted(source)); },
      nb::sig("def adopted(type: type, source: object, /) -> typing.Any"),
      "An instance of a subclass on the memory of an array or a DLPack capsule.");
  m.def(
      "adopted_in",
      [](nb::handle type, nb::handle source, const cuda::Stream& stream) {
        return instance_of(type, adopted_in(source, stream));
      },
      nb::sig("def adopted_in(type: type, source: object, stream: CudaStream, /) -> typing.Any"),
      "As `adopted`, of memory of a CUDA device, for use in a stream.");
  m.def(
      "copied",
      [](nb::handle type, nb::handle source) { return instance_of(type, copied(source)); },
      nb::sig("def copied(type: type, source: object, /) -> typing.Any"),
      "An instance of a subclass with a copy of the elements of an array, without gaps.");
  m.def(
      "zeroed",
      [](nb::handle type, nb::handle extents, int index) {
        return instance_of(type, zeroed(extents, index));
      },
      nb::sig("def zeroed(type: type, extents: tuple[int, ...], index: int, /) -> typing.Any"),
      "An instance of a subclass over zeros of the scalar type at `index` of `types.SCALARS`.");
}

}  // namespace kernelcore::bind
