#include "core/accumulate/sections.h"

#include <utility>

namespace kernelcore {

void Sections::cut(int64_t chunks, int64_t count) {
  count_ = count;
  for (int64_t k = 0; k < count; ++k) {
    Section& section = sections_[static_cast<size_t>(k)];
    section.begin = chunks * k / count;
    section.end = chunks * (k + 1) / count;
    section.next.store(section.begin, std::memory_order_relaxed);
    section.committed.store(section.begin, std::memory_order_relaxed);
  }
}

Sections::Claim Sections::claim(bool in_order) {
  while (true) {
    Section& section = most_idle(in_order);
    int64_t next = section.next.load(std::memory_order_relaxed);
    if (next != section.end &&
        section.next.compare_exchange_weak(next, next + 1, std::memory_order_relaxed)) {
      return {section, next};
    }
  }
}

// A section without chunks stays so, and one chunk is for the caller: some section has one.
Section& Sections::most_idle(bool in_order) {
  Section* found = nullptr;
  std::pair<bool, int64_t> least;
  for (Section& section : std::span(sections_).first(static_cast<size_t>(count_))) {
    int64_t next = section.next.load(std::memory_order_relaxed);
    if (next == section.end) continue;
    // A thread that joins another one has to write its additions down.
    bool is_busy = section.committed.load(std::memory_order_relaxed) != next;
    std::pair<bool, int64_t> rank{is_busy, next - section.begin};
    if (found != nullptr && (in_order || rank >= least)) continue;
    found = &section;
    least = rank;
  }
  return *found;
}

}  // namespace kernelcore
