#include "core/accumulate/accumulating_run.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/accumulate/accumulated_copy.h"
#include "core/accumulate/own_elements.h"
#include "core/memory/aliasing.h"
#include "core/memory/argument_block.h"
#include "core/memory/small_buffer.h"
#include "core/run/spin_wait.h"
#include "core/run/stopwatch.h"

namespace kernelcore {
namespace {

constexpr size_t kMaxWorkerCopyBytes = size_t{8} << 20;
constexpr size_t kMaxPendingBytes = size_t{64} << 20;  // all pending chunks of a run
constexpr int64_t kPointsPerWorkerElement = 2;
constexpr size_t kLogRecords = 16384;
constexpr size_t kShortLogRecords = 256;
constexpr int64_t kPendingPerThread = 2;
constexpr size_t kMaxSequenceBytes = size_t{64} << 20;  // the copies of all sequences of a run
constexpr int64_t kMinChunksPerSequence = 4;
constexpr int64_t kMaxCountedPoints = int64_t{1} << 40;

}  // namespace

/// The log and the copies of a chunk that has started and has not committed.
struct AccumulatingRun::PendingChunk : AddLog {
  AccumulatingRun* owner = nullptr;
  CommitSequence* sequence = nullptr;
  int64_t index = 0;
  AddRecord* records = nullptr;
  std::byte* copies = nullptr;
  bool are_clear = false;         // before the first chunk that adds to them
  std::atomic<int64_t> ready{0};  // one more than the index of the chunk that has run
};

AccumulatingRun::AccumulatingRun(const LaunchDescriptor& descriptor, const void* block,
                                 const Launch& launch, int64_t chunk)
    : ChunkedRun(descriptor.fn, block, &launch.grid, launch.total, chunk,
                 descriptor.flush_denormals, launch.windows),
      block_bytes_(descriptor.block_template.size()) {
  choose_ways(descriptor, launch);
  sequences_.cut(chunks(), count_sequences());
  bool has_copies = sequences() > 1;
  if (!make_pending(1, 0) || (has_copies && !make_sequence_copies(1))) throw std::bad_alloc();
}

AccumulatingRun::~AccumulatingRun() = default;

void AccumulatingRun::choose_ways(const LaunchDescriptor& descriptor, const Launch& launch) {
  for (const Accumulated& described : descriptor.accumulated) {
    Accumulated what = descriptor.reached(described, grid());
    if (what.axis >= 0) window_rows_ = std::max(window_rows_, what.high - what.low);
  }
  for (const Accumulated& described : descriptor.accumulated) {
    Accumulated what = descriptor.reached(described, grid());
    const ParameterSlot& slot = descriptor.slots[what.parameter];
    Target target{what, &slot, read_array(static_cast<const std::byte*>(block()), slot),
                  Way::kAlone};
    if (divided_rows(descriptor, what, block(), launch) > 0 && is_distinct(target.view)) {
      target.way = Way::kOwn;
    } else if (traits_of(slot.dtype).kind == ScalarKind::kFloat) {
      is_ordered_ = true;
      int64_t points = chunk_points();
      if (what.axis >= 0) points = std::min(points, first_apart(grid(), 1, window_rows_));
      int64_t elements = most_reachable(what, target.view, grid(), points);
      std::optional<size_t> end =
          end_of_copy(what, slot.dtype, elements, chunk_points(), chunk_copy_bytes_);
      target.way = end ? Way::kChunkCopy : Way::kInOrder;
      if (end) {
        target.copy_elements = elements;
        target.copy_offset = chunk_copy_bytes_;
        chunk_copy_bytes_ = *end;
        has_heads_ |= what.axis >= 0;
      } else {
        is_alone_ |= !what.is_deferrable;
        log_records_ = std::max(log_records_, what.weight == 0 ? kShortLogRecords : kLogRecords);
      }
    } else {
      is_alone_ |= !what.is_deferrable;
    }
    targets_.push_back(target);
  }
}

int64_t AccumulatingRun::count_sequences() {
  bool gains = false;
  int64_t count = std::min(CommitSequences::kMaxCount, chunks() / kMinChunksPerSequence);
  for (Target& target : targets_) {
    if (!is_float(target.way)) continue;
    bool is_next = target.way == Way::kInOrder;
    // The head of a chunk overlaps chunks of the previous sequence.
    if (is_next ? !target.what.is_deferrable : target.what.axis >= 0) return 1;
    int64_t elements = std::max(target.view.numel(), int64_t{1});
    if (is_next) {
      gains |= target.what.weight > 0;
      int64_t points = std::min(total(), kMaxCountedPoints);
      int64_t additions = std::max(target.what.weight, int64_t{1}) * points;
      count = std::min(count, additions / kAdditionsPerCopiedElement / elements + 1);
    }
    if (count <= 1) return 1;
    auto size = static_cast<size_t>(elements) * size_bytes(target.slot->dtype);
    target.sequence_offset = sequence_copy_bytes_;
    sequence_copy_bytes_ += aligned(size);
    count = std::min(count, static_cast<int64_t>(kMaxSequenceBytes / sequence_copy_bytes_) + 1);
  }
  return gains ? count : 1;
}

bool AccumulatingRun::has_detours(int64_t threads) const {
  return std::ranges::any_of(targets_, [&](const Target& target) {
    bool is_logged = target.way == Way::kInOrder && threads > sequences_.count();
    return target.way == Way::kAtomic || (is_logged && target.what.weight > 0);
  });
}

bool AccumulatingRun::make_pending(int64_t count, size_t log_records) {
  size_t bytes = chunk_copy_bytes_ + log_records * sizeof(AddRecord);
  auto made =
      std::unique_ptr<PendingChunk[]>(new (std::nothrow) PendingChunk[static_cast<size_t>(count)]);
  AlignedBytes memory = allocate_aligned(bytes * static_cast<size_t>(count));
  if (made == nullptr || memory == nullptr) return false;
  for (int64_t i = 0; i < count; ++i) {
    PendingChunk& pending = made[static_cast<size_t>(i)];
    std::byte* start = memory.get() + bytes * static_cast<size_t>(i);
    pending.owner = this;
    pending.copies = start;
    pending.records = reinterpret_cast<AddRecord*>(start + chunk_copy_bytes_);
    pending.next = pending.records;
    pending.end = pending.records + log_records;
    pending.AddLog::drain = &AccumulatingRun::drain;
  }
  pending_ = std::move(made);
  memory_ = std::move(memory);
  return true;
}

bool AccumulatingRun::make_worker_copies(int64_t threads) {
  for (Target& target : targets_) {
    if (target.way != Way::kAlone) continue;
    int64_t elements = target.view.numel();
    size_t bytes = static_cast<size_t>(elements) * size_bytes(target.slot->dtype);
    size_t end = worker_copy_bytes_ + aligned(bytes);
    bool pays = elements * kPointsPerWorkerElement <= total() && end <= kMaxWorkerCopyBytes;
    target.way = pays ? Way::kWorkerCopy : Way::kAtomic;
    if (!pays) continue;
    target.copy_elements = elements;
    target.copy_offset = worker_copy_bytes_;
    worker_copy_bytes_ = end;
  }
  auto helpers = static_cast<size_t>(threads - 1);
  has_worked_.assign(helpers, 0);
  if (worker_copy_bytes_ == 0) return true;
  worker_copies_ = allocate_aligned(worker_copy_bytes_ * helpers);
  return worker_copies_ != nullptr;
}

bool AccumulatingRun::share(int64_t threads) {
  is_shared_ = make_worker_copies(threads) && (!is_ordered_ || share_pending(threads));
  return is_shared_;
}

bool AccumulatingRun::share_pending(int64_t threads) {
  int64_t sequences = sequences_.count();
  size_t bytes = chunk_copy_bytes_ + log_records_ * sizeof(AddRecord);
  auto most = static_cast<int64_t>(kMaxPendingBytes / std::max(bytes, size_t{1}));
  int64_t wanted = kPendingPerThread * ((threads + sequences - 1) / sequences);
  int64_t each = std::clamp(most / sequences, int64_t{1}, wanted);
  if (!make_pending(each * sequences, log_records_)) return false;
  pending_per_sequence_ = each;
  return sequences == 1 || make_sequence_copies(sequences - 1);
}

bool AccumulatingRun::make_sequence_copies(int64_t count) {
  AlignedBytes memory = allocate_aligned(sequence_copy_bytes_ * static_cast<size_t>(count));
  if (memory == nullptr) return false;
  sequence_memory_ = std::move(memory);
  size_t at = 0;
  for (CommitSequence& sequence : sequences_.others()) {
    sequence.copies = sequence_memory_.get() + sequence_copy_bytes_ * at;
    at = (at + 1) % static_cast<size_t>(count);
  }
  return true;
}

AccumulatingRun::Cost AccumulatingRun::try_shared() {
  is_trial_ = true;
  auto start = Clock::now();
  trial_commit_start_ = {};
  claim_one();
  is_trial_ = false;
  // Integers commit in any order.
  int64_t ordered_ns = is_ordered_ ? nanoseconds_since(trial_commit_start_) : 0;
  return {nanoseconds_since(start) - ordered_ns, ordered_ns};
}

void AccumulatingRun::note_commit_wait() {
  if (is_trial_ && trial_commit_start_ == Clock::time_point()) trial_commit_start_ = Clock::now();
}

void AccumulatingRun::clear_copies(Way way, std::byte* copies) const {
  for (const Target& target : targets_) {
    if (target.way != way) continue;
    clear_copy(target.slot->dtype, copies + target.copy_offset, target.copy_elements);
  }
}

void AccumulatingRun::clear_sequence(CommitSequence& sequence) {
  // On one thread all sequences share one copy, which merging clears.
  if (!is_shared_ && sequences_.number_of(sequence) > 1) return;
  for (const Target& target : targets_) {
    if (is_float(target.way)) {
      clear_copy(target.slot->dtype, sequence.copies + target.sequence_offset, target.view.numel());
    }
  }
}

void AccumulatingRun::add_sequence(const CommitSequence& sequence) const {
  if (sequence.copies == nullptr) return;
  for (const Target& target : targets_) {
    if (is_float(target.way)) {
      merge_copy(target.slot->dtype, target.view, sequence.copies + target.sequence_offset);
    }
  }
}

ArrayView AccumulatingRun::home_of(const Target& target, const CommitSequence& sequence) const {
  if (sequence.copies == nullptr) return target.view;
  return redirected(target.view, target.view, sequence.copies + target.sequence_offset);
}

void AccumulatingRun::redirect(const Target& target, const ArrayView& part, std::byte* copies,
                               std::byte* block) const {
  write_array(block + target.slot->offset,
              redirected(target.view, part, copies + target.copy_offset));
}

// Ignores which chunk: they are claimed from the sequences, one at a time. Such runs are never
// shared evenly, as claims of several chunks would count them without running them.
void AccumulatingRun::run_chunks(Chunks, int64_t worker) {
  auto [sequence, index] = sequences_.claim(!is_shared_);
  Grid seen = grid();
  PendingChunk* pending = nullptr;
  bool is_next = true;
  if (is_ordered_) {
    const std::atomic<int64_t>& committed = sequence.committed;
    spin_until([&, index = index] {
      return committed.load(std::memory_order_acquire) > index - pending_per_sequence_;
    });
    if (index == sequence.begin && index > 0) clear_sequence(sequence);
    pending = &pending_of(sequence, index);
    pending->sequence = &sequence;
    pending->index = index;
    seen.log = pending;
    if (index > sequence.begin && !pending->are_clear) {
      clear_copies(Way::kChunkCopy, pending->copies);
      pending->are_clear = true;
    }
    is_next = committed.load(std::memory_order_acquire) == index && !is_trial_;
  }
  SmallBuffer<std::byte, 1024> block_copy(block_bytes_);
  std::memcpy(block_copy.data(), block(), block_bytes_);
  std::byte* own_copies = copies_of(worker);
  auto [begin, end] = points_of(index);
  int64_t rest = head_end(index);
  for (size_t k = 0; k < targets_.size(); ++k) {
    const Target& target = targets_[k];
    bool is_deferred = target.way == Way::kInOrder && !is_next;
    bool is_atomic = target.way == Way::kAtomic && (is_open_ || is_trial_);
    if (is_deferred || is_atomic) seen.shared |= uint64_t{1} << k;
    if (target.way == Way::kOwn) seen.own |= uint64_t{1} << k;
    if (target.way == Way::kChunkCopy && index > sequence.begin) {
      ArrayView part = reachable_part(target.what, target.view, seen, begin, rest);
      redirect(target, part, pending->copies, block_copy.data());
    } else if (target.way == Way::kWorkerCopy && worker > 0) {
      redirect(target, target.view, own_copies, block_copy.data());
    } else if (is_float(target.way) && sequence.copies != nullptr) {
      write_array(block_copy.data() + target.slot->offset, home_of(target, sequence));
    }
  }
  run_kernel(block_copy.data(), seen, begin, rest);
  if (rest < end) {
    for (const Target& target : targets_) {
      if (target.way != Way::kChunkCopy || target.what.axis < 0) continue;
      write_array(block_copy.data() + target.slot->offset, target.view);
    }
    run_kernel(block_copy.data(), seen, rest, end);
  }
  if (pending == nullptr) return;
  pending->ready.store(index + 1, std::memory_order_seq_cst);
  commit(sequence);
}

AccumulatingRun::PendingChunk& AccumulatingRun::pending_of(const CommitSequence& sequence,
                                                           int64_t index) const {
  int64_t first = is_shared_ ? sequences_.number_of(sequence) * pending_per_sequence_ : 0;
  return pending_[static_cast<size_t>(first + (index - sequence.begin) % pending_per_sequence_)];
}

/// The end of the points of chunk `index` that add to copies of windows.
int64_t AccumulatingRun::head_end(int64_t index) const {
  auto [begin, end] = points_of(index);
  if (!has_heads_ || index == 0) return end;
  return std::min(first_apart(grid(), begin, window_rows_), end);
}

std::byte* AccumulatingRun::copies_of(int64_t worker) {
  if (worker == 0 || worker_copy_bytes_ == 0) return nullptr;
  auto helper = static_cast<size_t>(worker - 1);
  std::byte* copies = worker_copies_.get() + worker_copy_bytes_ * helper;
  if (has_worked_[helper] == 0) clear_copies(Way::kWorkerCopy, copies);
  has_worked_[helper] = 1;
  return copies;
}

// One thread drains the ready chunks in order. It re-checks after releasing the flag, because a
// chunk may have become ready meanwhile.
void AccumulatingRun::commit(CommitSequence& sequence) {
  auto next_is_ready = [&](int64_t index) {
    if (index >= sequence.end) return false;
    return pending_of(sequence, index).ready.load(std::memory_order_seq_cst) == index + 1;
  };
  int64_t index = sequence.committed.load(std::memory_order_seq_cst);
  while (next_is_ready(index)) {
    if (sequence.committing.exchange(true, std::memory_order_seq_cst)) return;
    index = sequence.committed.load(std::memory_order_seq_cst);
    while (next_is_ready(index)) {
      apply(pending_of(sequence, index));
      sequence.committed.store(++index, std::memory_order_seq_cst);
    }
    sequence.committing.store(false, std::memory_order_seq_cst);
  }
  if (!is_shared_ && index == sequence.end) add_sequence(sequence);
}

void AccumulatingRun::apply(PendingChunk& pending) {
  note_commit_wait();
  int64_t begin = points_of({pending.index, pending.index + 1}).first;
  int64_t rest = head_end(pending.index);
  for (const Target& target : targets_) {
    if (target.way != Way::kChunkCopy || pending.index == pending.sequence->begin) continue;
    ArrayView home = home_of(target, *pending.sequence);
    ArrayView part = reachable_part(target.what, home, grid(), begin, rest);
    merge_copy(target.slot->dtype, part, pending.copies + target.copy_offset);
  }
  make_additions(pending, pending.records);
}

void AccumulatingRun::drain(AddLog* log) {
  auto* pending = static_cast<PendingChunk*>(log);
  pending->owner->note_commit_wait();
  spin_until([pending] {
    return pending->sequence->committed.load(std::memory_order_acquire) == pending->index;
  });
  make_additions(*log, pending->records);
}

void AccumulatingRun::make_additions(AddLog& log, AddRecord* records) {
  for (const AddRecord* record = records; record != log.next; ++record) {
    if ((record->target & 1) != 0) {
      *reinterpret_cast<double*>(record->target - 1) += record->value.wide;
    } else {
      *reinterpret_cast<float*>(record->target) += record->value.narrow;
    }
  }
  log.next = records;
}

void AccumulatingRun::finish() {
  if (is_shared_) {
    for (const CommitSequence& sequence : sequences_.others()) add_sequence(sequence);
  }
  for (size_t helper = 0; helper < has_worked_.size(); ++helper) {
    if (has_worked_[helper] == 0) continue;
    std::byte* copies = worker_copies_.get() + worker_copy_bytes_ * helper;
    for (const Target& target : targets_) {
      if (target.way != Way::kWorkerCopy) continue;
      merge_copy(target.slot->dtype, target.view, copies + target.copy_offset);
    }
  }
}

}  // namespace kernelcore
