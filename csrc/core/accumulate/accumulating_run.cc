#include "core/accumulate/accumulating_run.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "core/accumulate/accumulated_copy.h"
#include "core/memory/argument_block.h"
#include "core/memory/small_buffer.h"
#include "core/run/pause.h"

namespace kernelcore {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxChunkCopyBytes = size_t{4} << 20;
constexpr size_t kMaxWorkerCopyBytes = size_t{8} << 20;
constexpr size_t kMaxPendingBytes = size_t{64} << 20;  // all pending chunks of a run
constexpr int64_t kPointsPerWorkerElement = 2;
constexpr size_t kLogRecords = 16384;
constexpr size_t kShortLogRecords = 256;
constexpr int64_t kSlotsPerThread = 2;
constexpr size_t kMaxSectionBytes = size_t{64} << 20;  // the copies of all sections of a run
constexpr int64_t kFewestChunksPerSection = 4;
// To clear an element and to add it takes a third of an addition to a scattered one.
constexpr int64_t kAdditionsPerCopiedElement = 8;
constexpr int64_t kMostCountedPoints = int64_t{1} << 40;

constexpr size_t aligned(size_t size_bytes) {
  return (size_bytes + 63) / 64 * 64;
}

ArrayView view_in(const std::byte* block, const ParameterSlot& slot) {
  ArrayView view;
  view.ndim = slot.ndim;
  std::memcpy(&view.data, block + slot.offset, sizeof(void*));
  const std::byte* words = block + slot.offset + sizeof(void*);
  size_t row_bytes = sizeof(int64_t) * static_cast<size_t>(slot.ndim);
  std::memcpy(view.shape, words, row_bytes);
  std::memcpy(view.stride_bytes, words + row_bytes, row_bytes);
  return view;
}

int64_t since(Clock::time_point start) {
  auto passed = Clock::now() - start;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(passed).count();
}

}  // namespace

/// The log and the copies of one chunk, from its start until they have been added.
struct AccumulatingRun::PendingChunk : AddLog {
  AccumulatingRun* owner = nullptr;
  Section* section = nullptr;
  int64_t index = 0;
  AddRecord* records = nullptr;
  std::byte* copies = nullptr;
  std::atomic<int64_t> ready{0};  // the number of the chunk that has run, from 1
};

AccumulatingRun::AccumulatingRun(const LaunchDescriptor& descriptor, const void* block,
                                 const Launch& launch, int64_t chunk)
    : ChunkedRun(descriptor.fn, block, &launch.grid, launch.total, chunk),
      block_bytes_(descriptor.block_bytes) {
  choose_ways(descriptor);
  sections_.cut(chunks(), count_sections());
  bool has_copies = sections() > 1;
  if (!make_pending(1, 0) || (has_copies && !make_section_copies(1))) throw std::bad_alloc();
}

AccumulatingRun::~AccumulatingRun() = default;

void AccumulatingRun::choose_ways(const LaunchDescriptor& descriptor) {
  for (const Accumulated& what : descriptor.accumulated) {
    if (what.axis >= 0) window_rows_ = std::max(window_rows_, what.high - what.low);
  }
  for (const Accumulated& what : descriptor.accumulated) {
    const ParameterSlot& slot = descriptor.slots[what.parameter];
    Target target{&what, &slot, view_in(static_cast<const std::byte*>(block()), slot), Way::kAlone};
    if (traits_of(slot.dtype).kind == ScalarKind::kFloat) {
      is_ordered_ = true;
      int64_t points = chunk_points();
      if (what.axis >= 0) points = std::min(points, first_apart(grid(), 1, window_rows_));
      int64_t elements = most_reachable(what, target.view, grid(), points);
      size_t end =
          chunk_copy_bytes_ + aligned(static_cast<size_t>(elements) * size_bytes(slot.dtype));
      bool pays = elements <= what.weight * chunk_points() && end <= kMaxChunkCopyBytes;
      target.way = pays ? Way::kChunkCopy : Way::kTurn;
      if (pays) {
        target.copy_elements = elements;
        target.copy_offset = chunk_copy_bytes_;
        chunk_copy_bytes_ = end;
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

int64_t AccumulatingRun::count_sections() {
  bool gains = false;
  int64_t count = std::min(Sections::kMost, chunks() / kFewestChunksPerSection);
  for (Target& target : targets_) {
    if (!is_float(target.way)) continue;
    bool is_turn = target.way == Way::kTurn;
    // What the head of a chunk reaches, chunks of the section before may reach, too.
    if (is_turn ? !target.what->is_deferrable : target.what->axis >= 0) return 1;
    int64_t elements = std::max(target.view.numel(), int64_t{1});
    if (is_turn) {
      gains |= target.what->weight > 0;
      int64_t points = std::min(total(), kMostCountedPoints);
      int64_t additions = std::max(target.what->weight, int64_t{1}) * points;
      count = std::min(count, additions / kAdditionsPerCopiedElement / elements + 1);
    }
    if (count <= 1) return 1;
    auto size = static_cast<size_t>(elements) * size_bytes(target.slot->dtype);
    target.section_offset = section_copy_bytes_;
    section_copy_bytes_ += aligned(size);
    count = std::min(count, static_cast<int64_t>(kMaxSectionBytes / section_copy_bytes_) + 1);
  }
  return gains ? count : 1;
}

bool AccumulatingRun::has_detours(int64_t threads) const {
  return std::ranges::any_of(targets_, [&](const Target& target) {
    bool is_logged = target.way == Way::kTurn && threads > sections_.count();
    return target.way == Way::kAtomic || (is_logged && target.what->weight > 0);
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
    clear_copies(Way::kChunkCopy, pending.copies);
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
  int64_t sections = sections_.count();
  size_t bytes = chunk_copy_bytes_ + log_records_ * sizeof(AddRecord);
  auto most = static_cast<int64_t>(kMaxPendingBytes / std::max(bytes, size_t{1}));
  int64_t wanted = kSlotsPerThread * ((threads + sections - 1) / sections);
  int64_t each = std::clamp(most / sections, int64_t{1}, wanted);
  if (!make_pending(each * sections, log_records_)) return false;
  pending_per_section_ = each;
  return sections == 1 || make_section_copies(sections - 1);
}

bool AccumulatingRun::make_section_copies(int64_t count) {
  AlignedBytes memory = allocate_aligned(section_copy_bytes_ * static_cast<size_t>(count));
  if (memory == nullptr) return false;
  section_memory_ = std::move(memory);
  size_t at = 0;
  for (Section& section : sections_.others()) {
    section.copies = section_memory_.get() + section_copy_bytes_ * at;
    at = (at + 1) % static_cast<size_t>(count);
  }
  return true;
}

AccumulatingRun::Cost AccumulatingRun::try_shared() {
  is_trial_ = true;
  auto start = Clock::now();
  trial_turn_ = {};
  claim_one();
  is_trial_ = false;
  // Integers need no turn.
  int64_t in_turn_ns = is_ordered_ ? since(trial_turn_) : 0;
  return {since(start) - in_turn_ns, in_turn_ns};
}

void AccumulatingRun::note_turn() {
  if (is_trial_ && trial_turn_ == Clock::time_point()) trial_turn_ = Clock::now();
}

void AccumulatingRun::clear_copies(Way way, std::byte* copies) const {
  for (const Target& target : targets_) {
    if (target.way != way) continue;
    clear_copy(target.slot->dtype, copies + target.copy_offset, target.copy_elements);
  }
}

void AccumulatingRun::clear_section(Section& section) {
  // One thread uses one copy again and again, which adding it clears.
  if (!is_shared_ && sections_.number_of(section) > 1) return;
  for (const Target& target : targets_) {
    if (is_float(target.way)) {
      clear_copy(target.slot->dtype, section.copies + target.section_offset, target.view.numel());
    }
  }
}

void AccumulatingRun::add_section(const Section& section) const {
  if (section.copies == nullptr) return;
  for (const Target& target : targets_) {
    if (is_float(target.way)) {
      merge_copy(target.slot->dtype, target.view, section.copies + target.section_offset);
    }
  }
}

ArrayView AccumulatingRun::home_of(const Target& target, const Section& section) const {
  if (section.copies == nullptr) return target.view;
  return redirected(target.view, target.view, section.copies + target.section_offset,
                    size_bytes(target.slot->dtype));
}

void AccumulatingRun::redirect(const Target& target, const ArrayView& part, std::byte* copies,
                               std::byte* block) const {
  const ParameterSlot& slot = *target.slot;
  ArrayView seen =
      redirected(target.view, part, copies + target.copy_offset, size_bytes(slot.dtype));
  write_array(block + slot.offset, seen);
}

// Which chunk is next is for the sections to say.
void AccumulatingRun::run_chunk(int64_t, int64_t worker) {
  auto [section, index] = sections_.claim(!is_shared_);
  Grid seen = grid();
  PendingChunk* pending = nullptr;
  bool is_turn = true;
  if (is_ordered_) {
    const std::atomic<int64_t>& committed = section.committed;
    spin_until([&, index = index] {
      return committed.load(std::memory_order_acquire) > index - pending_per_section_;
    });
    if (index == section.begin && index > 0) clear_section(section);
    pending = &pending_of(section, index);
    pending->section = &section;
    pending->index = index;
    seen.log = pending;
    is_turn = committed.load(std::memory_order_acquire) == index && !is_trial_;
  }
  SmallBuffer<std::byte, 1024> block_copy(block_bytes_);
  std::memcpy(block_copy.data(), block(), block_bytes_);
  std::byte* own_copies = copies_of(worker);
  auto [begin, end] = points_of(index);
  int64_t rest = head_end(index);
  for (size_t k = 0; k < targets_.size(); ++k) {
    const Target& target = targets_[k];
    bool is_deferred = target.way == Way::kTurn && !is_turn;
    bool is_atomic = target.way == Way::kAtomic && (is_open_ || is_trial_);
    if (is_deferred || is_atomic) seen.shared |= uint64_t{1} << k;
    if (target.way == Way::kChunkCopy && index > section.begin) {
      ArrayView part = reachable_part(*target.what, target.view, seen, begin, rest);
      redirect(target, part, pending->copies, block_copy.data());
    } else if (target.way == Way::kWorkerCopy && worker > 0) {
      redirect(target, target.view, own_copies, block_copy.data());
    } else if (is_float(target.way) && section.copies != nullptr) {
      write_array(block_copy.data() + target.slot->offset, home_of(target, section));
    }
  }
  fn()(block_copy.data(), &seen, begin, rest);
  if (rest < end) {
    for (const Target& target : targets_) {
      if (target.way != Way::kChunkCopy || target.what->axis < 0) continue;
      write_array(block_copy.data() + target.slot->offset, target.view);
    }
    fn()(block_copy.data(), &seen, rest, end);
  }
  if (pending == nullptr) return;
  pending->ready.store(index + 1, std::memory_order_seq_cst);
  commit(section);
}

AccumulatingRun::PendingChunk& AccumulatingRun::pending_of(const Section& section,
                                                           int64_t index) const {
  int64_t first = is_shared_ ? sections_.number_of(section) * pending_per_section_ : 0;
  return pending_[static_cast<size_t>(first + (index - section.begin) % pending_per_section_)];
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

// Whoever finds the next chunk ready adds what it kept; others leave it to him, so that he has to
// look again after he has let go.
void AccumulatingRun::commit(Section& section) {
  auto next_is_ready = [&](int64_t index) {
    if (index >= section.end) return false;
    return pending_of(section, index).ready.load(std::memory_order_seq_cst) == index + 1;
  };
  int64_t index = section.committed.load(std::memory_order_seq_cst);
  while (next_is_ready(index)) {
    if (section.committing.exchange(true, std::memory_order_seq_cst)) return;
    index = section.committed.load(std::memory_order_seq_cst);
    while (next_is_ready(index)) {
      apply(pending_of(section, index));
      section.committed.store(++index, std::memory_order_seq_cst);
    }
    section.committing.store(false, std::memory_order_seq_cst);
  }
  if (!is_shared_ && index == section.end) add_section(section);
}

void AccumulatingRun::apply(PendingChunk& pending) {
  note_turn();
  int64_t begin = points_of(pending.index).first;
  int64_t rest = head_end(pending.index);
  for (const Target& target : targets_) {
    if (target.way != Way::kChunkCopy || pending.index == pending.section->begin) continue;
    ArrayView home = home_of(target, *pending.section);
    ArrayView part = reachable_part(*target.what, home, grid(), begin, rest);
    merge_copy(target.slot->dtype, part, pending.copies + target.copy_offset);
  }
  make_additions(pending, pending.records);
}

void AccumulatingRun::drain(AddLog* log) {
  auto* pending = static_cast<PendingChunk*>(log);
  pending->owner->note_turn();
  spin_until([pending] {
    return pending->section->committed.load(std::memory_order_acquire) == pending->index;
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
    for (const Section& section : sections_.others()) add_section(section);
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
