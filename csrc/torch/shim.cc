#include "torch/shim.h"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <utility>

#include "core/error.h"

namespace kernelcore::torch {
namespace {

Shim g_shim;
bool g_loaded = false;

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorKind::kInternal, "torch: " + message);
}

template <class Function>
void bind_optional(void* library, const char* symbol, Function*& target) {
  target = reinterpret_cast<Function*>(dlsym(library, symbol));
}

template <class Function>
void bind(void* library, const char* symbol, Function*& target) {
  bind_optional(library, symbol, target);
  if (target == nullptr)
    fail(std::string("this version lacks ") + symbol + "; 2.10 or newer is needed");
}

/// Binds the functions of libtorch_cuda.so, beside the library at `path`, if torch has it.
void bind_cuda(void* library, const std::string& path, Shim& s) {
  std::string folder = path.substr(0, path.find_last_of('/') + 1);
  void* cuda = dlopen((folder + "libtorch_cuda.so").c_str(), RTLD_LAZY | RTLD_NOLOAD);
  bind_optional(cuda != nullptr ? cuda : library, "aoti_torch_get_current_cuda_stream",
                s.current_cuda_stream);
}

int32_t constant(void* library, const char* symbol) {
  int32_t (*getter)() = nullptr;
  bind(library, symbol, getter);
  return getter();
}

void check(int32_t code, const std::string& what) {
  if (code == 0) return;
  const char* text = g_shim.exception_text != nullptr ? g_shim.exception_text() : nullptr;
  fail(what + " failed" + (text != nullptr ? std::string(": ") + text : std::string()));
}

/// Library handles by namespace and dispatch key, for the process's life.
LibraryHandle library(const std::string& ns, const std::string& key) {
  using Key = std::pair<std::string, std::string>;
  static std::mutex mutex;
  static auto* handles = new std::map<Key, LibraryHandle>();
  std::lock_guard lock(mutex);
  auto [it, added] = handles->try_emplace(Key(ns, key), nullptr);
  if (!added && it->second != nullptr) return it->second;
  // torch keeps the pointers: those of the map's own key stay valid.
  const auto& [kept_ns, kept_key] = it->first;
  int32_t code =
      shim().library_for_key(kept_ns.c_str(), kept_key.c_str(), __FILE__, 0, &it->second);
  check(code, "opening namespace " + ns);
  return it->second;
}

}  // namespace

void load_shim(const std::string& path) {
  void* lib = dlopen(path.c_str(), RTLD_LAZY | RTLD_NOLOAD);
  if (lib == nullptr) fail(path + " is not loaded in this process");
  Shim s{};
  bind(lib, "aoti_torch_get_data_ptr", s.get_data_ptr);
  bind(lib, "aoti_torch_get_dim", s.get_dim);
  bind(lib, "aoti_torch_get_sizes", s.get_sizes);
  bind(lib, "aoti_torch_get_strides", s.get_strides);
  bind(lib, "aoti_torch_get_storage_size", s.get_storage_size);
  bind(lib, "aoti_torch_get_storage_offset", s.get_storage_offset);
  bind(lib, "aoti_torch_get_dtype", s.get_dtype);
  bind(lib, "aoti_torch_get_device_type", s.get_device_type);
  bind(lib, "aoti_torch_get_device_index", s.get_device_index);
  bind(lib, "aoti_torch_empty_strided", s.empty_strided);
  bind(lib, "aoti_torch_delete_tensor_object", s.delete_tensor);
  bind(lib, "aoti_torch_library_init_impl", s.library_for_key);
  bind(lib, "aoti_torch_library_impl", s.library_impl);
  bind(lib, "aoti_torch_grad_mode_is_enabled", s.grad_mode_is_enabled);
  bind(lib, "aoti_torch_grad_mode_set_enabled", s.set_grad_mode);
  bind(lib, "aoti_torch_copy_", s.copy);
  bind_optional(lib, "torch_exception_get_what_without_backtrace", s.exception_text);
  bind_optional(lib, "_ZN2at23hasThreadLocalCallbacksEv", s.is_recording);
  bind_cuda(lib, path, s);
  s.cpu = constant(lib, "aoti_torch_device_type_cpu");
  s.cuda = constant(lib, "aoti_torch_device_type_cuda");
  for (int i = 0; i < kDTypeCount; ++i) {
    std::string symbol = std::string("aoti_torch_dtype_") + name_of(static_cast<DType>(i));
    s.dtypes[i] = constant(lib, symbol.c_str());
  }
  g_shim = s;
  g_loaded = true;
}

const Shim& shim() {
  if (!g_loaded) fail("torch_init has not been called");
  return g_shim;
}

void implement_operator(const std::string& ns, const std::string& name, const std::string& key,
                        BoxedKernel kernel) {
  check(shim().library_impl(library(ns, key), name.c_str(), kernel),
        "implementing " + ns + "::" + name);
}

}  // namespace kernelcore::torch
