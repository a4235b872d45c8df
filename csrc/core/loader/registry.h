// Kernels by content hash, for stored programs that name them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "kernelcore/abi.h"

namespace kernelcore {

/// Called for a key that is not registered, with the machine code that a stored program embeds, if
/// any. Registers the kernel, or returns the reason why it cannot. Called without locks held.
using Resolver = std::string (*)(const std::string& key, std::string_view object);

/// A kernel: machine code of this process, or code for devices; `problem` if there is neither.
struct FoundKernel {
  KernelFn fn = nullptr;
  std::shared_ptr<const std::string> image;
  std::string problem;
};

/// Makes `fn` known under `key`, replacing what was there.
void register_kernel(const std::string& key, KernelFn fn);

/// Likewise code for devices.
void register_image(const std::string& key, std::string image);

/// Sets the resolver of unknown keys; null removes it.
void set_resolver(Resolver resolver);

/// The kernel of `key`, asking the resolver where needed.
FoundKernel find_kernel(const std::string& key, std::string_view object);

/// How many kernels are registered, those for devices included.
size_t count_kernels();

}  // namespace kernelcore
