// Where new threads start.
#pragma once

namespace kernelcore {

/// The processor that the calling thread runs on; -1 where the system does not tell.
int current_cpu();

/// Moves the calling thread to the `number`-th processor after `cpu` that it may use, from where
/// the system may move it as before.
///
/// A new thread starts on the processor of its maker, and Linux may take 0.1 s to part the two.
void leave_cpu(int cpu, int number);

}  // namespace kernelcore
