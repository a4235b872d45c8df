// Ends a long run when the user interrupts the program (SIGINT, Ctrl-C).
#pragma once

#include <atomic>
#include <cstdint>

#include "kernelcore/abi.h"

namespace kernelcore {

/// While it lives, an interrupt ends the runs that this thread launches.
///
/// Their threads stop between chunks and between iterations of `while` loops, and the run throws an
/// Error of kind kInterrupted. Elements that no thread has reached keep their values.
class InterruptibleRuns {
 public:
  /// `prepare` sees to it that an interrupt calls `interrupt_run`. Runs that may take long call it
  /// first, others not at all, since it costs a system call.
  explicit InterruptibleRuns(void (*prepare)());
  ~InterruptibleRuns();
  InterruptibleRuns(const InterruptibleRuns&) = delete;
  InterruptibleRuns& operator=(const InterruptibleRuns&) = delete;

 private:
  void (*const outer_)();
};

/// Makes `status`, that of a run, the one that `interrupt_run` sets, if the runs of this thread are
/// interruptible.
class InterruptibleStatus {
 public:
  explicit InterruptibleStatus(int64_t* status);
  ~InterruptibleStatus();
  InterruptibleStatus(const InterruptibleStatus&) = delete;
  InterruptibleStatus& operator=(const InterruptibleStatus&) = delete;

 private:
  const bool is_active_;
  int64_t* outer_ = nullptr;  // of the run that this one is nested in
};

/// What a run does before work that may take long.
void prepare_for_interrupts();

/// Ends the interruptible run, if there is one. For signal handlers: it only sets its status.
void interrupt_run();

/// Whether a run with this status has been interrupted.
inline bool is_interrupted(int64_t* status) {
  return std::atomic_ref<int64_t>(*status).load(std::memory_order_relaxed) == kStatusInterrupted;
}

}  // namespace kernelcore
