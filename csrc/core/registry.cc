#include "core/registry.h"

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

namespace kernelcore {
namespace {

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<std::string, KernelFn> kernels;
  std::atomic<Resolver> resolver{nullptr};
};

Registry& registry() {
  // Never destroyed: compiled programs may look kernels up while the process exits.
  static auto* instance = new Registry();
  return *instance;
}

KernelFn lookup(const std::string& key) {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  auto it = r.kernels.find(key);
  return it == r.kernels.end() ? nullptr : it->second;
}

}  // namespace

void register_kernel(const std::string& key, KernelFn fn) {
  Registry& r = registry();
  std::unique_lock lock(r.mutex);
  r.kernels[key] = fn;
}

size_t count_kernels() {
  Registry& r = registry();
  std::shared_lock lock(r.mutex);
  return r.kernels.size();
}

void set_resolver(Resolver resolver) {
  registry().resolver.store(resolver);
}

FoundKernel find_kernel(const std::string& key, std::string_view object) {
  if (KernelFn fn = lookup(key)) return {fn, {}};
  Resolver resolver = registry().resolver.load();
  if (resolver == nullptr) return {};
  std::string problem = resolver(key, object);
  return {lookup(key), problem};
}

}  // namespace kernelcore
