// torch's own threads, for operators that run between its operations.
#pragma once

#include "core/run/launch.h"

namespace kernelcore::torch {

/// Notes forks of this process from now on: in the child, `operator_threads` gives the pool. Called
/// once, before torch starts threads of its own if possible.
void watch_forks();

/// The threads that torch runs its operations on, where these are OpenMP's; else the pool.
///
/// OpenMP's threads spin for milliseconds after each parallel operation of torch. Threads of the
/// pool would wait for processors meanwhile, and the launch for them.
Executor& operator_threads();

}  // namespace kernelcore::torch
