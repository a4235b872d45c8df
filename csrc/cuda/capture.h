// Stream captures: operations that must not be captured, and memory that graphs keep.
#pragma once

#include <memory>
#include <vector>

#include "cuda/driver_table.h"

namespace kernelcore::cuda {

class Allocation;
class Stream;

/// Lets this thread load code, allocate and synchronize during a capture without invalidating it.
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

/// The graph that a stream captures, and the nodes that the next one depends on.
struct Capture {
  GraphHandle graph = nullptr;
  const GraphNodeHandle* last = nullptr;
  size_t count = 0;
};

/// Of a stream that captures; throws for others.
Capture capture_of(const Stream& stream);

/// Makes the graph that `stream` captures, for whichever library, own a reference to `allocation`.
void keep_in_graph(const Stream& stream, std::shared_ptr<Allocation> allocation);

/// The allocations of destroyed graphs, whose destructors must not call the driver.
std::vector<std::shared_ptr<Allocation>> take_unkept();

}  // namespace kernelcore::cuda
