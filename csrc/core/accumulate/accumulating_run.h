// Runs of kernels that add to arrays which chunks share: the same sums for any number of threads.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "core/accumulate/sections.h"
#include "core/memory/aligned_bytes.h"
#include "core/memory/array_view.h"
#include "core/run/launch.h"

namespace kernelcore {

/// A run whose chunks add to accumulated arrays.
///
/// Sums of integers are the same in any order. Sums of floats are made in the order of the chunks,
/// in one of two ways that depends on nothing but the shapes:
///  - a chunk adds to the array itself in its turn, which is when all before it have done so; until
///    then it writes its additions down in a log;
///  - the first chunk adds to the array itself, and every other one to a copy of the part of the
///    array that it can reach, which is added to the array in its turn. Where this is a window that
///    moves with the first launch index, only the points at the start of the chunk, its head, have
///    a copy: what the others reach no chunk before it does.
/// Where chunks add several times as much as arrays hold, the chunks are cut into sections. All but
/// the first add so to a copy of the arrays, and these are added at the end: as many threads as
/// there are sections always find a chunk whose turn it is.
class AccumulatingRun final : public ChunkedRun {
 public:
  /// What a trial chunk took, in nanoseconds: before it needed its turn, and from then on.
  struct Cost {
    int64_t before_turn_ns;
    int64_t in_turn_ns;
  };

  AccumulatingRun(const LaunchDescriptor& descriptor, const void* block, const Launch& launch,
                  int64_t chunk);
  ~AccumulatingRun() override;

  /// Whether no second thread can help.
  bool is_alone() const { return is_alone_; }
  /// Makes room for `threads` threads; false if there is none.
  bool share(int64_t threads);
  /// How many threads can add at a time.
  int64_t sections() const { return sections_.count(); }
  /// After `share`: whether chunks add in ways that take longer where `threads` threads run them.
  bool has_detours(int64_t threads) const;
  /// After `share`: runs the next chunk as if other threads ran chunks too; there must be one.
  Cost try_shared();
  /// After `share`: up to `threads` threads may come from here on.
  void open(int64_t threads) {
    is_open_ = true;
    limit_workers(threads);
  }
  /// After all chunks have run: adds the copies of helpers and of sections.
  void finish();

 private:
  enum class Way {
    kTurn,        // floats: into the array in turn, through the log before it
    kChunkCopy,   // floats: into a copy per chunk
    kAlone,       // integers: as if no other thread was there
    kAtomic,      // integers: by atomic instructions
    kWorkerCopy,  // integers: into a copy per helper
  };
  struct Target {
    const Accumulated* what;
    const ParameterSlot* slot;
    ArrayView view;
    Way way;
    int64_t copy_elements = 0;
    size_t copy_offset = 0;     // in the copies of a pending, or of a helper
    size_t section_offset = 0;  // in the copies of a section
  };
  struct PendingChunk;

  static bool is_float(Way way) { return way == Way::kTurn || way == Way::kChunkCopy; }

  void run_chunk(int64_t, int64_t worker) override;
  void choose_ways(const LaunchDescriptor& descriptor);
  int64_t head_end(int64_t index) const;
  /// Says how many sections the shapes ask for, and where arrays lie in their copies.
  int64_t count_sections();
  bool make_pending(int64_t count, size_t log_records);
  bool share_pending(int64_t threads);
  bool make_worker_copies(int64_t threads);
  /// Makes room for `count` copies, which the sections but the first use in turn; leaves what there
  /// is where there is none.
  bool make_section_copies(int64_t count);
  void clear_copies(Way way, std::byte* copies) const;
  void clear_section(Section& section);
  void add_section(const Section& section) const;
  /// The array to which chunks of `section` add in their turn.
  ArrayView home_of(const Target& target, const Section& section) const;
  void redirect(const Target& target, const ArrayView& part, std::byte* copies,
                std::byte* block) const;
  std::byte* copies_of(int64_t worker);
  PendingChunk& pending_of(const Section& section, int64_t index) const;
  void commit(Section& section);
  void apply(PendingChunk& pending);
  /// Called where a chunk can go on in its turn only.
  void note_turn();
  static void drain(AddLog* log);
  static void make_additions(AddLog& log, AddRecord* records);

  std::vector<Target> targets_;
  size_t block_bytes_;
  bool is_alone_ = false;
  bool is_shared_ = false;
  bool is_ordered_ = false;  // some array takes sums of floats
  bool has_heads_ = false;   // some array has copies for heads only
  int64_t window_rows_ = 0;
  bool is_trial_ = false;
  bool is_open_ = false;
  std::chrono::steady_clock::time_point trial_turn_;
  size_t chunk_copy_bytes_ = 0;
  size_t worker_copy_bytes_ = 0;
  size_t section_copy_bytes_ = 0;
  size_t log_records_ = 0;
  AlignedBytes memory_;
  std::unique_ptr<PendingChunk[]> pending_;
  int64_t pending_per_section_ = 1;
  Sections sections_;
  AlignedBytes section_memory_;
  AlignedBytes worker_copies_;
  std::vector<char> has_worked_;  // per helper
};

}  // namespace kernelcore
