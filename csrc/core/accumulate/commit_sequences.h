// Disjoint ranges of chunks that commit in order, independently of each other.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kernelcore {

/// Chunks [begin, end) of a run, which commit in order.
struct alignas(64) CommitSequence {
  int64_t begin = 0;
  int64_t end = 0;
  std::byte* copies = nullptr;        // copies of the arrays to add to; null: the arrays themselves
  std::atomic<int64_t> next{0};       // the chunk to claim
  std::atomic<int64_t> committed{0};  // all chunks before this one have committed
  std::atomic<bool> committing{false};
};

/// The sequences of a run. Every chunk is claimed once, those of a sequence in order.
class CommitSequences {
 public:
  static constexpr int64_t kMaxCount = 8;

  struct Claim {
    CommitSequence& sequence;
    int64_t index;
  };

  /// Splits `chunks` chunks into `count` sequences, before any is claimed.
  void cut(int64_t chunks, int64_t count);

  int64_t count() const { return count_; }
  int64_t number_of(const CommitSequence& sequence) const { return &sequence - sequences_.data(); }
  /// All sequences but the first.
  std::span<CommitSequence> others() { return {&sequences_[1], static_cast<size_t>(count_ - 1)}; }

  /// Claims a chunk, of the first sequence with chunks left if `in_order`, else of the least busy.
  /// There must be a chunk for every thread that calls.
  Claim claim(bool in_order);

 private:
  CommitSequence& most_idle(bool in_order);

  std::array<CommitSequence, kMaxCount> sequences_;
  int64_t count_ = 1;
};

}  // namespace kernelcore
