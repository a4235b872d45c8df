// Captures: what a thread may do while it captures, and what graphs of others keep in place.
#pragma once

#include <memory>
#include <vector>

#include "cuda/driver_table.h"

namespace kernelcore::cuda {

class Allocation;
class Stream;

/// Lets this thread load code, allocate and wait while it captures: nothing of that belongs to a
/// graph.
class OutsideCaptures {
 public:
  explicit OutsideCaptures(const DriverTable& driver);
  ~OutsideCaptures();
  OutsideCaptures(const OutsideCaptures&) = delete;
  OutsideCaptures& operator=(const OutsideCaptures&) = delete;

 private:
  const DriverTable& driver_;
  int mode_;
};

/// The graph that a stream captures, and the nodes that what comes next depends on.
struct Capture {
  GraphHandle graph = nullptr;
  const GraphNodeHandle* last = nullptr;
  size_t count = 0;
};

/// Of a stream that captures; throws for others.
Capture capture_of(const Stream& stream);

/// Lets the graph that `stream` captures, whoever began that, keep `allocation` as long as it
/// lives.
void keep_in_graph(const Stream& stream, std::shared_ptr<Allocation> allocation);

/// What graphs kept that are gone by now: their destructors may not call the driver.
std::vector<std::shared_ptr<Allocation>> take_unkept();

}  // namespace kernelcore::cuda
