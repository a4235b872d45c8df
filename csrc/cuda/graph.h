// Graphs: what a stream was given while it captured, launched as a whole.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cuda/memory.h"
#include "cuda/stream.h"

namespace kernelcore::cuda {

/// What a captured graph does if, or as long as, an integer on the device is not zero.
struct Branch {
  bool is_negated;  // as long as it is zero instead
  bool repeats;
  std::function<void(const std::shared_ptr<Stream>&)> body;  // gives it to a stream
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

  /// Captures what `fill` gives to a stream, and takes that in place of what was here before.
  void capture(const Fill& fill);

  /// Queues all of it in `stream`, behind what uses its memory.
  void launch(const std::shared_ptr<Stream>& stream) const;

 private:
  void instantiate(GraphHandle graph);

  Device& device_;
  GraphExecHandle exec_ = nullptr;
  std::vector<std::shared_ptr<Allocation>> memory_;
};

/// Adds `branches` to the graph that `stream` captures; all of them look at the condition, of
/// `bytes` bytes at `condition`, before the first changes it.
void add_branches(const std::shared_ptr<Stream>& stream, const void* condition, size_t bytes,
                  const std::vector<Branch>& branches);

/// Loads what `add_branches` needs on `device`; false where the driver has no conditional nodes.
bool prepare_branches(Device& device);

}  // namespace kernelcore::cuda
