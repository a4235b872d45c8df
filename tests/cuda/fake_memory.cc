// Memory of the fake driver: pools, pinned memory, copies and fills.
//
// Memory of its devices cannot be touched but by its own functions, as that of a real device.
#include <sys/mman.h>

#include <cstring>

#include "fake_driver.h"

namespace kernelcore::fake {
namespace {

constexpr size_t kPage = 4096;

uintptr_t allocate(size_t bytes, int device, bool is_pinned) {
  size_t whole = (bytes + kPage - 1) / kPage * kPage;
  void* found = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  // Whoever reads what was never written shall see it.
  std::memset(found, is_pinned ? 0 : 0xA5, whole);
  if (!is_pinned) mprotect(found, whole, PROT_NONE);
  auto address = reinterpret_cast<uintptr_t>(found);
  state().memory[address] = {whole, device, is_pinned};
  return address;
}

bool release(uintptr_t address) {
  State& s = state();
  auto it = s.memory.find(address);
  if (it == s.memory.end()) return false;
  munmap(reinterpret_cast<void*>(address), it->second.bytes);
  s.memory.erase(it);
  return true;
}

bool is_on_device(uintptr_t address) {
  auto it = state().memory.upper_bound(address);
  if (it == state().memory.begin()) return false;
  --it;
  return address < it->first + it->second.bytes && !it->second.is_pinned;
}

void protect_memory(int how) {
  for (const auto& [begin, memory] : state().memory) {
    if (!memory.is_pinned) mprotect(reinterpret_cast<void*>(begin), memory.bytes, how);
  }
}

}  // namespace

Access::Access() {
  protect_memory(PROT_READ | PROT_WRITE);
}
Access::~Access() {
  protect_memory(PROT_NONE);
}

}  // namespace kernelcore::fake

using namespace kernelcore::fake;

FAKE long fake_live_bytes() {
  long total = 0;
  for (const auto& [begin, memory] : state().memory) {
    if (!memory.is_pinned) total += static_cast<long>(memory.bytes);
  }
  return total;
}
FAKE void fake_pools(int has_pools) {
  state().pools = has_pools;
}

FAKE Result cuPointerGetAttribute(void* value, int attribute, DevicePointer pointer) {
  GIVE(state().broken);
  auto it = state().memory.upper_bound(pointer);
  if (it == state().memory.begin() || attribute != 9) return 1;
  --it;
  if (pointer >= it->first + it->second.bytes) return 1;
  *static_cast<int*>(value) = it->second.device;
  return kSuccess;
}
FAKE Result cuMemPoolCreate(PoolHandle* pool, const PoolProperties* properties) {
  NOTE("cuMemPoolCreate", properties->allocation_type, properties->location.type,
       properties->location.id);
  *pool = make<PoolHandle>("pool");
  return kSuccess;
}
FAKE Result cuMemPoolSetAttribute(PoolHandle pool, int attribute, void* value) {
  NOTE("cuMemPoolSetAttribute", static_cast<void*>(pool), attribute,
       *static_cast<unsigned long long*>(value));
  return kSuccess;
}
FAKE Result cuMemPoolTrimTo(PoolHandle pool, size_t bytes) {
  NOTE("cuMemPoolTrimTo", static_cast<void*>(pool), bytes);
  return kSuccess;
}
FAKE Result cuMemPoolSetAccess(PoolHandle pool, const PoolAccess* access, size_t count) {
  NOTE("cuMemPoolSetAccess", static_cast<void*>(pool), access->location.type, access->location.id,
       access->flags, count);
  return kSuccess;
}
FAKE Result cuMemAllocFromPoolAsync(DevicePointer* pointer, size_t bytes, PoolHandle pool,
                                    StreamHandle stream) {
  NOTE("cuMemAllocFromPoolAsync", bytes, static_cast<void*>(pool), static_cast<void*>(stream));
  if (state().captures.contains(stream)) return 1;
  *pointer = allocate(bytes, current_device(), false);
  return kSuccess;
}
FAKE Result cuMemFreeAsync(DevicePointer pointer, StreamHandle stream) {
  NOTE("cuMemFreeAsync", static_cast<void*>(stream));
  // A graph frees what it has allocated only.
  if (state().captures.contains(stream)) return 1;
  return release(pointer) ? kSuccess : 1;
}
FAKE Result cuMemAlloc_v2(DevicePointer* pointer, size_t bytes) {
  NOTE("cuMemAlloc", bytes);
  GIVE(forbid_in_captures());
  *pointer = allocate(bytes, current_device(), false);
  return kSuccess;
}
FAKE Result cuMemFree_v2(DevicePointer pointer) {
  NOTE("cuMemFree");
  GIVE(forbid_in_captures());
  return release(pointer) ? kSuccess : 1;
}
FAKE Result cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  NOTE("cuMemHostAlloc", bytes, flags);
  GIVE(forbid_in_captures());
  *pointer = reinterpret_cast<void*>(allocate(bytes, 0, true));
  return kSuccess;
}
FAKE Result cuMemFreeHost(void* pointer) {
  NOTE("cuMemFreeHost");
  GIVE(forbid_in_captures());
  return release(reinterpret_cast<uintptr_t>(pointer)) ? kSuccess : 1;
}
FAKE Result cuMemHostGetDevicePointer_v2(DevicePointer* pointer, void* memory, unsigned) {
  *pointer = reinterpret_cast<DevicePointer>(memory);
  return kSuccess;
}
// Notes the direction, which the driver infers from the addresses.
FAKE Result cuMemcpyAsync(DevicePointer target, DevicePointer source, size_t bytes,
                          StreamHandle stream) {
  const char* names[] = {"cuMemcpyHtoHAsync", "cuMemcpyHtoDAsync", "cuMemcpyDtoHAsync",
                         "cuMemcpyDtoDAsync"};
  NOTE(names[2 * is_on_device(source) + is_on_device(target)], bytes, static_cast<void*>(stream));
  return enqueue(stream, [=] { std::memmove(host(target), host(source), bytes); });
}
FAKE Result cuMemcpyPeerAsync(DevicePointer target, ContextHandle to, DevicePointer source,
                              ContextHandle from, size_t bytes, StreamHandle stream) {
  NOTE("cuMemcpyPeerAsync", static_cast<void*>(to), static_cast<void*>(from), bytes,
       static_cast<void*>(stream));
  return enqueue(stream, [=] { std::memcpy(host(target), host(source), bytes); });
}
FAKE Result cuMemcpyHtoD_v2(DevicePointer target, const void* source, size_t bytes) {
  return cuMemcpyAsync(target, reinterpret_cast<DevicePointer>(source), bytes, nullptr);
}
FAKE Result cuMemcpyDtoH_v2(void* target, DevicePointer source, size_t bytes) {
  return cuMemcpyAsync(reinterpret_cast<DevicePointer>(target), source, bytes, nullptr);
}
FAKE Result cuMemcpy2DAsync_v2(const CopyRows* rows, StreamHandle stream) {
  NOTE("cuMemcpy2DAsync", rows->source.memory_type, rows->target.memory_type, rows->width_bytes,
       rows->height, static_cast<void*>(stream));
  if (rows->source.memory_type != kAnyMemory || rows->target.memory_type != kAnyMemory) return 1;
  auto side = [](const CopySide& s) { return static_cast<char*>(host(s.device)); };
  if (rows->source.pitch_bytes < rows->width_bytes) return 1;
  if (rows->target.pitch_bytes < rows->width_bytes) return 1;
  return enqueue(stream, [copy = *rows, to = side(rows->target), from = side(rows->source)] {
    for (size_t k = 0; k < copy.height; ++k) {
      std::memcpy(to + k * copy.target.pitch_bytes, from + k * copy.source.pitch_bytes,
                  copy.width_bytes);
    }
  });
}
FAKE Result cuMemsetD8Async(DevicePointer target, unsigned char value, size_t count,
                            StreamHandle stream) {
  NOTE("cuMemsetD8Async", static_cast<unsigned>(value), count, static_cast<void*>(stream));
  return enqueue(stream, [=] { std::memset(host(target), value, count); });
}
FAKE Result cuMemsetD32Async(DevicePointer target, unsigned value, size_t count,
                             StreamHandle stream) {
  NOTE("cuMemsetD32Async", value, count, static_cast<void*>(stream));
  return enqueue(stream, [=] {
    for (size_t k = 0; k < count; ++k) static_cast<unsigned*>(host(target))[k] = value;
  });
}
