// How many threads share the chunks of a run, as far as it pays.
#pragma once

#include <cstdint>

#include "core/launch_descriptor.h"
#include "core/run/launch.h"

namespace kernelcore {

/// Whether threads share every run of several chunks (`set_eager_sharing`).
bool is_sharing_eager();

/// Whether `threads` save more of `chunks` chunks, which take `ns` on one, than it takes to start
/// them.
bool pays_to_dispatch(int64_t ns, int64_t chunks, int64_t threads, Executor& executor);

/// How the chunks of a run are shared that nobody has claimed.
struct Sharing {
  int64_t threads;
  int64_t left_ns;  // what they take on one thread
};

/// Up to `most` threads for `run` if they pay. The last run of as many points tells what its chunks
/// take. Where that is unknown, or one thread is enough, the first chunk runs on this thread, and
/// tells.
Sharing choose_sharing(const LaunchDescriptor& descriptor, const Launch& launch, ChunkedRun& run,
                       int64_t most, Executor& executor);

/// How many of `threads` threads paid in the last run of as many points that measured it; 0 where
/// that is unknown, or so long ago that it is to be measured again.
int64_t threads_that_paid(const LaunchDescriptor& descriptor, const Launch& launch,
                          int64_t threads);

/// Keeps for later runs that `found` of `threads` threads paid.
void note_paying(const LaunchDescriptor& descriptor, const Launch& launch, int64_t threads,
                 int64_t found);

/// A run that `threads` threads could share.
struct SharedRun {
  int64_t threads;
  int64_t used;      // how many did
  bool is_told;      // an earlier run told how many, or this one had more to do than later ones
  int64_t ns;        // what it took
  int64_t alone_ns;  // what one thread would take, as far as the first chunk tells
};

/// Compares `run` with the last one. If several threads gain little, or that is soon known, the
/// next run of as many points has one thread, and later ones have what took less.
void compare_threads(const LaunchDescriptor& descriptor, const Launch& launch,
                     const SharedRun& run);

/// Keeps for later runs what the first chunks of `run` took on this thread.
void note_time(const LaunchDescriptor& descriptor, const Launch& launch, const ChunkedRun& run);

}  // namespace kernelcore
