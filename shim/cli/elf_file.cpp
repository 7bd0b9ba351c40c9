// See elf_file.hpp.
#include "shim/cli/elf_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace gpumem::cli {

elf_file::elf_file(std::string const& path) {
  int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat about {};
  if (descriptor < 0) return;
  if (::fstat(descriptor, &about) == 0 && S_ISREG(about.st_mode) && about.st_size > 0) {
    auto const size = static_cast<std::size_t>(about.st_size);
    void* const base = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (base != MAP_FAILED) bytes_ = {static_cast<char const*>(base), size};
  }
  ::close(descriptor);
  auto const* const ident = at<unsigned char>(0, EI_NIDENT);
  if (ident == nullptr || std::memcmp(ident, ELFMAG, SELFMAG) != 0) return;
  is_elf = true;
  wide = ident[EI_CLASS] == ELFCLASS64;
  bool const little = ident[EI_DATA] == ELFDATA2LSB;
  if (auto const* const two = at<unsigned char>(offsetof(Elf64_Ehdr, e_machine), 2))
    machine = little ? two[0] | two[1] << 8 : two[0] << 8 | two[1];
  // Of the other byte order no more can be said, and its machine is another one anyway.
  if (little == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__))
    wide ? read<Elf64_Ehdr, Elf64_Phdr, Elf64_Dyn>() : read<Elf32_Ehdr, Elf32_Phdr, Elf32_Dyn>();
}

elf_file::~elf_file() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

template <typename Type>
Type const* elf_file::at(std::uint64_t offset, std::uint64_t count) const noexcept {
  bool const inside = offset <= bytes_.size() && count <= (bytes_.size() - offset) / sizeof(Type);
  bool const straight = offset % alignof(Type) == 0;
  return inside && straight ? reinterpret_cast<Type const*>(bytes_.data() + offset) : nullptr;
}

std::string elf_file::text_at(std::uint64_t offset) const {
  if (offset >= bytes_.size()) return {};
  char const* const begin = bytes_.data() + offset;
  return {begin, ::strnlen(begin, std::min<std::size_t>(bytes_.size() - offset, 4096))};
}

template <typename Header, typename Segment, typename Entry>
void elf_file::read() {
  auto const* const head = at<Header>(0);
  if (head == nullptr) return;
  auto const* const segments = at<Segment>(head->e_phoff, head->e_phnum);
  if (segments == nullptr || head->e_phentsize != sizeof(Segment)) return;
  whole = true;
  std::span<Segment const> const all(segments, head->e_phnum);
  auto const in_file = [&](std::uint64_t address) -> std::uint64_t {
    for (auto const& s : all) {
      if (s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz)
        return address - s.p_vaddr + s.p_offset;
    }
    return bytes_.size();
  };
  for (auto const& s : all) {
    if (s.p_type == PT_INTERP) interpreter = text_at(s.p_offset);
    if (s.p_type != PT_DYNAMIC) continue;
    std::uint64_t const count = s.p_filesz / sizeof(Entry);
    auto const* const entries = at<Entry>(s.p_offset, count);
    if (entries == nullptr) continue;
    std::span<Entry const> const table(entries, count);
    std::uint64_t names = bytes_.size();
    for (auto const& e : table) {
      if (e.d_tag == DT_STRTAB) names = in_file(e.d_un.d_ptr);
    }
    for (auto const& e : table) {
      auto const value = static_cast<std::uint64_t>(e.d_un.d_val);
      if (e.d_tag == DT_NULL) break;
      if (e.d_tag == DT_NEEDED) needed.push_back(text_at(names + value));
      if (e.d_tag == DT_RPATH) rpath = text_at(names + value);
      if (e.d_tag == DT_RUNPATH) runpath = text_at(names + value);
      if (e.d_tag == DT_FLAGS_1) no_default_folders = (value & DF_1_NODEFLIB) != 0;
    }
  }
}

bool elf_file::holds(std::string_view text) const noexcept {
  return !bytes_.empty() && ::memmem(bytes_.data(), bytes_.size(), text.data(), text.size()) != nullptr;
}

std::string elf_file::script_line() const {
  if (bytes_.size() < 3 || bytes_[0] != '#' || bytes_[1] != '!') return {};
  auto const end =
      std::find(bytes_.begin(), bytes_.begin() + std::min<long>(static_cast<long>(bytes_.size()), 256), '\n');
  return {bytes_.begin() + 2, end};
}

std::string machine_name(unsigned machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86-64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "32-bit Arm";
    default:
      return "machine " + std::to_string(machine);
  }
}

}  // namespace gpumem::cli
