// One call of an XLA handler as plain data, for handlers that are Python functions.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace kernelcore {

/// Memory of an operand or a result, in row-major order.
struct FrameBuffer {
  const char* dtype;  // as NumPy and ml_dtypes call it
  void* data;
  std::vector<int64_t> shape;
};

/// Numbers that an attribute holds, as bytes.
struct FrameArray {
  const char* dtype;
  std::string bytes;
  bool is_scalar;
};

/// An attribute: numbers, text, or attributes by name.
struct FrameAttribute {
  std::string name;
  std::variant<FrameArray, std::string, std::vector<FrameAttribute>> value;
};

/// What a handler is called with.
struct Frame {
  std::vector<FrameBuffer> inputs;
  std::vector<FrameBuffer> outputs;
  std::vector<FrameAttribute> attributes;
  void* stream = nullptr;  // of CUDA; null on the CPU
  int device = -1;         // the ordinal, where the runtime tells it
};

/// Answers a query for the properties of a handler; false when `frame` is a call.
bool answer_query(void* frame, bool is_graph_compatible);

/// Reads `frame`; throws Error for what Python has no type for.
Frame read_frame(void* frame);

/// The XLA error of a call that failed, to be returned by its handler.
void* make_frame_error(void* frame, const std::string& message);

}  // namespace kernelcore
