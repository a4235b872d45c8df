// Streams and events of a device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/device.h"

namespace kernelcore::cuda {

class Allocation;

/// A queue of a device. Its own handle is destroyed with it; one of others is theirs.
class Stream : public std::enable_shared_from_this<Stream> {
 public:
  /// A new one that does not wait for the legacy stream; priorities below 0 are served first.
  static std::shared_ptr<Stream> create(Device& device, int priority);
  /// Of the handle of another library, or of a default stream.
  static std::shared_ptr<Stream> wrap(Device& device, uintptr_t handle);
  /// The legacy default stream, which all libraries know.
  static std::shared_ptr<Stream> legacy(Device& device);

  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Device& device() const { return device_; }
  StreamHandle handle() const { return handle_; }

  /// Lets what comes now wait for all that `other` was given so far. What it was given for a graph
  /// is not waited for, unless this stream captures, too; a graph has nothing else to wait for, so
  /// where only this stream captures, the host waits.
  void wait_for(const Stream& other) const;
  /// As above, as somebody asks for it by name: a stream that follows one that captures becomes
  /// part of the graph, unless it is the legacy one, which cannot.
  void follow(const Stream& other) const;
  /// As `wait_for`, of the stream of others that writes what is used now; throws where that happens
  /// in a graph only.
  void wait_for_owner(const Stream& owner) const;
  /// Waits for all that it was given; throws what failed, or that it captures.
  void synchronize() const;
  bool is_idle() const;

  /// Whether what it is given becomes part of a graph, whoever captures that.
  bool is_capturing() const;

  /// What a Graph that this stream captures uses; null while it captures none.
  std::vector<std::shared_ptr<Allocation>>* capture() const { return capture_; }
  void set_capture(std::vector<std::shared_ptr<Allocation>>* memory) { capture_ = memory; }

 private:
  Stream(Device& device, StreamHandle handle, bool is_owned)
      : device_(device), handle_(handle), is_owned_(is_owned) {}

  void wait() const;
  void wait_for_event_of(const Stream& other) const;

  Device& device_;
  StreamHandle handle_;
  bool is_owned_;
  std::vector<std::shared_ptr<Allocation>>* capture_ = nullptr;
};

/// A mark in a stream.
class Event {
 public:
  /// A new one; `is_timed` ones know when they were reached.
  Event(Device& device, bool is_timed, bool is_interprocess);
  /// Of the handle of another library.
  Event(Device& device, uintptr_t handle);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  EventHandle handle() const { return handle_; }

  void record(const Stream& stream) const;
  /// Lets what `stream` is given now wait for this, as it was recorded last.
  void delay(const Stream& stream) const;
  void synchronize() const;
  bool is_over() const;
  float ms_until(const Event& end) const;

 private:
  Device& device_;
  EventHandle handle_ = nullptr;
  bool is_owned_ = true;
};

}  // namespace kernelcore::cuda
