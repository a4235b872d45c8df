// A driver without a device: it records calls, and runs kernels that tests name on the CPU. This
// part has the record, devices and their contexts.
#include "fake_driver.h"

#include <cstdio>

namespace kernelcore::fake {
namespace {

std::vector<ContextOpaque*>& primary() {
  static auto* contexts = new std::vector<ContextOpaque*>(kDevices, nullptr);
  return *contexts;
}
thread_local std::vector<ContextHandle> t_contexts;

}  // namespace

State& state() {
  static auto* instance = new State();
  return *instance;
}

std::string text(const void* handle) {
  if (handle == nullptr) return "null";
  if (reinterpret_cast<uintptr_t>(handle) < 16) {
    return "stream" + std::to_string(reinterpret_cast<uintptr_t>(handle));
  }
  auto it = state().names.find(const_cast<void*>(handle));
  return it == state().names.end() ? "?" : it->second;
}

Result record(const std::string& name, std::string line) {
  State& s = state();
  s.log.push_back(std::move(line));
  if (s.broken != 0) return s.broken;
  auto it = s.failures.find(name);
  if (it == s.failures.end()) return kSuccess;
  if (it->second.first-- > 0) return kSuccess;
  Result result = it->second.second;
  s.failures.erase(it);
  return result;
}

int current_device() {
  for (int k = 0; k < kDevices; ++k) {
    if (!t_contexts.empty() && t_contexts.back() == primary()[static_cast<size_t>(k)]) return k;
  }
  return -1;
}

}  // namespace kernelcore::fake

using namespace kernelcore::fake;

// What tests ask of it.
FAKE const char* fake_log() {
  static std::string joined;
  joined.clear();
  for (const auto& line : state().log) joined += line + "\n";
  return joined.c_str();
}
FAKE void fake_clear() {
  state().log.clear();
}
FAKE void fake_idle(int is_idle) {
  state().is_idle = is_idle != 0;
}
FAKE void fake_break(int result) {
  state().broken = result;
}
FAKE void fake_fail(const char* name, int after, int result) {
  state().failures[name] = {after, result};
}

FAKE Result cuInit(unsigned flags) {
  NOTE("cuInit", flags);
  return kSuccess;
}
FAKE Result cuGetErrorName(Result result, const char** name) {
  *name = result == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
          : result == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                          : "CUDA_ERROR_FAKE";
  return kSuccess;
}
FAKE Result cuGetErrorString(Result result, const char** name) {
  *name = result == 2     ? "out of memory"
          : result == 100 ? "no CUDA-capable device is detected"
          : result == 700 ? "an illegal memory access was encountered"
          : result == 900 ? "operation not permitted when stream is capturing"
                          : "a fake error";
  return kSuccess;
}
FAKE Result cuDeviceGetCount(int* count) {
  NOTE("cuDeviceGetCount");
  *count = kDevices;
  return kSuccess;
}
FAKE Result cuDeviceGet(DeviceHandle* device, int ordinal) {
  NOTE("cuDeviceGet", ordinal);
  *device = ordinal;
  return kSuccess;
}
FAKE Result cuDeviceGetName(char* name, int size, DeviceHandle device) {
  std::snprintf(name, static_cast<size_t>(size), "Fake %d", device);
  return kSuccess;
}
FAKE Result cuDeviceGetAttribute(int* value, int attribute, DeviceHandle) {
  // Version 9.0, memory pools, and 4 processors of 2,048 threads.
  static const std::map<int, int> known = {{75, 9}, {16, 4}, {39, 2048}};
  auto found = known.find(attribute);
  *value = attribute == 115 ? state().pools : found != known.end() ? found->second : 0;
  return kSuccess;
}
FAKE Result cuDeviceCanAccessPeer(int* is_possible, DeviceHandle device, DeviceHandle peer) {
  NOTE("cuDeviceCanAccessPeer", device, peer);
  *is_possible = 1;
  return kSuccess;
}
FAKE Result cuDevicePrimaryCtxRetain(ContextHandle* context, DeviceHandle device) {
  NOTE("cuDevicePrimaryCtxRetain", device);
  auto& known = primary()[static_cast<size_t>(device)];
  if (known == nullptr) known = make<ContextHandle>("context");
  *context = known;
  return kSuccess;
}
FAKE Result cuCtxGetCurrent(ContextHandle* context) {
  *context = t_contexts.empty() ? nullptr : t_contexts.back();
  return kSuccess;
}
FAKE Result cuCtxSetCurrent(ContextHandle context) {
  NOTE("cuCtxSetCurrent", static_cast<void*>(context));
  t_contexts.assign(1, context);
  return kSuccess;
}
FAKE Result cuCtxPushCurrent_v2(ContextHandle context) {
  NOTE("cuCtxPushCurrent", static_cast<void*>(context));
  t_contexts.push_back(context);
  return kSuccess;
}
FAKE Result cuCtxPopCurrent_v2(ContextHandle* context) {
  NOTE("cuCtxPopCurrent");
  if (t_contexts.empty()) return 201;
  *context = t_contexts.back();
  t_contexts.pop_back();
  return kSuccess;
}
FAKE Result cuCtxGetLimit(size_t* value, int) {
  *value = 8 << 20;
  return current_device() < 0 ? 201 : kSuccess;
}
FAKE Result cuCtxSetLimit(int limit, size_t value) {
  NOTE("cuCtxSetLimit", limit, value);
  return current_device() < 0 ? 201 : kSuccess;
}
FAKE Result cuDeviceTotalMem_v2(size_t* bytes, DeviceHandle) {
  *bytes = size_t{8} << 30;
  return kSuccess;
}
FAKE Result cuCtxSynchronize() {
  NOTE("cuCtxSynchronize");
  GIVE(wait_for_all());
  return current_device() < 0 ? 201 : kSuccess;
}
FAKE Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return kSuccess;
}
