// Graphs of a call site, each for the buffers of one call.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/graph.h"

namespace kernelcore::ffi {

/// The ordinal of a device and the addresses of buffers there.
using GraphKey = std::vector<uintptr_t>;

/// As many graphs as programs have sets of buffers in turn; the least recently used one is dropped.
class GraphCache {
 public:
  static constexpr size_t kMaxGraphs = 16;

  /// The graph of `key`, or null.
  std::shared_ptr<const cuda::Graph> find(const GraphKey& key);

  void add(GraphKey key, std::shared_ptr<const cuda::Graph> graph);

 private:
  std::mutex mutex_;
  std::list<std::pair<GraphKey, std::shared_ptr<const cuda::Graph>>> graphs_;  // latest first
};

}  // namespace kernelcore::ffi
