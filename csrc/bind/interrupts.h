// SIGINT, which Python turns into KeyboardInterrupt, ends launches.
#pragma once

namespace kernelcore::bind {

/// Makes long launches of Python's main thread end at SIGINT.
void init_interrupts();

}  // namespace kernelcore::bind
