#include "xla/graphs.h"

#include <algorithm>

namespace kernelcore::ffi {

std::shared_ptr<const cuda::Graph> GraphCache::find(const GraphKey& key) {
  std::lock_guard lock(mutex_);
  auto it = std::ranges::find(graphs_, key, [](const auto& entry) { return entry.first; });
  if (it == graphs_.end()) return nullptr;
  graphs_.splice(graphs_.begin(), graphs_, it);
  return graphs_.front().second;
}

void GraphCache::add(GraphKey key, std::shared_ptr<const cuda::Graph> graph) {
  // What is dropped is destroyed behind the lock.
  decltype(graphs_) dropped;
  std::lock_guard lock(mutex_);
  graphs_.emplace_front(std::move(key), std::move(graph));
  if (graphs_.size() > kMaxGraphs) dropped.splice(dropped.begin(), graphs_, --graphs_.end());
}

}  // namespace kernelcore::ffi
