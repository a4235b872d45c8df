#include "cuda/released_memory.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "cuda/capture.h"
#include "cuda/stream.h"

namespace kernelcore::cuda {
namespace {

// More exported memory than this makes an allocation wait for the device.
constexpr size_t kMostExportedBytes = size_t{256} << 20;

DevicePointer device_pointer(void* address) {
  return reinterpret_cast<DevicePointer>(address);
}

/// Frees `memory` unless something may use it; `is_idle` is its device. False if it has to wait.
bool free_now(const ReleasedMemory& memory, bool is_idle) {
  const Stream& home = *memory.users.front();
  const DriverTable& driver = home.device().driver();
  ScopedContext current(home.device());
  OutsideCaptures relaxed(driver);
  // cuMemFree waits for the whole device.
  if (memory.is_exported && !is_idle && memory.kind != MemoryKind::kPlain) return false;
  auto captures = [](const auto& user) { return user->is_capturing(); };
  if (std::ranges::any_of(memory.users, captures)) return false;
  switch (memory.kind) {
    case MemoryKind::kPooled:
      for (const auto& user : memory.users) home.wait_for(*user);
      static_cast<void>(driver.free_async(device_pointer(memory.data), home.handle()));
      break;
    case MemoryKind::kPlain:
      static_cast<void>(driver.free(device_pointer(memory.data)));
      break;
    case MemoryKind::kPinned:
      // The first stream stands for the device and does not use the memory.
      for (size_t k = 1; k < memory.users.size(); ++k) {
        if (!memory.users[k]->is_idle()) return false;
      }
      static_cast<void>(driver.free_host(memory.data));
  }
  return true;
}

}  // namespace

void ReleasedList::release(ReleasedMemory memory) noexcept {
  std::vector<ReleasedMemory> given;
  given.push_back(std::move(memory));
  retry(std::move(given), false);
}

void ReleasedList::free_unused(const Device& device) noexcept {
  take_unkept().clear();
  bool has_much = false;
  {
    std::lock_guard lock(mutex_);
    if (waiting_.empty()) return;
    has_much = exported_bytes_ > kMostExportedBytes;
  }
  try {
    if (has_much && wait_and_free(device, Wait::kBesideCaptures) == kSuccess) return;
  } catch (const Error&) {
    return;
  }
  retry(take(), false);
}

Result ReleasedList::wait_and_free(const Device& device, Wait how) {
  take_unkept().clear();
  // Memory that is released during the wait may still be in use.
  std::vector<ReleasedMemory> waiting = take();
  Result result = device.wait(how);
  retry(std::move(waiting), result == kSuccess);
  return result;
}

void ReleasedList::retry(std::vector<ReleasedMemory> waiting, bool is_idle) noexcept {
  for (ReleasedMemory& memory : waiting) {
    try {
      if (free_now(memory, is_idle)) continue;
    } catch (const Error&) {
      // The driver is shut down or has failed.
      continue;
    }
    std::lock_guard lock(mutex_);
    if (memory.is_exported) exported_bytes_ += memory.size_bytes;
    waiting_.push_back(std::move(memory));
  }
}

std::vector<ReleasedMemory> ReleasedList::take() {
  std::lock_guard lock(mutex_);
  exported_bytes_ = 0;
  return std::exchange(waiting_, {});
}

}  // namespace kernelcore::cuda
