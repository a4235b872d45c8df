// CUDA graphs: captured work of a stream, launched as a whole.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/memory.h"
#include "cuda/stream.h"

namespace kernelcore::cuda {

/// A conditional node: its body runs if, or while, an integer on the device is not zero.
struct Branch {
  bool is_negated;  // runs while the integer is zero instead
  bool repeats;
  std::function<void(const std::shared_ptr<Stream>&)> body;  // queues the work in a stream
};

/// A captured graph that can be launched any number of times.
class Graph {
 public:
  using Fill = std::function<void(const std::shared_ptr<Stream>&)>;

  explicit Graph(Device& device) : device_(device) {}
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Device& device() const { return device_; }

  /// Captures the work that `fill` queues in a stream; it replaces the previous graph.
  void capture(const Fill& fill);

  /// Queues the graph in `stream`, ordered after other users of its memory, in streams of other
  /// libraries too.
  void launch(const std::shared_ptr<Stream>& stream) const;

 private:
  void instantiate(GraphHandle graph);

  Device& device_;
  // Driver calls on one graph exclude each other, and so do uses of `uses_`.
  mutable std::mutex mutex_;
  GraphExecHandle exec_ = nullptr;
  GraphUses uses_;
};

/// Adds `branches` to the graph that `stream` captures. All evaluate the condition, `bytes` bytes
/// at `condition`, before the first body runs.
void add_branches(const std::shared_ptr<Stream>& stream, const void* condition, size_t bytes,
                  const std::vector<Branch>& branches);

/// Loads what `add_branches` needs on `device`; false where the driver has no conditional nodes.
bool prepare_branches(Device& device);

}  // namespace kernelcore::cuda
