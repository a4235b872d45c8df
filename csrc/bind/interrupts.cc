#include <nanobind/nanobind.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>

#include "bind/array/builtin_call.h"
#include "bind/bindings.h"
#include "core/run/interrupt.h"

namespace nb = nanobind;

namespace kernelcore::bind {
namespace {

// Python's handler, which notes the signal; `on_interrupt` calls it in turn.
struct sigaction g_handler_of_python;

#if defined(__linux__)
// Set where another thread has told Python of the signal that the main thread is about to get.
std::atomic<bool> g_is_forwarded{false};
#endif

void on_interrupt(int number) {
#if defined(__linux__)
  // The main thread launched the run that ends, and only there does the status of the run live as
  // long as this function. A main thread that blocks the signal still has it noted by Python.
  if (gettid() != getpid()) {
    g_handler_of_python.sa_handler(number);
    g_is_forwarded.store(true);
    tgkill(getpid(), getpid(), number);
    return;
  }
  interrupt_run();
  if (g_is_forwarded.exchange(false)) return;
#else
  interrupt_run();
#endif
  g_handler_of_python.sa_handler(number);
}

// Functions of Python's module _signal, never released. They are in C: Python code would raise a
// pending KeyboardInterrupt in the middle of a run.
PyObject* g_getsignal = nullptr;
PyObject* g_default_handler = nullptr;

/// Whether Python raises KeyboardInterrupt at SIGINT. Other handlers may let the program go on.
bool raises_keyboard_interrupt() {
  nb::object number = nb::steal(PyLong_FromLong(SIGINT));
  nb::object handler = number.is_valid() ? call_function(g_getsignal, number.ptr()) : nb::object();
  if (!handler.is_valid()) PyErr_Clear();
  return handler.ptr() == g_default_handler;
}

/// Whether Python is about to raise KeyboardInterrupt, for a signal before `on_interrupt` was set.
bool is_interrupt_pending() {
  if (PyOS_InterruptOccurred() == 0) return false;
  // It took the signal.
  PyErr_SetInterrupt();
  return true;
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
  if (!is_plain) return;
  nb::gil_scoped_acquire held;
  if (!raises_keyboard_interrupt()) return;
  g_handler_of_python = known;
  known.sa_handler = on_interrupt;
  sigaction(SIGINT, &known, nullptr);
  if (is_interrupt_pending()) interrupt_run();
}

}  // namespace

void init_interrupts() {
  nb::module_ signals = nb::module_::import_("_signal");
  g_getsignal = nb::object(signals.attr("getsignal")).release().ptr();
  g_default_handler = nb::object(signals.attr("default_int_handler")).release().ptr();
  set_interrupt_installer(install_handler);
}

}  // namespace kernelcore::bind
