// Streams and events of a device.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/device.h"

namespace kernelcore::cuda {

class Allocation;
class Stream;

/// What the steps of a captured Graph use: each launch of it is ordered with other users of these.
struct GraphUses {
  /// A stream in which another library uses arrays of the graph.
  struct Owner {
    std::shared_ptr<Stream> stream;
    bool is_tied;  // it waits for the graph as well
  };

  void add_owner(std::shared_ptr<Stream> stream, bool is_tied);

  std::vector<std::shared_ptr<Allocation>> memory;
  std::vector<Owner> owners;
};

/// A queue of a device. A handle that was made here is destroyed with it.
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

  /// Orders work that is about to be queued here after all work of `other`. If only `other`
  /// captures, nothing is ordered; if only this stream captures, the host waits, since a graph
  /// cannot.
  void wait_for(const Stream& other) const;
  /// As `wait_for`, but this stream joins the capture of `other`; the legacy stream cannot.
  void follow(const Stream& other) const;
  /// As `wait_for`, of the stream in which another library writes an array that is about to be
  /// used; throws if those writes are only captured.
  void wait_for_owner(const Stream& owner) const;
  /// Waits for all work of the stream; throws its failures, or that the stream is capturing.
  void synchronize() const;
  bool is_idle() const;

  /// Whether the stream is capturing, for whichever library.
  bool is_capturing() const;

  /// The uses of the Graph that this stream captures; null while it captures none.
  GraphUses* capture() const { return capture_; }
  void set_capture(GraphUses* uses) { capture_ = uses; }

 private:
  Stream(Device& device, StreamHandle handle, bool is_owned)
      : device_(device), handle_(handle), is_owned_(is_owned) {}

  void wait() const;
  void wait_for_event_of(const Stream& other) const;

  Device& device_;
  StreamHandle handle_;
  bool is_owned_;
  GraphUses* capture_ = nullptr;
};

/// A mark in a stream.
class Event {
 public:
  /// A new event; `ms_until` needs timed ones.
  Event(Device& device, bool is_timed, bool is_interprocess);
  /// Of the handle of another library.
  Event(Device& device, uintptr_t handle);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  EventHandle handle() const { return handle_; }

  void record(const Stream& stream) const;
  /// Orders work that is about to be queued in `stream` after the last record of this event.
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
