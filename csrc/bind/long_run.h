// What a launch that may take long does while it runs.
#pragma once

#include <optional>

#include "bind/released_gil.h"
#include "core/run/interrupt.h"

namespace kernelcore::bind {

/// Releases the GIL, and lets Ctrl-C end the launches of Python's main thread while it lives.
class LongRun {
 public:
  LongRun();

 private:
  ReleasedGil released_;
  std::optional<InterruptibleRuns> interruptible_;
};

}  // namespace kernelcore::bind
