// Ends a long run when the user interrupts the program (SIGINT, Ctrl-C).
#pragma once

#include <atomic>
#include <cstdint>

#include "kernelcore/abi.h"

namespace kernelcore {

/// Sets the function that installs the handler of SIGINT, which calls `interrupt_run`. Runs that
/// may take long call it first, others not at all, since it costs a system call.
void set_interrupt_installer(void (*install)());

/// While it lives, an interrupt ends the run of which `status` is the status, if the main thread of
/// the process launched it: Python handles signals there.
///
/// Threads of the run stop between chunks and between iterations of `while` loops, and the run
/// throws an Error of kind kInterrupted. Elements that no thread has reached keep their values.
class InterruptScope {
 public:
  explicit InterruptScope(int64_t* status);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  const bool is_active_;
  int64_t* outer_ = nullptr;  // of the run that this one is nested in
};

/// Makes sure that an interrupt reaches the run; called before work that may take long.
void expect_interrupts();

/// Ends the run that may be interrupted, if there is one. It is safe in signal handlers.
void interrupt_run();

/// Whether a run with this status has been interrupted.
inline bool is_interrupted(int64_t* status) {
  return std::atomic_ref<int64_t>(*status).load(std::memory_order_relaxed) == kStatusInterrupted;
}

}  // namespace kernelcore
