// torch's own threads, for operators that run between its operations.
#pragma once

#include "core/run/launch.h"

namespace kernelcore::torch {

/// The threads that torch runs its operations on, where these are OpenMP's; else the pool.
///
/// OpenMP's threads spin for milliseconds after each parallel operation of torch. Threads of the
/// pool would wait for processors meanwhile, and the launch for them.
Executor& operator_threads();

}  // namespace kernelcore::torch
