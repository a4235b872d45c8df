// Mutexes of the process that a forked child finds free.
#pragma once

#include <pthread.h>

namespace kernelcore {

/// Lets no other thread hold `kMutex` while this process is forked: the child has one thread, and a
/// mutex that another one held would stay locked in it.
template <auto& kMutex>
bool is_free_at_fork() {
  return pthread_atfork([] { kMutex.lock(); }, [] { kMutex.unlock(); }, [] { kMutex.unlock(); }) ==
         0;
}

}  // namespace kernelcore
