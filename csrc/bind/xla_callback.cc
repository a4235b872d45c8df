#include "bind/xla_callback.h"

#include <exception>
#include <string>

#include "kernelcore/xla_frame.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

nb::list to_buffers(const std::vector<FrameBuffer>& buffers) {
  nb::list found;
  for (const FrameBuffer& buffer : buffers) {
    nb::list shape;
    for (int64_t extent : buffer.shape) shape.append(extent);
    auto address = reinterpret_cast<uintptr_t>(buffer.data);
    found.append(nb::make_tuple(buffer.dtype, address, nb::tuple(shape)));
  }
  return found;
}

nb::dict to_attributes(const std::vector<FrameAttribute>& attributes);

/// Text, a dictionary, or a tuple of dtype, bytes and whether it is one number.
nb::object to_value(const FrameAttribute& attribute) {
  if (const auto* text = std::get_if<std::string>(&attribute.value)) {
    return nb::str(text->data(), text->size());
  }
  if (const auto* array = std::get_if<FrameArray>(&attribute.value)) {
    return nb::make_tuple(array->dtype, nb::bytes(array->bytes.data(), array->bytes.size()),
                          array->is_scalar);
  }
  return to_attributes(std::get<std::vector<FrameAttribute>>(attribute.value));
}

nb::dict to_attributes(const std::vector<FrameAttribute>& attributes) {
  nb::dict found;
  for (const FrameAttribute& attribute : attributes) {
    found[nb::str(attribute.name.data(), attribute.name.size())] = to_value(attribute);
  }
  return found;
}

}  // namespace

uintptr_t run_xla_callback(uintptr_t frame, const nb::object& function, bool is_graph_compatible) {
  void* call = reinterpret_cast<void*>(frame);
  if (answer_query(call, is_graph_compatible)) return 0;
  // An error of Python's that left this function would be lost in XLA.
  try {
    Frame read = read_frame(call);
    function(to_buffers(read.inputs), to_buffers(read.outputs), to_attributes(read.attributes),
             reinterpret_cast<uintptr_t>(read.stream), read.device);
    return 0;
  } catch (const std::exception& error) {
    return reinterpret_cast<uintptr_t>(make_frame_error(call, error.what()));
  }
}

}  // namespace kernelcore::bind
