#include "xla/pool.h"

#include <algorithm>
#include <memory>

#include "core/run/pool.h"
#include "xla/state.h"

namespace kernelcore::ffi {
namespace {

constexpr int64_t kDispatchNs = 10'000;

struct Help {
  std::shared_ptr<RunGate> gate;
  int64_t helper;
};

// A task that XLA starts after the run is over finds the gate closed.
void help_task(void* data) {
  std::unique_ptr<Help> help(static_cast<Help*>(data));
  help->gate->help(help->helper);
}

}  // namespace

bool XlaPool::pays_to_start(int64_t saved_ns) {
  return saved_ns >= kDispatchNs;
}

void XlaPool::run(ChunkedRun& run) {
  int64_t helpers = std::min(max_threads(), run.chunks()) - 1;
  if (helpers < 1) {
    run.claim_all();
    return;
  }
  auto gate = std::make_shared<RunGate>();
  gate->open(run);
  for (int64_t helper = 1; helper <= helpers; ++helper) {
    auto help = std::make_unique<Help>(gate, helper);
    if (!schedule(help_task, help.get())) break;
    static_cast<void>(help.release());
  }
  run.claim_all();
  run.wait();
  gate->close();
}

int64_t XlaPool::max_threads() const {
  int64_t count = 1;
  XLA_FFI_ThreadPool_NumThreads_Args args{};
  args.struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE;
  args.ctx = frame_.ctx;
  args.num_threads = &count;
  if (!succeeded(frame_.api, frame_.api->XLA_FFI_ThreadPool_NumThreads(&args))) return 1;
  return std::min<int64_t>(count, Pool::instance().num_threads());
}

bool XlaPool::schedule(XLA_FFI_Task* task, void* data) const {
  XLA_FFI_ThreadPool_Schedule_Args args{};
  args.struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE;
  args.ctx = frame_.ctx;
  args.task = task;
  args.data = data;
  return succeeded(frame_.api, frame_.api->XLA_FFI_ThreadPool_Schedule(&args));
}

}  // namespace kernelcore::ffi
