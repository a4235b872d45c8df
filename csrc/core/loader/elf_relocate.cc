#include "core/loader/elf_relocate.h"

#include <elf.h>

#include <cstring>
#include <limits>
#include <string>

#include "core/error.h"

// Older headers lack it.
#ifndef R_AARCH64_PLT32
#define R_AARCH64_PLT32 314
#endif

namespace kernelcore {
namespace {

constexpr uint64_t kPage = 4096;

/// The bytes that one relocation changes.
class Place {
 public:
  Place(std::byte* bytes, size_t room, uint32_t type) : bytes_(bytes), room_(room), type_(type) {}

  uint64_t address() const { return reinterpret_cast<uint64_t>(bytes_); }

  template <typename T>
  void write(T value) {
    check_room(sizeof(T));
    std::memcpy(bytes_, &value, sizeof(T));
  }

  /// Writes `value` as a T, which has to hold it.
  template <typename T>
  void write_checked(int64_t value) {
    if (value < int64_t{std::numeric_limits<T>::min()} ||
        value > int64_t{std::numeric_limits<T>::max()}) {
      fail("is out of range");
    }
    write(static_cast<T>(value));
  }

  /// Replaces the bits of an instruction under `mask`.
  void patch(uint32_t mask, uint32_t bits) {
    check_room(sizeof(uint32_t));
    uint32_t word;
    std::memcpy(&word, bytes_, sizeof word);
    write((word & ~mask) | (bits & mask));
  }

  /// Replaces the bits of an instruction by a signed distance in units of 4 bytes.
  void patch_branch(int64_t distance, int width, int shift) {
    if (distance % 4 != 0 || !fits(distance, width + 2)) fail("is out of range");
    uint32_t mask = ((1U << width) - 1) << shift;
    patch(mask, static_cast<uint32_t>(distance >> 2) << shift);
  }

  /// Replaces the split immediate of ADR or ADRP.
  void patch_adr(int64_t value) {
    if (!fits(value, 21)) fail("is out of range");
    auto bits = static_cast<uint32_t>(value);
    patch(0x60ffffe0, (bits & 3) << 29 | (bits >> 2 & 0x7ffff) << 5);
  }

  /// Replaces the immediate of ADD, LDR or STR by the low bits of `target`, in units of a size.
  void patch_low12(uint64_t target, int log2_size) {
    uint64_t low = target % kPage;
    if (low & ((1U << log2_size) - 1)) fail("is not aligned");
    patch(0x003ffc00, static_cast<uint32_t>(low >> log2_size) << 10);
  }

  static bool fits(int64_t value, int bits) {
    int64_t bound = int64_t{1} << (bits - 1);
    return value >= -bound && value < bound;
  }

  [[noreturn]] void fail(const char* what) const {
    throw Error(ErrorKind::kInternal,
                "object code: relocation of type " + std::to_string(type_) + " " + what);
  }

 private:
  void check_room(size_t size) const {
    if (room_ < size) fail("lies outside of its section");
  }

  std::byte* bytes_;
  size_t room_;
  uint32_t type_;
};

int64_t distance(uint64_t to, uint64_t from) {
  return static_cast<int64_t>(to - from);
}

uint64_t page_of(uint64_t address) {
  return address & ~(kPage - 1);
}

int64_t pages(uint64_t to, uint64_t from) {
  return distance(page_of(to), page_of(from)) / static_cast<int64_t>(kPage);
}

void relocate_x86_64(uint32_t type, Place& place, const Reference& to) {
  auto addend = static_cast<uint64_t>(to.addend);
  uint64_t target = to.target + addend;
  switch (type) {
    case R_X86_64_NONE:
      return;
    case R_X86_64_64:
      return place.write(target);
    case R_X86_64_32:
      return place.write_checked<uint32_t>(static_cast<int64_t>(target));
    case R_X86_64_32S:
      return place.write_checked<int32_t>(static_cast<int64_t>(target));
    case R_X86_64_PC64:
      return place.write(target - place.address());
    case R_X86_64_PC32:
      return place.write_checked<int32_t>(distance(target, place.address()));
    case R_X86_64_PLT32: {
      int64_t direct = distance(target, place.address());
      uint64_t jump = to.linkage + offsetof(Linkage, jump) + addend;
      if (!Place::fits(direct, 32)) direct = distance(jump, place.address());
      return place.write_checked<int32_t>(direct);
    }
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
      return place.write_checked<int32_t>(distance(to.linkage + addend, place.address()));
    default:
      place.fail("is not known");
  }
}

void relocate_aarch64(uint32_t type, Place& place, const Reference& to) {
  uint64_t target = to.target + static_cast<uint64_t>(to.addend);
  switch (type) {
    case R_AARCH64_NONE:
      return;
    case R_AARCH64_ABS64:
      return place.write(target);
    case R_AARCH64_PREL64:
      return place.write(target - place.address());
    case R_AARCH64_PREL32:
    case R_AARCH64_PLT32:
      return place.write_checked<int32_t>(distance(target, place.address()));
    case R_AARCH64_ADR_PREL_LO21:
      return place.patch_adr(distance(target, place.address()));
    case R_AARCH64_ADR_PREL_PG_HI21:
      return place.patch_adr(pages(target, place.address()));
    case R_AARCH64_ADR_GOT_PAGE:
      return place.patch_adr(pages(to.linkage, place.address()));
    case R_AARCH64_LD64_GOT_LO12_NC:
      return place.patch_low12(to.linkage, 3);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
      return place.patch_low12(target, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC:
      return place.patch_low12(target, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC:
      return place.patch_low12(target, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC:
      return place.patch_low12(target, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return place.patch_low12(target, 4);
    case R_AARCH64_CONDBR19:
      return place.patch_branch(distance(target, place.address()), 19, 5);
    case R_AARCH64_TSTBR14:
      return place.patch_branch(distance(target, place.address()), 14, 5);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: {
      int64_t direct = distance(target, place.address());
      uint64_t jump = to.linkage + offsetof(Linkage, jump);
      if (!Place::fits(direct, 28)) direct = distance(jump, place.address());
      return place.patch_branch(direct, 26, 0);
    }
    default:
      place.fail("is not known");
  }
}

}  // namespace

Linkage make_linkage(uint16_t machine, uint64_t address) {
  // jmp [rip - 14]; ldr x16, .-8 and br x16: both read the address in front of them.
  constexpr unsigned char kX86[8] = {0xff, 0x25, 0xf2, 0xff, 0xff, 0xff, 0xcc, 0xcc};
  constexpr unsigned char kArm[8] = {0xd0, 0xff, 0xff, 0x58, 0x00, 0x02, 0x1f, 0xd6};
  Linkage made{address, {}};
  std::memcpy(made.jump, machine == EM_X86_64 ? kX86 : kArm, sizeof made.jump);
  return made;
}

void relocate(uint16_t machine, uint32_t type, std::byte* bytes, size_t room, const Reference& to) {
  Place place(bytes, room, type);
  if (machine == EM_X86_64) {
    relocate_x86_64(type, place, to);
  } else {
    relocate_aarch64(type, place, to);
  }
}

}  // namespace kernelcore
