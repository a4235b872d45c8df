// Relocations of ELF objects for x86-64 and AArch64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kernelcore {

/// What a relocation refers to; the addresses are those that the code will run at.
struct Reference {
  uint64_t target;  // the symbol, without the addend
  int64_t addend;
  uint64_t linkage;  // the symbol's `Linkage`
};

/// The address of a symbol, and code that jumps there: near to all sections, wherever it leads.
struct Linkage {
  uint64_t address;
  unsigned char jump[8];
};

/// The linkage of a symbol at `address`, for code of `machine` (EM_*).
Linkage make_linkage(uint16_t machine, uint64_t address);

/// Applies the relocation `type` of `machine` at `place`, which has `room` bytes to the end of its
/// section. Throws Error if the type is unknown, if it lies outside, or if its value does not fit.
void relocate(uint16_t machine, uint32_t type, std::byte* place, size_t room, const Reference& to);

}  // namespace kernelcore
