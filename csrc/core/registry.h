// Kernels by content hash, for launchers that only know a name in a stored program.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kernelcore/abi.h"

namespace kernelcore {

/// Asked once per unknown key; registers the kernel where it can. Called without locks held.
using Resolver = void (*)(const std::string& key);

/// Makes `fn` known under `key`, replacing what was there.
void register_kernel(const std::string& key, KernelFn fn);

/// Sets the resolver of unknown keys; null removes it.
void set_resolver(Resolver resolver);

/// The kernel of `key`, asking the resolver where needed; null if there is none.
KernelFn find_kernel(const std::string& key);

/// How many kernels are registered.
size_t count_kernels();

}  // namespace kernelcore
