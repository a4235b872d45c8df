// XLA's own intra-op threads as a source of helpers.
#pragma once

#include "core/run/launch.h"
#include "xla/ffi/api/c_api.h"

namespace kernelcore::ffi {

/// Schedules helpers on the thread pool of one handler call.
class XlaPool final : public Executor {
 public:
  explicit XlaPool(const XLA_FFI_CallFrame& frame) : frame_(frame) {}

  int64_t max_threads() const override;
  bool pays_to_start(int64_t saved_ns) override;
  void run(ChunkedRun& run) override;

 private:
  bool schedule(XLA_FFI_Task* task, void* data) const;

  const XLA_FFI_CallFrame& frame_;
};

}  // namespace kernelcore::ffi
