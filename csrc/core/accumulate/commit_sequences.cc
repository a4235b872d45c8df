#include "core/accumulate/commit_sequences.h"

#include <utility>

namespace kernelcore {

void CommitSequences::cut(int64_t chunks, int64_t count) {
  count_ = count;
  for (int64_t k = 0; k < count; ++k) {
    CommitSequence& sequence = sequences_[static_cast<size_t>(k)];
    sequence.begin = chunks * k / count;
    sequence.end = chunks * (k + 1) / count;
    sequence.next.store(sequence.begin, std::memory_order_relaxed);
    sequence.committed.store(sequence.begin, std::memory_order_relaxed);
  }
}

CommitSequences::Claim CommitSequences::claim(bool in_order) {
  while (true) {
    CommitSequence& sequence = most_idle(in_order);
    int64_t next = sequence.next.load(std::memory_order_relaxed);
    if (next != sequence.end &&
        sequence.next.compare_exchange_weak(next, next + 1, std::memory_order_relaxed)) {
      return {sequence, next};
    }
  }
}

// Never null: an empty sequence stays empty, and one of the chunks left is for the caller.
CommitSequence& CommitSequences::most_idle(bool in_order) {
  CommitSequence* found = nullptr;
  std::pair<bool, int64_t> least;
  for (CommitSequence& sequence : std::span(sequences_).first(static_cast<size_t>(count_))) {
    int64_t next = sequence.next.load(std::memory_order_relaxed);
    if (next == sequence.end) continue;
    // A second thread on the same sequence has to log its additions.
    bool is_busy = sequence.committed.load(std::memory_order_relaxed) != next;
    std::pair<bool, int64_t> rank{is_busy, next - sequence.begin};
    if (found != nullptr && (in_order || rank >= least)) continue;
    found = &sequence;
    least = rank;
  }
  return *found;
}

}  // namespace kernelcore
