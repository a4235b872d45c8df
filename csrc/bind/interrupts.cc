#include "bind/interrupts.h"

#include <nanobind/nanobind.h>
#include <signal.h>

#include <chrono>

#include "core/run/interrupt.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

// Python's handler, which notes the signal; `on_interrupt` calls it in turn.
struct sigaction g_handler_of_python;

void on_interrupt(int number) {
  interrupt_run();
  g_handler_of_python.sa_handler(number);
}

/// Whether Python raises KeyboardInterrupt at SIGINT. Other handlers may let the program go on.
bool raises_keyboard_interrupt() {
  nb::gil_scoped_acquire held;
  nb::module_ signals = nb::module_::import_("signal");
  return signals.attr("getsignal")(SIGINT).is(signals.attr("default_int_handler"));
}

/// Makes SIGINT call `on_interrupt`, unless the program has its own handler.
///
/// `signal.signal` replaces the handler, and Jupyter calls that for every cell, so the handler is
/// checked again. It is at most once a millisecond: the system call takes as long as a launch.
void install_handler() {
  using Clock = std::chrono::steady_clock;
  static Clock::time_point checked;
  auto now = Clock::now();
  if (now - checked < std::chrono::milliseconds(1)) return;
  checked = now;
  struct sigaction known;
  if (sigaction(SIGINT, nullptr, &known) != 0 || known.sa_handler == on_interrupt) return;
  bool is_plain = (known.sa_flags & SA_SIGINFO) == 0 && known.sa_handler != SIG_DFL &&
                  known.sa_handler != SIG_IGN;
  if (!is_plain || !raises_keyboard_interrupt()) return;
  g_handler_of_python = known;
  known.sa_handler = on_interrupt;
  sigaction(SIGINT, &known, nullptr);
}

}  // namespace

void init_interrupts() {
  set_interrupt_installer(install_handler);
}

}  // namespace kernelcore::bind
