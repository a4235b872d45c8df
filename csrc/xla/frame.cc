#include <utility>

#include "core/error.h"
#include "kernelcore/xla_frame.h"
#include "xla/context.h"

namespace kernelcore {
namespace {

struct TypeTraits {
  XLA_FFI_DataType code;
  const char* name;
  size_t size_bytes;
};

constexpr TypeTraits kTypes[] = {
    {XLA_FFI_DataType_PRED, "bool", 1},
    {XLA_FFI_DataType_S8, "int8", 1},
    {XLA_FFI_DataType_S16, "int16", 2},
    {XLA_FFI_DataType_S32, "int32", 4},
    {XLA_FFI_DataType_S64, "int64", 8},
    {XLA_FFI_DataType_U8, "uint8", 1},
    {XLA_FFI_DataType_U16, "uint16", 2},
    {XLA_FFI_DataType_U32, "uint32", 4},
    {XLA_FFI_DataType_U64, "uint64", 8},
    {XLA_FFI_DataType_F16, "float16", 2},
    {XLA_FFI_DataType_BF16, "bfloat16", 2},
    {XLA_FFI_DataType_F32, "float32", 4},
    {XLA_FFI_DataType_F64, "float64", 8},
    {XLA_FFI_DataType_C64, "complex64", 8},
    {XLA_FFI_DataType_C128, "complex128", 16},
    {XLA_FFI_DataType_F8E5M2, "float8_e5m2", 1},
    {XLA_FFI_DataType_F8E4M3FN, "float8_e4m3fn", 1},
};

const TypeTraits& traits_of(XLA_FFI_DataType code) {
  for (const TypeTraits& traits : kTypes) {
    if (traits.code == code) return traits;
  }
  throw Error(ErrorKind::kArgument,
              "a callback takes no buffers of XLA's type " + std::to_string(code));
}

const XLA_FFI_CallFrame& call_of(void* frame) {
  return *static_cast<const XLA_FFI_CallFrame*>(frame);
}

FrameBuffer read_buffer(const void* source) {
  const auto& buffer = *static_cast<const XLA_FFI_Buffer*>(source);
  return {traits_of(buffer.dtype).name, buffer.data, {buffer.dims, buffer.dims + buffer.rank}};
}

FrameArray read_numbers(XLA_FFI_DataType dtype, const void* data, size_t count, bool is_scalar) {
  const TypeTraits& traits = traits_of(dtype);
  return {traits.name, {static_cast<const char*>(data), count * traits.size_bytes}, is_scalar};
}

std::vector<FrameAttribute> read_attributes(const XLA_FFI_Attrs& attributes) {
  std::vector<FrameAttribute> found;
  for (int64_t i = 0; i < attributes.size; ++i) {
    const XLA_FFI_ByteSpan& name = *attributes.names[i];
    const void* source = attributes.attrs[i];
    FrameAttribute attribute{{name.ptr, name.len}, {}};
    switch (attributes.types[i]) {
      case XLA_FFI_AttrType_ARRAY: {
        const auto& array = *static_cast<const XLA_FFI_Array*>(source);
        attribute.value = read_numbers(array.dtype, array.data, array.size, false);
        break;
      }
      case XLA_FFI_AttrType_SCALAR: {
        const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(source);
        attribute.value = read_numbers(scalar.dtype, scalar.value, 1, true);
        break;
      }
      case XLA_FFI_AttrType_STRING: {
        const auto& text = *static_cast<const XLA_FFI_ByteSpan*>(source);
        attribute.value = std::string(text.ptr, text.len);
        break;
      }
      case XLA_FFI_AttrType_DICTIONARY:
        attribute.value = read_attributes(*static_cast<const XLA_FFI_Attrs*>(source));
        break;
    }
    found.push_back(std::move(attribute));
  }
  return found;
}

}  // namespace

bool answer_query(void* frame, bool is_graph_compatible) {
  XLA_FFI_Handler_Traits traits =
      is_graph_compatible ? XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE : 0;
  return ffi::answer_metadata(static_cast<XLA_FFI_CallFrame*>(frame), nullptr, traits);
}

Frame read_frame(void* frame) {
  const XLA_FFI_CallFrame& call = call_of(frame);
  Frame found;
  for (int64_t i = 0; i < call.args.size; ++i) {
    found.inputs.push_back(read_buffer(call.args.args[i]));
  }
  for (int64_t i = 0; i < call.rets.size; ++i) {
    found.outputs.push_back(read_buffer(call.rets.rets[i]));
  }
  found.attributes = read_attributes(call.attrs);
  found.stream = ffi::read_stream(call);
  found.device = ffi::read_device(call);
  return found;
}

void* make_frame_error(void* frame, const std::string& message) {
  XLA_FFI_Error_Create_Args args{};
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.message = message.c_str();
  args.errc = XLA_FFI_Error_Code_UNKNOWN;
  return call_of(frame).api->XLA_FFI_Error_Create(&args);
}

}  // namespace kernelcore
