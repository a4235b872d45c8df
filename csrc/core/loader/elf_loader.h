// Loads relocatable ELF objects for x86-64 into the process, without a linker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace kernelcore {

/// The address of the function `symbol` that the ELF object `code` defines. Undefined symbols are
/// looked up in the process. The code is never unloaded, and exceptions cannot pass through it.
/// Throws Error if the object is malformed, of another machine, or refers to an unknown symbol.
uintptr_t load_object(std::span<const std::byte> code, const std::string& symbol);

}  // namespace kernelcore
