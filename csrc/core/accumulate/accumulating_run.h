// Runs of kernels that accumulate into shared arrays: the same sums for any number of threads.
#pragma once

#include <chrono>
#include <memory>
#include <new>
#include <vector>

#include "core/accumulate/commit_sequences.h"
#include "core/memory/array_view.h"
#include "core/run/launch.h"

namespace kernelcore {

inline constexpr std::align_val_t kCacheLine{64};

struct AlignedDelete {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, kCacheLine); }
};

using AlignedBytes = std::unique_ptr<std::byte[], AlignedDelete>;

/// Uninitialised memory; null if there is none.
inline AlignedBytes allocate_aligned(size_t size_bytes) {
  return AlignedBytes(
      static_cast<std::byte*>(::operator new[](size_bytes, kCacheLine, std::nothrow)));
}

/// A run whose chunks add to accumulated arrays.
///
/// Integer sums do not depend on the order. Float sums commit in chunk order, in one of two ways
/// that only the shapes decide:
///  - A chunk adds to the array itself once all earlier chunks have committed. Until then it logs
///    its additions.
///  - The first chunk adds to the array itself, every other one to a copy of the part that it can
///    reach, and the copy is added when the chunk commits. If that part is a window that moves with
///    the first launch index, only the points at the start of the chunk (its head) use the copy:
///    earlier chunks do not reach what the other points add to.
/// Where chunks can divide the elements of an array among them, and these are many, each adds the
/// whole sums of its own: nothing is logged, copied or waited for.
/// Chunks that add several times as many numbers as the arrays hold are cut into sequences, which
/// commit independently of each other. All but the first add to a copy of the arrays, and the
/// copies are added at the end: with one thread a sequence, no chunk waits for its commit.
class AccumulatingRun final : public ChunkedRun {
 public:
  /// Time of a trial chunk, split where it had to wait for earlier chunks to commit.
  struct Cost {
    int64_t concurrent_ns;
    int64_t ordered_ns;
  };

  AccumulatingRun(const LaunchDescriptor& descriptor, const void* block, const Launch& launch,
                  int64_t chunk);
  ~AccumulatingRun() override;

  /// Whether the kernel cannot share its arrays with a second thread.
  bool is_alone() const { return is_alone_; }
  /// Allocates logs and copies for `threads` threads; false if memory is short.
  bool share(int64_t threads);
  /// The number of chunks that can commit at the same time.
  int64_t sequences() const { return sequences_.count(); }
  /// After `share`: whether additions take longer on `threads` threads (by logs or atomics).
  bool has_detours(int64_t threads) const;
  /// After `share`: runs the next chunk, which must exist, as if other threads were running.
  Cost try_shared();
  /// After `share`: admits up to `threads` threads.
  void open(int64_t threads) {
    is_open_ = true;
    limit_workers(threads);
  }
  /// After all chunks have run: adds the copies of workers and of sequences.
  void finish();

 private:
  enum class Way {
    kInOrder,     // floats: in commit order, logged until then
    kChunkCopy,   // floats: into a copy per chunk
    kAlone,       // integers: plain additions by one thread
    kAtomic,      // integers: atomic instructions
    kWorkerCopy,  // integers: into a copy per worker
    kOwn,         // whole sums of elements that no other chunk adds to
  };
  struct Target {
    Accumulated what;
    const ParameterSlot* slot;
    ArrayView view;
    Way way;
    int64_t copy_elements = 0;
    size_t copy_offset = 0;      // in the copies of a pending chunk, or of a helper
    size_t sequence_offset = 0;  // in the copies of a sequence
  };
  struct PendingChunk;

  static bool is_float(Way way) { return way == Way::kInOrder || way == Way::kChunkCopy; }

  void run_chunks(Chunks, int64_t worker) override;
  void choose_ways(const LaunchDescriptor& descriptor, const Launch& launch);
  int64_t head_end(int64_t index) const;
  /// The fastest number of sequences for these shapes; lays out their copies.
  int64_t count_sequences();
  bool make_pending(int64_t count, size_t log_records);
  bool share_pending(int64_t threads);
  bool make_worker_copies(int64_t threads);
  /// Allocates `count` copies, which all sequences but the first share round-robin. Changes nothing
  /// if memory is short.
  bool make_sequence_copies(int64_t count);
  void clear_copies(Way way, std::byte* copies) const;
  void clear_sequence(CommitSequence& sequence);
  void add_sequence(const CommitSequence& sequence) const;
  /// The array to which chunks of `sequence` add when they commit.
  ArrayView home_of(const Target& target, const CommitSequence& sequence) const;
  void redirect(const Target& target, const ArrayView& part, std::byte* copies,
                std::byte* block) const;
  std::byte* copies_of(int64_t worker);
  PendingChunk& pending_of(const CommitSequence& sequence, int64_t index) const;
  void commit(CommitSequence& sequence);
  void apply(PendingChunk& pending);
  /// Called before a chunk waits for earlier ones to commit.
  void note_commit_wait();
  static void drain(AddLog* log);
  static void make_additions(AddLog& log, AddRecord* records);

  std::vector<Target> targets_;
  size_t block_bytes_;
  bool is_alone_ = false;
  bool is_shared_ = false;
  bool is_ordered_ = false;  // some array accumulates floats
  bool has_heads_ = false;   // some array has copies for heads only
  int64_t window_rows_ = 0;
  bool is_trial_ = false;
  bool is_open_ = false;
  std::chrono::steady_clock::time_point trial_commit_start_;
  size_t chunk_copy_bytes_ = 0;
  size_t worker_copy_bytes_ = 0;
  size_t sequence_copy_bytes_ = 0;
  size_t log_records_ = 0;
  AlignedBytes memory_;
  std::unique_ptr<PendingChunk[]> pending_;
  int64_t pending_per_sequence_ = 1;
  CommitSequences sequences_;
  AlignedBytes sequence_memory_;
  AlignedBytes worker_copies_;
  std::vector<char> has_worked_;  // per worker but the launching thread
};

}  // namespace kernelcore
