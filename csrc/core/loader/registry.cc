#include "core/loader/registry.h"

#include <atomic>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/fork_mutex.h"

namespace kernelcore {
namespace {

std::mutex g_mutex;
[[maybe_unused]] const bool g_is_registered = is_free_at_fork<g_mutex>();

/// Guarded by the mutex, all but the resolver.
struct Registry {
  std::unordered_map<std::string, FoundKernel> kernels;
  std::atomic<Resolver> resolver{nullptr};
};

Registry& registry() {
  // Never destroyed: compiled programs may look kernels up while the process exits.
  static auto* instance = new Registry();
  return *instance;
}

FoundKernel lookup(const std::string& key) {
  Registry& r = registry();
  std::lock_guard lock(g_mutex);
  auto it = r.kernels.find(key);
  return it == r.kernels.end() ? FoundKernel{} : it->second;
}

void add(const std::string& key, FoundKernel kernel) {
  Registry& r = registry();
  std::lock_guard lock(g_mutex);
  r.kernels[key] = std::move(kernel);
}

}  // namespace

void register_kernel(const std::string& key, KernelFn fn) {
  add(key, {fn, nullptr, {}});
}

void register_image(const std::string& key, std::string image) {
  add(key, {nullptr, std::make_shared<const std::string>(std::move(image)), {}});
}

size_t count_kernels() {
  Registry& r = registry();
  std::lock_guard lock(g_mutex);
  return r.kernels.size();
}

void set_resolver(Resolver resolver) {
  registry().resolver.store(resolver);
}

FoundKernel find_kernel(const std::string& key, std::string_view object) {
  FoundKernel found = lookup(key);
  Resolver resolver = registry().resolver.load();
  if (found.fn != nullptr || found.image != nullptr || resolver == nullptr) return found;
  std::string problem = resolver(key, object);
  found = lookup(key);
  found.problem = std::move(problem);
  return found;
}

}  // namespace kernelcore
