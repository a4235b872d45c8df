#include <cstdint>

#include "bind/bindings.h"
#include "xla/call_site.h"
#include "xla/element_type.h"
#include "xla/errors.h"
#include "xla/plan.h"
#include "xla/state.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

nb::list to_buffers(void* const* sources, int64_t count) {
  nb::list found;
  for (int64_t i = 0; i < count; ++i) {
    const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(sources[i]);
    nb::list shape;
    for (int64_t k = 0; k < buffer.rank; ++k) shape.append(buffer.dims[k]);
    auto address = reinterpret_cast<uintptr_t>(buffer.data);
    found.append(nb::make_tuple(ffi::element_type(buffer.dtype).name, address, nb::tuple(shape)));
  }
  return found;
}

nb::object to_numbers(XLA_FFI_DataType dtype, const void* data, size_t count, bool is_scalar) {
  const ffi::ElementType& type = ffi::element_type(dtype);
  return nb::make_tuple(type.name, nb::bytes(data, count * type.size_bytes), is_scalar);
}

/// By name: text, a dictionary, or a tuple of dtype, bytes and whether it is one number.
nb::dict to_attributes(const XLA_FFI_Attrs& attributes) {
  nb::dict found;
  for (int64_t i = 0; i < attributes.size; ++i) {
    const void* source = attributes.attrs[i];
    nb::object value;
    switch (attributes.types[i]) {
      case XLA_FFI_AttrType_ARRAY: {
        const auto& array = *static_cast<const XLA_FFI_Array*>(source);
        value = to_numbers(array.dtype, array.data, array.size, false);
        break;
      }
      case XLA_FFI_AttrType_SCALAR: {
        const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(source);
        value = to_numbers(scalar.dtype, scalar.value, 1, true);
        break;
      }
      case XLA_FFI_AttrType_STRING: {
        const auto& text = *static_cast<const XLA_FFI_ByteSpan*>(source);
        value = nb::str(text.ptr, text.len);
        break;
      }
      case XLA_FFI_AttrType_DICTIONARY:
        value = to_attributes(*static_cast<const XLA_FFI_Attrs*>(source));
        break;
    }
    found[nb::str(attributes.names[i]->ptr, attributes.names[i]->len)] = value;
  }
  return found;
}

uintptr_t run_callback(uintptr_t address, const nb::object& function, bool is_graph_compatible) {
  auto* frame = reinterpret_cast<XLA_FFI_CallFrame*>(address);
  XLA_FFI_Handler_Traits traits =
      is_graph_compatible ? XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE : 0;
  if (ffi::answer_metadata(frame, nullptr, traits)) return 0;
  // An error of Python's that left this function would be lost in XLA.
  try {
    function(to_buffers(frame->args.args, frame->args.size),
             to_buffers(frame->rets.rets, frame->rets.size), to_attributes(frame->attrs),
             reinterpret_cast<uintptr_t>(ffi::read_stream(*frame)), ffi::read_device(*frame));
    return 0;
  } catch (const std::exception& error) {
    return reinterpret_cast<uintptr_t>(
        ffi::make_error(frame, XLA_FFI_Error_Code_UNKNOWN, error.what()));
  }
}

}  // namespace

void bind_xla(nb::module_& m) {
  for (const auto& list : {ffi::host_registrations(), ffi::cuda_registrations()}) {
    for (const ffi::Registration& each : list) {
      const char* type = each.is_handler ? "xla._CUSTOM_CALL_TARGET" : nullptr;
      m.attr(each.name) = nb::capsule(each.pointer, type);
    }
  }
  m.def("count_xla_plans", &ffi::count_plans,
        "How many different plans the call sites of all loaded programs have.");
  m.def("run_xla_callback", &run_callback, nb::arg("frame"), nb::arg("function"),
        nb::arg("is_graph_compatible"),
        nb::sig("def run_xla_callback(frame: int, function: collections.abc.Callable[..., object], "
                "is_graph_compatible: bool) -> int"),
        "Call `function(inputs, outputs, attributes, stream, device)` for the XLA call at an "
        "address, and return the address of XLA's error, or 0. A buffer is a tuple of dtype, "
        "address and shape.");
}

}  // namespace kernelcore::bind
