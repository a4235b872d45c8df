#include "core/run/interrupt.h"

#include <pthread.h>
#include <unistd.h>

namespace kernelcore {
namespace {

std::atomic<void (*)()> g_install{nullptr};
std::atomic<int64_t*> g_status{nullptr};

bool is_main_thread() {
#if defined(__linux__)
  thread_local const bool is_main = gettid() == getpid();
#else
  thread_local const bool is_main = pthread_main_np() != 0;
#endif
  return is_main;
}

}  // namespace

void set_interrupt_installer(void (*install)()) {
  g_install.store(install, std::memory_order_relaxed);
}

InterruptScope::InterruptScope(int64_t* status) : is_active_(is_main_thread()) {
  if (is_active_) outer_ = g_status.exchange(status, std::memory_order_relaxed);
}

InterruptScope::~InterruptScope() {
  if (is_active_) g_status.store(outer_, std::memory_order_relaxed);
}

void expect_interrupts() {
  auto install = g_install.load(std::memory_order_relaxed);
  if (install != nullptr && is_main_thread()) install();
}

void interrupt_run() {
  int64_t* status = g_status.load(std::memory_order_relaxed);
  if (status == nullptr) return;
  int64_t expected = 0;
  std::atomic_ref<int64_t>(*status).compare_exchange_strong(expected, kStatusInterrupted,
                                                            std::memory_order_relaxed);
}

}  // namespace kernelcore
