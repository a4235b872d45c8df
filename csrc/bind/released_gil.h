// Lets other Python threads run.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

namespace kernelcore::bind {

/// Holds no lock of Python while it lives.
///
/// An interpreter that ends, ends daemon threads that want the lock back, by unwinding, which would
/// abort the process at any destructor. They wait for its end instead, as Python 3.14 lets them.
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
