// Releases the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace kernelcore::bind {

/// Releases the GIL while it lives.
///
/// At its end the interpreter unwinds daemon threads that take the GIL, which aborts the process at
/// any noexcept destructor. They wait for the end of the process instead, as in Python 3.14.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ~ReleasedGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (...) {
      for (;;) pause();
    }
  }
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace kernelcore::bind
