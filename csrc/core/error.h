// The one error type of the native library; bind/ and xla/ translate it at their boundaries.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>

namespace kernelcore {

enum class ErrorKind {
  kArgument,       // a launch argument that the kernel does not take
  kMemory,         // out of memory
  kDevice,         // a device or its driver failed
  kElsewhere,      // an array is on another device than the launch
  kAssertion,      // an assert of the kernel failed
  kIndex,          // an index of the kernel was out of range
  kFinite,         // the kernel wrote a float that is not finite
  kInterrupted,    // the user interrupted the program
  kUnknownKernel,  // no kernel with the key is registered
  kInternal,       // a defect of kernelcore
};
inline constexpr size_t kErrorKinds = 10;

/// A failure with a message that is ready to be shown to the user.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const noexcept { return kind_; }

 private:
  ErrorKind kind_;
};

}  // namespace kernelcore
