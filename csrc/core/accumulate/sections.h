// Parts of a run whose chunks are added one after the other, while those of other parts are, too.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kernelcore {

/// Chunks [begin, end) of a run, which are added in their order.
struct alignas(64) Section {
  int64_t begin = 0;
  int64_t end = 0;
  std::byte* copies = nullptr;        // what it adds to in the place of arrays; null: to these
  std::atomic<int64_t> next{0};       // the chunk to claim
  std::atomic<int64_t> committed{0};  // all chunks before this one have been added
  std::atomic<bool> committing{false};
};

/// The sections of a run. Every chunk is claimed once, those of a section in their order.
class Sections {
 public:
  static constexpr int64_t kMost = 8;

  struct Claim {
    Section& section;
    int64_t index;
  };

  /// Cuts `chunks` chunks into `count` sections; before any is claimed.
  void cut(int64_t chunks, int64_t count);

  int64_t count() const { return count_; }
  int64_t number_of(const Section& section) const { return &section - sections_.data(); }
  /// All sections but the first.
  std::span<Section> others() { return {&sections_[1], static_cast<size_t>(count_ - 1)}; }

  /// Claims a chunk, of which there must be one for every thread that claims: of the first section
  /// that has one, or of the one that can best use a thread.
  Claim claim(bool in_order);

 private:
  Section& most_idle(bool in_order);

  std::array<Section, kMost> sections_;
  int64_t count_ = 1;
};

}  // namespace kernelcore
