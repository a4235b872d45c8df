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
  int64_t left_ns;   // what they take on one thread
  int64_t possible;  // the threads that a trial of this run is about; 0: no trial applies
  int64_t paid;      // how many of them the last trial found, 0 where that is unknown
};

/// Up to `most` threads for `run` if they pay. The last run of as many points tells what its chunks
/// take. Where that is unknown, or one thread is enough, the first chunk runs on this thread, and
/// tells.
Sharing choose_sharing(const LaunchDescriptor& descriptor, const Launch& launch, ChunkedRun& run,
                       int64_t most, Executor& executor);

/// Keeps for later runs that `found` of `threads` threads paid.
void note_paying(const LaunchDescriptor& descriptor, const Launch& launch, int64_t threads,
                 int64_t found);

/// Compares what a run took, `ns`, with the last one. After some runs of as many points on several
/// threads, the next one has one thread, and later ones have what took less.
///
/// Runs beyond a few milliseconds are compared only if several threads take nearly `alone_ns`, what
/// one would take as the first chunk tells.
void compare_threads(const LaunchDescriptor& descriptor, const Launch& launch,
                     const Sharing& sharing, int64_t used, int64_t ns, int64_t alone_ns);

/// Keeps for later runs what the first chunks of `run` took on this thread.
void note_time(const LaunchDescriptor& descriptor, const Launch& launch, const ChunkedRun& run);

}  // namespace kernelcore
