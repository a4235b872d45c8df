#include "bind/long_run.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

// The handler that `on_interrupt` took the place of: Python's, which notes the signal.
struct sigaction g_previous;

void on_interrupt(int number) {
  interrupt_run();
  g_previous.sa_handler(number);
}

/// Whether this thread is the one that Python runs signal handlers on.
bool is_main_thread() {
#if defined(__linux__)
  thread_local const bool is_main = gettid() == getpid();
#else
  thread_local const bool is_main = pthread_main_np() != 0;
#endif
  return is_main;
}

/// Whether Python raises KeyboardInterrupt at SIGINT. Other handlers may let the program go on.
bool raises_keyboard_interrupt() {
  nb::gil_scoped_acquire held;
  nb::module_ signals = nb::module_::import_("signal");
  return signals.attr("getsignal")(SIGINT).is(signals.attr("default_int_handler"));
}

/// Sees to it that SIGINT calls `on_interrupt`, unless the program handles it in its own way.
///
/// `signal.signal` replaces the handler, and Jupyter calls it for every cell, so it is looked up
/// again; not for each launch of a loop, since the system call takes as long as a launch.
void handle_interrupts() {
  using Clock = std::chrono::steady_clock;
  static Clock::time_point looked_up;
  auto now = Clock::now();
  if (now - looked_up < std::chrono::milliseconds(1)) return;
  looked_up = now;
  struct sigaction known;
  if (sigaction(SIGINT, nullptr, &known) != 0 || known.sa_handler == on_interrupt) return;
  bool is_plain = (known.sa_flags & SA_SIGINFO) == 0 && known.sa_handler != SIG_DFL &&
                  known.sa_handler != SIG_IGN;
  if (!is_plain || !raises_keyboard_interrupt()) return;
  g_previous = known;
  known.sa_handler = on_interrupt;
  sigaction(SIGINT, &known, nullptr);
}

}  // namespace

LongRun::LongRun() {
  if (is_main_thread()) interruptible_.emplace(handle_interrupts);
}

}  // namespace kernelcore::bind
