#include "core/loader/elf_loader.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/memory/kept_blocks.h"

namespace kernelcore {
namespace {

// Far below the reach of relative addresses, and far above what kernels need.
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
constexpr uint64_t kMaxAlignment = 4096;
constexpr size_t kNowhere = ~size_t{0};

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorKind::kInternal, "object code: " + what);
}

/// The address of a symbol, and code that jumps there: near to all sections, wherever it leads.
struct Linkage {
  uint64_t address;
  // jmp [rip - 14] reads the address in front of it.
  unsigned char jump[8] = {0xff, 0x25, 0xf2, 0xff, 0xff, 0xff, 0xcc, 0xcc};
};

uint64_t align_up(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// The bytes of an object; every access is within.
class Object {
 public:
  explicit Object(std::span<const std::byte> bytes) : bytes_(bytes) {
    header_ = read<Elf64_Ehdr>(0);
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 ||
        header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB ||
        header_.e_type != ET_REL) {
      fail("expected a relocatable ELF object of 64 bits");
    }
    if (header_.e_machine != EM_X86_64) fail("made for another machine");
    if (header_.e_shentsize != sizeof(Elf64_Shdr)) fail("malformed section headers");
    sections_ = table<Elf64_Shdr>(header_.e_shoff, header_.e_shnum * sizeof(Elf64_Shdr));
  }

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }

  const Elf64_Shdr& section(size_t index) const {
    if (index >= sections_.size()) fail("a section that does not exist");
    return sections_[index];
  }

  std::span<const std::byte> contents(const Elf64_Shdr& section) const {
    return slice(section.sh_offset, section.sh_size);
  }

  template <typename T>
  std::vector<T> entries(const Elf64_Shdr& section) const {
    return table<T>(section.sh_offset, section.sh_size);
  }

  std::string text(const Elf64_Shdr& strings, uint64_t offset) const {
    auto bytes = contents(strings);
    if (offset >= bytes.size()) fail("a name outside of its table");
    const auto* first = reinterpret_cast<const char*>(bytes.data()) + offset;
    return std::string(first, strnlen(first, bytes.size() - offset));
  }

  std::string name(const Elf64_Shdr& section) const {
    return text(this->section(header_.e_shstrndx), section.sh_name);
  }

 private:
  std::span<const std::byte> slice(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset) fail("it ends early");
    return bytes_.subspan(offset, size);
  }

  template <typename T>
  T read(uint64_t offset) const {
    T value;
    std::memcpy(&value, slice(offset, sizeof(T)).data(), sizeof(T));
    return value;
  }

  template <typename T>
  std::vector<T> table(uint64_t offset, uint64_t size) const {
    static_assert(std::is_trivially_copyable_v<T>);
    auto bytes = slice(offset, size);
    std::vector<T> rows(size / sizeof(T));
    if (!rows.empty()) std::memcpy(rows.data(), bytes.data(), rows.size() * sizeof(T));
    return rows;
  }

  std::span<const std::byte> bytes_;
  Elf64_Ehdr header_;
  std::vector<Elf64_Shdr> sections_;
};

/// Pages of this process, unmapped unless they are released.
class Pages {
 public:
  explicit Pages(size_t size) : size_(size) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void* found = mmap(nullptr, size, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (found == MAP_FAILED) throw Error(ErrorKind::kMemory, "no memory for the code of a kernel");
    data_ = static_cast<std::byte*>(found);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    if (data_ != nullptr) munmap(data_, size_);
  }

  std::byte* data() const { return data_; }

  /// Makes the first `size` bytes executable and read-only.
  void make_executable(size_t size) {
    __builtin___clear_cache(reinterpret_cast<char*>(data_), reinterpret_cast<char*>(data_) + size);
    if (mprotect(data_, size, PROT_READ | PROT_EXEC) != 0) {
      fail("this system lets no program make code: memory cannot be made executable");
    }
  }

  void release() { data_ = nullptr; }

 private:
  std::byte* data_ = nullptr;
  size_t size_;
};

/// Loads one object. Constants lie with the code; writable sections follow on pages of their own.
class Loader {
 public:
  explicit Loader(std::span<const std::byte> code)
      : object_(code), offsets_(object_.sections().size(), kNowhere) {
    read_symbols();
    uint64_t size = symbols_.size() * sizeof(Linkage);
    place_sections(false, size);
    executable_bytes_ = size = align_up(size, static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
    place_sections(true, size);
    total_bytes_ = size;
  }

  uintptr_t load(const std::string& symbol) {
    Pages pages(total_bytes_);
    base_ = pages.data();
    copy_sections();
    resolve_symbols();
    for (const Elf64_Shdr& section : object_.sections()) {
      if (section.sh_type == SHT_REL) fail("relocations without addends");
      if (section.sh_type == SHT_INIT_ARRAY) fail("code that runs when it is loaded");
      if (section.sh_type == SHT_RELA) relocate_section(section);
    }
    uintptr_t found = defined(symbol);
    pages.make_executable(executable_bytes_);
    pages.release();
    return found;
  }

 private:
  void read_symbols() {
    for (const Elf64_Shdr& section : object_.sections()) {
      if (section.sh_type != SHT_SYMTAB) continue;
      symbols_ = object_.entries<Elf64_Sym>(section);
      strings_ = object_.section(section.sh_link);
    }
    if (symbols_.empty()) fail("it has no symbols");
    if (symbols_.size() * sizeof(Linkage) > kMaxBytes) fail("too many symbols");
  }

  /// Whether the section is loaded. Unwind tables are not: exceptions do not pass through kernels.
  bool is_loaded(const Elf64_Shdr& section) const {
    return (section.sh_flags & SHF_ALLOC) != 0 && section.sh_size != 0 &&
           !object_.name(section).starts_with(".eh_frame");
  }

  void place_sections(bool writable, uint64_t& size) {
    for (size_t i = 0; i < offsets_.size(); ++i) {
      const Elf64_Shdr& section = object_.sections()[i];
      bool is_writable = (section.sh_flags & SHF_WRITE) != 0;
      if (is_writable != writable || !is_loaded(section)) continue;
      if ((section.sh_flags & SHF_TLS) != 0) fail("variables of a thread are not supported");
      if (is_writable && (section.sh_flags & SHF_EXECINSTR) != 0) fail("code that is written");
      uint64_t alignment = section.sh_addralign == 0 ? 1 : section.sh_addralign;
      if (alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) fail("an odd alignment");
      size = align_up(size, alignment);
      offsets_[i] = size;
      if (section.sh_size > kMaxBytes || size + section.sh_size > kMaxBytes) fail("too large");
      size += section.sh_size;
    }
  }

  void copy_sections() {
    for (size_t i = 0; i < offsets_.size(); ++i) {
      const Elf64_Shdr& section = object_.sections()[i];
      if (offsets_[i] == kNowhere || section.sh_type == SHT_NOBITS) continue;
      auto contents = object_.contents(section);
      std::memcpy(base_ + offsets_[i], contents.data(), contents.size());
    }
  }

  void resolve_symbols() {
    addresses_.resize(symbols_.size());
    for (size_t i = 1; i < symbols_.size(); ++i) {
      addresses_[i] = address_of(symbols_[i]);
      Linkage linkage{addresses_[i]};
      std::memcpy(base_ + i * sizeof(Linkage), &linkage, sizeof linkage);
    }
  }

  uint64_t address_of(const Elf64_Sym& symbol) const {
    if (symbol.st_shndx == SHN_UNDEF) return external(symbol);
    if (symbol.st_shndx == SHN_ABS) return symbol.st_value;
    if (symbol.st_shndx >= SHN_LORESERVE) fail("a symbol in no section");
    const Elf64_Shdr& section = object_.section(symbol.st_shndx);
    // Symbols of sections that are not loaded, such as debug information, have no address.
    if (offsets_[symbol.st_shndx] == kNowhere) return 0;
    if (ELF64_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC) fail("functions that are chosen late");
    if (symbol.st_value > section.sh_size) fail("a symbol outside of its section");
    return reinterpret_cast<uint64_t>(base_) + offsets_[symbol.st_shndx] + symbol.st_value;
  }

  /// What takes the place of a function of the C library, or null.
  static void* replacement_of(std::string_view name) {
    if (name == "aligned_alloc") return reinterpret_cast<void*>(&take_block);
    if (name == "free") return reinterpret_cast<void*>(&give_block_back);
    return nullptr;
  }

  uint64_t external(const Elf64_Sym& symbol) const {
    std::string name = object_.text(strings_, symbol.st_name);
    void* found = replacement_of(name);
    if (found == nullptr) found = dlsym(RTLD_DEFAULT, name.c_str());
    if (found == nullptr && ELF64_ST_BIND(symbol.st_info) != STB_WEAK) {
      fail("it refers to '" + name + "', which this process does not have");
    }
    return reinterpret_cast<uint64_t>(found);
  }

  void relocate_section(const Elf64_Shdr& section) {
    const Elf64_Shdr& patched = object_.section(section.sh_info);
    size_t offset = offsets_[section.sh_info];
    if (offset == kNowhere) return;
    for (const Elf64_Rela& row : object_.entries<Elf64_Rela>(section)) {
      if (ELF64_R_SYM(row.r_info) >= addresses_.size()) fail("a symbol that does not exist");
      if (row.r_offset > patched.sh_size) fail("a relocation outside of its section");
      relocate(row, base_ + offset + row.r_offset, patched.sh_size - row.r_offset);
    }
  }

  /// Applies `row` at `place`, which has `room` bytes to the end of its section.
  void relocate(const Elf64_Rela& row, std::byte* place, size_t room) const {
    size_t symbol = ELF64_R_SYM(row.r_info);
    auto here = reinterpret_cast<uint64_t>(place);
    auto addend = static_cast<uint64_t>(row.r_addend);
    uint64_t linkage = reinterpret_cast<uint64_t>(base_) + symbol * sizeof(Linkage);
    uint64_t target = addresses_[symbol] + addend;
    auto write = [&]<class T>(T, uint64_t value) {
      auto written = static_cast<T>(value);
      if (static_cast<uint64_t>(static_cast<int64_t>(written)) != value) {
        fail("a relocation is out of range");
      }
      if (room < sizeof(T)) fail("a relocation lies outside of its section");
      std::memcpy(place, &written, sizeof(T));
    };
    switch (ELF64_R_TYPE(row.r_info)) {
      case R_X86_64_NONE:
        return;
      case R_X86_64_64:
        return write(uint64_t{}, target);
      case R_X86_64_32:
        return write(uint32_t{}, target);
      case R_X86_64_32S:
        return write(int32_t{}, target);
      case R_X86_64_PC64:
        return write(uint64_t{}, target - here);
      case R_X86_64_PC32:
        return write(int32_t{}, target - here);
      case R_X86_64_PLT32: {
        auto distance = static_cast<int64_t>(target - here);
        bool is_near = distance == static_cast<int32_t>(distance);
        return write(int32_t{},
                     (is_near ? target : linkage + offsetof(Linkage, jump) + addend) - here);
      }
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX:
        return write(int32_t{}, linkage + addend - here);
      default:
        fail("relocation of type " + std::to_string(ELF64_R_TYPE(row.r_info)) + " is not known");
    }
  }

  uintptr_t defined(const std::string& name) const {
    for (size_t i = 1; i < symbols_.size(); ++i) {
      const Elf64_Sym& symbol = symbols_[i];
      if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL) continue;
      if (object_.text(strings_, symbol.st_name) != name) continue;
      size_t section = symbol.st_shndx;
      bool is_code = section < offsets_.size() && offsets_[section] != kNowhere &&
                     (object_.section(section).sh_flags & SHF_EXECINSTR) != 0;
      if (!is_code) fail("'" + name + "' is no function");
      return addresses_[i];
    }
    fail("it does not define '" + name + "'");
  }

  Object object_;
  std::vector<size_t> offsets_;  // per section, from the base
  std::vector<Elf64_Sym> symbols_;
  std::vector<uint64_t> addresses_;  // per symbol
  Elf64_Shdr strings_{};
  std::byte* base_ = nullptr;
  size_t executable_bytes_ = 0;
  size_t total_bytes_ = 0;
};

}  // namespace

uintptr_t load_object(std::span<const std::byte> code, const std::string& symbol) {
  return Loader(code).load(symbol);
}

}  // namespace kernelcore
