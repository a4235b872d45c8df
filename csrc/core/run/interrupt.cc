#include "core/run/interrupt.h"

#include <utility>

namespace kernelcore {
namespace {

thread_local void (*t_prepare)() = nullptr;
std::atomic<int64_t*> g_status{nullptr};

}  // namespace

InterruptibleRuns::InterruptibleRuns(void (*prepare)())
    : outer_(std::exchange(t_prepare, prepare)) {}

InterruptibleRuns::~InterruptibleRuns() {
  t_prepare = outer_;
}

InterruptibleStatus::InterruptibleStatus(int64_t* status) : is_active_(t_prepare != nullptr) {
  if (is_active_) outer_ = g_status.exchange(status, std::memory_order_relaxed);
}

InterruptibleStatus::~InterruptibleStatus() {
  if (is_active_) g_status.store(outer_, std::memory_order_relaxed);
}

void prepare_for_interrupts() {
  if (t_prepare != nullptr) t_prepare();
}

void interrupt_run() {
  int64_t* status = g_status.load(std::memory_order_relaxed);
  if (status == nullptr) return;
  int64_t expected = 0;
  std::atomic_ref<int64_t>(*status).compare_exchange_strong(expected, kStatusInterrupted,
                                                            std::memory_order_relaxed);
}

}  // namespace kernelcore
