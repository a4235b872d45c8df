#include "cuda/stream.h"

#include <algorithm>

#include "core/error.h"
#include "cuda/capture.h"

namespace kernelcore::cuda {
namespace {

constexpr unsigned kNonBlocking = 1;
constexpr unsigned kDisableTiming = 2;
constexpr unsigned kInterprocess = 4;

/// Whether `result` says yes; throws what is neither yes nor not yet.
bool is_ready(Result result, const char* what) {
  if (result == kNotReady) return false;
  check(result, what);
  return true;
}

}  // namespace

std::shared_ptr<Stream> Stream::create(Device& device, int priority) {
  ScopedContext current(device);
  int least = 0;
  int greatest = 0;
  check(device.driver().stream_priorities(&least, &greatest), "cuCtxGetStreamPriorityRange");
  StreamHandle handle = nullptr;
  check(device.driver().create_stream(&handle, kNonBlocking, std::clamp(priority, greatest, least)),
        "cuStreamCreateWithPriority");
  return std::shared_ptr<Stream>(new Stream(device, handle, true));
}

std::shared_ptr<Stream> Stream::wrap(Device& device, uintptr_t handle) {
  if (handle == 0) return legacy(device);
  return std::shared_ptr<Stream>(new Stream(device, reinterpret_cast<StreamHandle>(handle), false));
}

std::shared_ptr<Stream> Stream::legacy(Device& device) {
  return std::shared_ptr<Stream>(new Stream(device, kLegacyStream, false));
}

Stream::~Stream() {
  // Queued work finishes. At the end of the process the driver may be unloaded.
  if (is_owned_ && !is_forked()) static_cast<void>(device_.driver().destroy_stream(handle_));
}

void Stream::wait_for(const Stream& other) const {
  if (handle_ == other.handle_ && &device_ == &other.device_) return;
  bool is_theirs_captured = other.is_capturing();
  bool is_captured = is_capturing();
  if (is_theirs_captured && !is_captured) return;
  if (is_captured && !is_theirs_captured) {
    other.wait();
    return;
  }
  wait_for_event_of(other);
}

void Stream::follow(const Stream& other) const {
  bool joins = handle_ != kLegacyStream && other.is_capturing();
  joins ? wait_for_event_of(other) : wait_for(other);
}

void Stream::wait_for_event_of(const Stream& other) const {
  Event event(other.device_, false, false);
  event.record(other);
  event.delay(*this);
}

void Stream::wait_for_owner(const Stream& owner) const {
  if (owner.is_capturing() && !is_capturing()) {
    throw Error(
        ErrorKind::kDevice,
        "an array whose stream captures a graph has no elements yet\n  help: use it in that "
        "stream, which kc.stream_from_torch() gives, for example; a callback of JAX that "
        "reads elements is registered with graph_compatible=False");
  }
  wait_for(owner);
}

void Stream::wait() const {
  ScopedContext current(device_);
  OutsideCaptures relaxed(device_.driver());
  check(device_.driver().synchronize_stream(handle_), "cuStreamSynchronize");
}

void Stream::synchronize() const {
  if (is_capturing()) {
    throw Error(ErrorKind::kDevice,
                "a stream that captures a graph cannot be waited for\n  help: read elements and "
                "synchronize before or after the capture; a callback of JAX that does so is "
                "registered with graph_compatible=False");
  }
  wait();
  device_.raise_failures();
}

bool Stream::is_idle() const {
  // A query would invalidate the capture.
  if (is_capturing()) return false;
  ScopedContext current(device_);
  OutsideCaptures relaxed(device_.driver());
  return is_ready(device_.driver().query_stream(handle_), "cuStreamQuery");
}

bool Stream::is_capturing() const {
  ScopedContext current(device_);
  int status = 0;
  Result result = device_.driver().is_capturing(handle_, &status);
  // The legacy stream cannot be used while a stream that it synchronizes with captures.
  if (result == kCaptureImplicit) return true;
  check(result, "cuStreamIsCapturing");
  return status != 0;
}

Event::Event(Device& device, bool is_timed, bool is_interprocess) : device_(device) {
  ScopedContext current(device);
  unsigned flags = is_timed ? 0 : kDisableTiming;
  // Interprocess events cannot be timed.
  if (is_interprocess) flags = kInterprocess | kDisableTiming;
  check(device.driver().create_event(&handle_, flags), "cuEventCreate");
}

Event::Event(Device& device, uintptr_t handle)
    : device_(device), handle_(reinterpret_cast<EventHandle>(handle)), is_owned_(false) {}

Event::~Event() {
  // The driver destroys an event that is waited for after it completes.
  if (is_owned_ && !is_forked()) static_cast<void>(device_.driver().destroy_event(handle_));
}

void Event::record(const Stream& stream) const {
  ScopedContext current(stream.device());
  check(device_.driver().record_event(handle_, stream.handle()), "cuEventRecord");
}

void Event::delay(const Stream& stream) const {
  ScopedContext current(stream.device());
  check(device_.driver().stream_wait(stream.handle(), handle_, 0), "cuStreamWaitEvent");
}

void Event::synchronize() const {
  {
    ScopedContext current(device_);
    check(device_.driver().synchronize_event(handle_), "cuEventSynchronize");
  }
  device_.raise_failures();
}

bool Event::is_over() const {
  ScopedContext current(device_);
  return is_ready(device_.driver().query_event(handle_), "cuEventQuery");
}

float Event::ms_until(const Event& end) const {
  ScopedContext current(device_);
  float ms = 0;
  check(device_.driver().elapsed_time(&ms, handle_, end.handle_), "cuEventElapsedTime");
  return ms;
}

}  // namespace kernelcore::cuda
