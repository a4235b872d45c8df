#include "cuda/capture.h"

#include <mutex>
#include <utility>

#include "core/error.h"
#include "cuda/memory.h"
#include "cuda/stream.h"

namespace kernelcore::cuda {
namespace {

constexpr int kRelaxed = 2;
constexpr int kCapturing = 1;
constexpr unsigned kNoDestructorSync = 1;
constexpr unsigned kMove = 1;

struct Unkept {
  std::mutex mutex;
  std::vector<std::shared_ptr<Allocation>> allocations;
};

Unkept& unkept() {
  static auto* instance = new Unkept();
  return *instance;
}

/// Called by a thread of the driver, which waits for nobody.
void let_go(void* kept) {
  auto* allocation = static_cast<std::shared_ptr<Allocation>*>(kept);
  {
    std::lock_guard lock(unkept().mutex);
    unkept().allocations.push_back(std::move(*allocation));
  }
  delete allocation;
}

}  // namespace

OutsideCaptures::OutsideCaptures(const DriverTable& driver) : driver_(driver), mode_(kRelaxed) {
  check(driver_.exchange_capture_mode(&mode_), "cuThreadExchangeStreamCaptureMode");
}

OutsideCaptures::~OutsideCaptures() {
  static_cast<void>(driver_.exchange_capture_mode(&mode_));
}

Capture capture_of(const Stream& stream) {
  Capture found;
  int status = 0;
  unsigned long long id = 0;
  check(stream.device().driver().capture_info(stream.handle(), &status, &id, &found.graph,
                                              &found.last, &found.count),
        "cuStreamGetCaptureInfo");
  if (status != kCapturing) {
    throw Error(ErrorKind::kDevice,
                "the stream captures no graph, or an earlier error has ended that");
  }
  return found;
}

void keep_in_graph(const Stream& stream, std::shared_ptr<Allocation> allocation) {
  const DriverTable& driver = stream.device().driver();
  GraphHandle graph = capture_of(stream).graph;
  auto kept = std::make_unique<std::shared_ptr<Allocation>>(std::move(allocation));
  UserObjectHandle object = nullptr;
  check(driver.create_user_object(&object, kept.get(), let_go, 1, kNoDestructorSync),
        "cuUserObjectCreate");
  static_cast<void>(kept.release());
  Result result = driver.retain_user_object(graph, object, 1, kMove);
  if (result != kSuccess) static_cast<void>(driver.release_user_object(object, 1));
  check(result, "cuGraphRetainUserObject");
}

std::vector<std::shared_ptr<Allocation>> take_unkept() {
  std::lock_guard lock(unkept().mutex);
  return std::exchange(unkept().allocations, {});
}

}  // namespace kernelcore::cuda
