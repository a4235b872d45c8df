#include "bind/array/array_memory.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <tuple>

#include "bind/array/array_reader.h"
#include "bind/array/memory_protocols.h"
#include "bind/bindings.h"
#include "core/memory/aliasing.h"
#include "core/memory/array_view.h"
#include "core/memory/own_memory.h"
#include "core/scalar.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

PyTypeObject* g_array_memory = nullptr;

/// Throws the Python error of `status` unless it is kOk.
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
  require_read(read_array(source.ptr(), Access::kKeep, made, made.keeper), source);
  return made;
}

/// Wraps `kept`: when it is released, `owner` waits for the work queued in `stream` by then.
Keeper given_back_to(std::shared_ptr<cuda::Stream> owner,
                     std::shared_ptr<const cuda::Stream> stream, Keeper kept) {
  void* memory = kept.get();
  auto give_back = [owner = std::move(owner), stream = std::move(stream),
                    kept = std::move(kept)](void*) {
    try {
      owner->wait_for(*stream);
    } catch (const Error&) {
      return;  // The driver is shut down or has failed.
    }
  };
  return Keeper(memory, std::move(give_back));
}

/// Adopts memory for use in `stream`, which waits for its owner's stream. An owner that does not
/// synchronize waits for `stream` when the memory is released.
ArrayMemory adopted_in(nb::handle source, const cuda::Stream& stream) {
  ArrayMemory made{};
  Consumer consumer{stream.device().ordinal(), reinterpret_cast<uintptr_t>(stream.handle())};
  require_read(read_array(source.ptr(), Access::kKeep, made, made.keeper, consumer), source);
  if (made.stream != 0 && made.is_on_cuda()) {
    auto owner = cuda::Stream::wrap(cuda::Device::get(made.device.device_id), made.stream);
    stream.wait_for_owner(*owner);
    if (made.is_tied && made.stream != consumer.stream) {
      made.keeper =
          given_back_to(std::move(owner), stream.shared_from_this(), std::move(made.keeper));
    }
  }
  made.stream = 0;
  made.is_tied = false;
  return made;
}

/// A copy in new memory; without memory if the CPU cannot use the elements.
ArrayMemory copied(nb::handle source) {
  ArrayMemory made{};
  require_read(read_array(source.ptr(), Access::kRead, made, made.keeper), source);
  if (made.is_on_host() && made.is_usable()) made.keeper = copy_to_own_memory(made);
  return made;
}

void init_array_memory(ArrayMemory* self, nb::handle source, const ArrayMemory* base,
                       const DeviceBuffer* buffer) {
  ArrayMemory made = adopted(source);
  // NumPy arrays describe the layout of device memory, but not its device.
  auto lie_in = [&](DLDevice device, const auto& allocation, const Keeper& keeper) {
    made.device = device;
    made.allocation = allocation;
    if (made.is_on_cuda()) made.keeper = keeper;
  };
  if (buffer != nullptr) {
    lie_in(buffer->device, buffer->allocation, buffer->allocation);
  } else if (base != nullptr) {
    lie_in(base->device, base->allocation, base->keeper);
  }
  // The memory of NumPy's views of `base` keeps that of `base`, and so its lender.
  if (base != nullptr) made.lender = base->lender;
  made.storage = base != nullptr ? base->storage : storage_of(made);
  new (self) ArrayMemory(std::move(made));
}

/// An instance of `type`, a subclass, without the attributes that Python sets.
nb::object instance_of(nb::handle type, ArrayMemory&& memory) {
  nb::object made = nb::inst_alloc(type);
  memory.storage = storage_of(memory);
  new (nb::inst_ptr<ArrayMemory>(made)) ArrayMemory(std::move(memory));
  nb::inst_mark_ready(made);
  return made;
}

ArrayMemory zeroed(nb::handle extents, int index) {
  ArrayMemory made{};
  made.dtype = index;
  made.view.item_bytes = static_cast<int64_t>(size_bytes(static_cast<DType>(index)));
  made.view.ndim = static_cast<int>(nb::len(extents));
  if (made.view.ndim > kMaxArrayDims) throw nb::value_error("zeroed: too many dimensions");
  for (int k = 0; k < made.view.ndim; ++k) made.view.shape[k] = nb::cast<int64_t>(extents[k]);
  made.keeper = take_own_memory(made);
  return made;
}

nb::object interface_of(const ArrayMemory& self, bool on_host) {
  require_memory(self);
  nb::object dict = interface_dict(self);
  if (self.is_on_host() == on_host && !dict.is_none()) return dict;
  throw nb::attribute_error(on_host ? "no __array_interface__ for this memory"
                                    : "no __cuda_array_interface__ for memory of the CPU");
}

nb::object cuda_interface(const ArrayMemory& self, const cuda::Stream* stream) {
  nb::object dict = interface_of(self, false);
  if (stream == nullptr || self.allocation == nullptr) return dict;
  self.allocation->note_export();
  self.allocation->delay(*stream);
  dict["stream"] = reinterpret_cast<uintptr_t>(stream->handle());
  return dict;
}

void set_one(ArrayMemory& self) {
  require_memory(self);
  if (!self.is_usable() || self.is_read_only || self.view.numel() != 1) {
    throw nb::value_error("set_one: no element, or several");
  }
  auto dtype = static_cast<DType>(self.dtype);
  auto* target = static_cast<std::byte*>(self.view.data);
  bool is_float = traits_of(dtype).kind == ScalarKind::kFloat;
  is_float ? store_float(dtype, 1.0, target) : store_integer(dtype, 1, target);
  self.count_write();
}

/// The bits reinterpreted as elements of the DType `index`, which has the same size.
ArrayMemory as_scalar(const ArrayMemory& self, int index) {
  if (index < 0 || index >= kDTypeCount ||
      size_bytes(static_cast<DType>(index)) != static_cast<size_t>(self.view.item_bytes)) {
    throw nb::value_error("as_scalar: another size");
  }
  ArrayMemory found = self;
  found.dtype = index;
  return found;
}

/// Memory that is lent until a call of Python ends.
class Loan : public Lender {
 public:
  Loan(std::string loss, std::string remedy) : loss_(std::move(loss)), remedy_(std::move(remedy)) {}

  void end() { is_open_ = false; }
  bool still_lends() const override { return is_open_; }
  const char* loss() const override { return loss_.c_str(); }
  const char* remedy() const override { return remedy_.c_str(); }

 private:
  std::string loss_;
  std::string remedy_;
  bool is_open_ = true;
};

struct BoundLoan {
  std::shared_ptr<Loan> loan;
};

void limit_to(ArrayMemory& self, const BoundLoan& bound) {
  self.keeper =
      Keeper(bound.loan.get(), [loan = bound.loan, kept = std::move(self.keeper)](void*) {});
  self.lender = bound.loan.get();
}

nb::tuple integers(const int64_t* values, int count) {
  nb::list list;
  for (int k = 0; k < count; ++k) list.append(values[k]);
  return nb::tuple(list);
}

}  // namespace

nb::tuple extents_of(const ArrayView& view) {
  return integers(view.shape, view.ndim);
}

nb::tuple strides_of(const ArrayView& view) {
  return integers(view.stride_bytes, view.ndim);
}

std::shared_ptr<Storage> storage_of(const ArrayMemory& memory) {
  auto [begin, end] = memory.view.byte_span();
  return std::make_shared<Storage>(0, begin, end);
}

bool ArrayMemory::clear() {
  require_memory(*this);
  if (is_read_only || !is_on_host() || !view.is_contiguous()) return false;
  if (view.numel() != 0) std::memset(view.data, 0, view.size_bytes());
  count_write();
  return true;
}

Keeper take_own_memory(ArrayInfo& info) {
  int64_t size_bytes = info.view.item_bytes;
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
  info.view.set_contiguous();
  info.is_read_only = false;
  return keeper;
}

Keeper copy_to_own_memory(ArrayInfo& info) {
  ArrayView source = info.view;
  Keeper keeper = take_own_memory(info);
  copy_to_contiguous(keeper.get(), source);
  return keeper;
}

ArrayMemory* array_memory_of(PyObject* object) {
  return nb::inst_ready(object) ? nb::inst_ptr<ArrayMemory>(object) : nullptr;
}

bool is_array_memory(PyTypeObject* type) {
  return PyType_IsSubtype(type, g_array_memory) != 0;
}

void bind_array_memory(nb::module_& m) {
  nb::class_<ArrayView>(m, "Span", "Where the elements of an array lie, which it does not keep.")
      .def_prop_ro(
          "begin", [](const ArrayView& self) { return self.byte_span().first; },
          "The address of the first byte.")
      .def_prop_ro(
          "end", [](const ArrayView& self) { return self.byte_span().second; },
          "The address past the last byte; `begin` if there is none.")
      .def("overlaps", &may_overlap, nb::arg("other"),
           "Whether the two may share an element; false if they interleave.");
  nb::class_<BoundLoan>(m, "Loan", "Memory that arrays may use until the loan ends.")
      .def(
          "__init__",
          [](BoundLoan* self, std::string loss, std::string remedy) {
            new (self) BoundLoan{std::make_shared<Loan>(std::move(loss), std::move(remedy))};
          },
          nb::arg("loss"), nb::arg("remedy"),
          "`loss` says what its arrays are after the end, and `remedy` what to do.")
      .def(
          "require", [](const BoundLoan& self) { require_lent(*self.loan); },
          "Raise KernelArgumentError after the end.")
      .def("end", [](BoundLoan& self) { self.loan->end(); }, "Make every later use an error.");
  nb::class_<ArrayMemory> memory(
      m, "ArrayMemory", nb::is_weak_referenceable(),
      "Memory of an array as launches read it: any library's, shared and kept in place.\n\n"
      "It stands for the array in launches, and in whatever takes DLPack.");
  g_array_memory = reinterpret_cast<PyTypeObject*>(memory.ptr());
  auto view = [](auto get) { return [get](const ArrayMemory& self) { return get(self.view); }; };
  memory
      .def("__init__", &init_array_memory, nb::arg("source"), nb::arg("base") = nb::none(),
           nb::arg("buffer") = nb::none(),
           "Adopt an array or a DLPack capsule; the count of writes is that of `base`.\n\n"
           "With `buffer` or `base`, `source` only gives the layout, and they give the device.")
      .def_prop_ro("version", &ArrayMemory::version,
                   "The number of writes to the memory, through this array or a view of it.")
      .def("mark_write", &ArrayMemory::count_write,
           "Count a write that neither a launch nor a method of the array made.")
      .def_prop_ro("ptr",
                   view([](const ArrayView& v) { return reinterpret_cast<uintptr_t>(v.data); }),
                   "The address of the first element.")
      .def_prop_ro("span", view([](const ArrayView& v) { return v; }), "Where the elements lie.")
      .def("set_one", &set_one, "Set the only element to 1, and count the write.")
      .def("clear", &ArrayMemory::clear,
           "Zero the elements and count the write; false, and nothing is done, unless they are "
           "contiguous and writable.")
      .def_prop_ro("extents", view(extents_of), nb::sig("def extents(self) -> tuple[int, ...]"),
                   "The shape, components of elements included.")
      .def_prop_ro("stride_bytes", view(strides_of),
                   nb::sig("def stride_bytes(self) -> tuple[int, ...]"),
                   "Bytes between neighbours along each of these dimensions.")
      .def_prop_ro("total_ndim", view([](const ArrayView& v) { return v.ndim; }),
                   "The number of dimensions, those of components included.")
      .def_prop_ro("numel", view([](const ArrayView& v) { return v.numel(); }),
                   "The number of components of all elements.")
      .def_prop_ro("is_packed", view([](const ArrayView& v) { return v.is_contiguous(); }),
                   "Whether the elements are adjacent, in row-major order.")
      .def_prop_ro(
          "scalar_index",
          [](const ArrayMemory& self) { return self.is_usable() ? self.dtype : -1; },
          "The place of the scalar type in `types.SCALARS`; -1 for elements that kernels cannot "
          "use.")
      .def_prop_ro("is_on_cuda", &ArrayMemory::is_on_cuda,
                   "Whether the memory is that of a CUDA device.")
      .def_prop_ro("is_pinned", &ArrayMemory::is_pinned,
                   "Whether it is pinned host memory, which devices copy from asynchronously.")
      .def_prop_ro("is_on_host", &ArrayMemory::is_on_host, "Whether the CPU may touch the memory.")
      .def_ro("is_read_only", &ArrayMemory::is_read_only, "Whether the memory must not be written.")
      .def_prop_ro(
          "is_lent", [](const ArrayMemory& self) { return self.lender != nullptr; },
          "Whether the memory may be taken back; `require_memory` asks whether it was.")
      .def(
          "require_memory", [](const ArrayMemory& self) { require_memory(self); },
          "Raise KernelArgumentError if the memory was taken back.")
      .def("limit_to", &limit_to, nb::arg("loan"),
           "Let the memory be used until `loan` ends; views that were made before are not limited.")
      .def_ro("has_lazy_sign", &ArrayMemory::has_lazy_sign,
              "Whether a negation of the elements is pending, as torch has it.")
      .def("as_scalar", &as_scalar, nb::arg("index"),
           "The bits as elements of another scalar type of the same size, by its place in "
           "`types.SCALARS`.")
      .def_prop_ro(
          "__array_interface__", [](const ArrayMemory& self) { return interface_of(self, true); },
          nb::sig("def __array_interface__(self) -> dict[str, typing.Any]"))
      .def("cuda_interface", &cuda_interface, nb::arg("stream").none(),
           nb::sig("def cuda_interface(self, stream: CudaStream | None) -> dict[str, typing.Any]"),
           "The interface of GPU memory, with `stream`, which waits for all uses of the memory.")
      .def_prop_ro(
          "__cuda_array_interface__",
          [](const ArrayMemory& self) { return interface_of(self, false); },
          nb::sig("def __cuda_array_interface__(self) -> dict[str, typing.Any]"));
  bind_dlpack_export(memory);
  m.def(
      "allocation_counts",
      [] {
        AllocationCounts c = allocation_counts();
        return std::tuple(c.count, c.size_bytes, c.live_count, c.live_bytes, c.peak_bytes);
      },
      "Memory that data arrays own: allocations and bytes in all, live allocations and bytes, and "
      "the maximum of live bytes since `restart_peak`.");
  m.def("restart_peak", &restart_peak, nb::arg("least_bytes") = 0,
        "Set the maximum of live bytes to the current ones, at least `least_bytes`.");
  // Positional only: parsing keywords takes a third of the time of a call.
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
      "An instance of a subclass with a contiguous copy of the elements of an array.");
  m.def(
      "zeroed",
      [](nb::handle type, nb::handle extents, int index) {
        return instance_of(type, zeroed(extents, index));
      },
      nb::sig("def zeroed(type: type, extents: tuple[int, ...], index: int, /) -> typing.Any"),
      "An instance of a subclass over zeros of the scalar type at `index` of `types.SCALARS`.");
}

}  // namespace kernelcore::bind
