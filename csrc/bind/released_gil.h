// Releases the GIL, and takes it again at the end of the interpreter.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace kernelcore::bind {

/// Waits for the end of the process, as daemon threads do in Python 3.14.
///
/// Older interpreters unwind, at their end, daemon threads that take the GIL. That aborts the
/// process at any noexcept function, and runs destructors of Python objects without the GIL.
[[noreturn, gnu::cold, gnu::noinline]] inline void wait_for_exit() {
  for (;;) pause();
}

/// The result of `function`, which calls C functions that may run Python code, and throws nothing.
/// At the end of the interpreter it waits.
template <class Function>
[[gnu::always_inline]] inline auto held_at_exit(Function&& function) {
  try {
    return function();
  } catch (...) {
    wait_for_exit();
  }
}

/// Releases the GIL while it lives; at the end of the interpreter its destructor waits.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ~ReleasedGil() {
    held_at_exit([this] {
      PyEval_RestoreThread(state_);
      return true;
    });
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace kernelcore::bind
