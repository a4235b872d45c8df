#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/fork_mutex.h"
#include "xla/element_type.h"
#include "xla/plan.h"

namespace kernelcore::ffi {
namespace {

std::mutex g_mutex;
[[maybe_unused]] const bool g_is_registered = is_free_at_fork<g_mutex>();

using Plans = std::unordered_map<std::string, std::weak_ptr<const Plan>>;

/// Guarded by the mutex.
Plans& plans() {
  // Never destroyed: programs may be unloaded while the process exits.
  static auto* instance = new Plans();
  return *instance;
}

void append(std::string& key, const void* data, size_t size_bytes) {
  key.append(reinterpret_cast<const char*>(&size_bytes), sizeof size_bytes);
  if (size_bytes != 0) key.append(static_cast<const char*>(data), size_bytes);
}

/// Text that is equal for equal attributes only.
void append_attributes(std::string& key, const XLA_FFI_Attrs& attributes) {
  append(key, &attributes.size, sizeof attributes.size);
  for (int64_t i = 0; i < attributes.size; ++i) {
    append(key, attributes.names[i]->ptr, attributes.names[i]->len);
    key += static_cast<char>(attributes.types[i]);
    const void* source = attributes.attrs[i];
    switch (attributes.types[i]) {
      case XLA_FFI_AttrType_ARRAY: {
        const auto& array = *static_cast<const XLA_FFI_Array*>(source);
        key += static_cast<char>(array.dtype);
        append(key, array.data,
               array.size == 0 ? 0 : array.size * element_type(array.dtype).size_bytes);
        break;
      }
      case XLA_FFI_AttrType_SCALAR: {
        const auto& scalar = *static_cast<const XLA_FFI_Scalar*>(source);
        key += static_cast<char>(scalar.dtype);
        append(key, scalar.value, element_type(scalar.dtype).size_bytes);
        break;
      }
      case XLA_FFI_AttrType_STRING: {
        const auto& text = *static_cast<const XLA_FFI_ByteSpan*>(source);
        append(key, text.ptr, text.len);
        break;
      }
      case XLA_FFI_AttrType_DICTIONARY:
        append_attributes(key, *static_cast<const XLA_FFI_Attrs*>(source));
        break;
    }
  }
}

std::shared_ptr<const Plan> lookup(const std::string& key) {
  std::lock_guard lock(g_mutex);
  auto it = plans().find(key);
  return it == plans().end() ? nullptr : it->second.lock();
}

/// Deletes a plan and its entry, unless a later plan has taken the entry.
struct Forget {
  std::string key;
  void operator()(const Plan* plan) const {
    delete plan;
    std::lock_guard lock(g_mutex);
    auto it = plans().find(key);
    if (it != plans().end() && it->second.expired()) plans().erase(it);
  }
};

}  // namespace

std::shared_ptr<const Plan> find_or_make_plan(const XLA_FFI_Attrs& attributes) {
  std::string key;
  append_attributes(key, attributes);
  if (auto known = lookup(key)) return known;
  // Outside of the lock, since it may ask Python for the kernel.
  std::shared_ptr<const Plan> shared(new Plan(make_plan(attributes)), Forget{key});
  std::lock_guard lock(g_mutex);
  plans()[key] = shared;
  return shared;
}

size_t count_plans() {
  std::lock_guard lock(g_mutex);
  return plans().size();
}

}  // namespace kernelcore::ffi
