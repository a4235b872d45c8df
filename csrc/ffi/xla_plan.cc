#include "ffi/xla_plan.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "core/error.h"
#include "core/registry.h"

namespace kernelcore::ffi {
namespace {

[[noreturn]] void fail_attribute(std::string_view name) {
  throw Error(ErrorKind::kInternal,
              "kernelcore: attribute '" + std::string(name) + "' is missing or malformed");
}

const void* find(const XLA_FFI_Attrs& attributes, std::string_view name, XLA_FFI_AttrType type) {
  for (int64_t i = 0; i < attributes.size; ++i) {
    const XLA_FFI_ByteSpan& found = *attributes.names[i];
    if (std::string_view(found.ptr, found.len) == name && attributes.types[i] == type) {
      return attributes.attrs[i];
    }
  }
  fail_attribute(name);
}

std::string read_string(const XLA_FFI_Attrs& attributes, std::string_view name) {
  const auto* span =
      static_cast<const XLA_FFI_ByteSpan*>(find(attributes, name, XLA_FFI_AttrType_STRING));
  return std::string(span->ptr, span->len);
}

template <class T>
std::span<const T> read_array(const XLA_FFI_Attrs& attributes, std::string_view name,
                              XLA_FFI_DataType dtype) {
  const auto* array =
      static_cast<const XLA_FFI_Array*>(find(attributes, name, XLA_FFI_AttrType_ARRAY));
  if (array->size == 0) return {};
  if (array->dtype != dtype) fail_attribute(name);
  return {static_cast<const T*>(array->data), array->size};
}

void count_buffers(Plan& plan) {
  for (const Relocation& r : plan.signature.relocations) {
    plan.operand_count = std::max<int64_t>(plan.operand_count, r.operand + 1);
    plan.result_count = std::max<int64_t>(plan.result_count, r.result + 1);
    bool needs_operand = r.role == Role::kInput || r.role == Role::kInOut;
    if ((needs_operand && r.operand < 0) || (r.is_written() && r.result < 0)) {
      fail_attribute("relocs");
    }
  }
}

}  // namespace

Plan make_plan(const XLA_FFI_Attrs& attributes) {
  Plan plan;
  Signature& signature = plan.signature;
  signature.name = read_string(attributes, "name");
  signature.key = read_string(attributes, "key");
  auto bytes = read_array<std::byte>(attributes, "template", XLA_FFI_DataType_U8);
  signature.block_template.assign(bytes.begin(), bytes.end());
  signature.block_bytes = bytes.size();
  signature.relocations =
      parse_relocations(read_array<int64_t>(attributes, "relocs", XLA_FFI_DataType_S64));
  auto texts = read_array<char>(attributes, "messages", XLA_FFI_DataType_U8);
  for (auto end = texts.begin(); (end = std::find(texts.begin(), texts.end(), '\0')) != texts.end();
       texts = {end + 1, texts.end()}) {
    signature.messages.emplace_back(texts.begin(), end);
  }
  plan.grid = parse_dim_rules(read_array<int64_t>(attributes, "grid", XLA_FFI_DataType_S64));
  signature.grid_rank = static_cast<int>(plan.grid.size());
  signature.fn = find_kernel(signature.key);
  if (signature.fn == nullptr) {
    throw Error(ErrorKind::kUnknownKernel,
                "kernelcore: kernel '" + signature.name + "' (" + signature.key +
                    ") is not registered in this process; import the module that defines it");
  }
  signature.validate();
  count_buffers(plan);
  return plan;
}

XLA_FFI_DataType xla_dtype(DType dtype) {
  constexpr XLA_FFI_DataType kTypes[kDTypeCount] = {
      XLA_FFI_DataType_PRED, XLA_FFI_DataType_S32, XLA_FFI_DataType_S64, XLA_FFI_DataType_F32,
      XLA_FFI_DataType_F64,  XLA_FFI_DataType_S8,  XLA_FFI_DataType_S16, XLA_FFI_DataType_U8,
      XLA_FFI_DataType_U16,  XLA_FFI_DataType_U32, XLA_FFI_DataType_U64, XLA_FFI_DataType_F16,
      XLA_FFI_DataType_BF16};
  return kTypes[static_cast<size_t>(dtype)];
}

}  // namespace kernelcore::ffi
