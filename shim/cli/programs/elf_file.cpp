// See elf_file.hpp.
#include "shim/cli/programs/elf_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gpumem::cli {
namespace {

// Foreign files say how long their tables are: no loader has ever met such.
constexpr std::uint64_t most_entries = 65'536;  // of the dynamic table
constexpr std::size_t most_needed = 4096;
constexpr std::size_t longest_text = 4096;
constexpr std::uint64_t most_searched = 8ull << 30;  // bytes; holes do not count
constexpr std::size_t piece = 1 << 20;

}  // namespace

elf_file::elf_file(std::string const& path)
    : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
  struct stat about {};
  if (descriptor_ < 0 || ::fstat(descriptor_, &about) != 0 || !S_ISREG(about.st_mode)) return;
  size_ = static_cast<std::uint64_t>(about.st_size);
  auto const ident = table<unsigned char>(0, EI_NIDENT);
  if (ident.empty() || std::memcmp(ident.data(), ELFMAG, SELFMAG) != 0) return;
  is_elf = true;
  wide = ident[EI_CLASS] == ELFCLASS64;
  bool const little = ident[EI_DATA] == ELFDATA2LSB;
  if (auto const two = table<unsigned char>(offsetof(Elf64_Ehdr, e_machine), 2); !two.empty())
    machine = little ? two[0] | two[1] << 8 : two[0] << 8 | two[1];
  // Of the other byte order no more can be said, and its machine is another one anyway.
  if (little == (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__))
    wide ? read<Elf64_Ehdr, Elf64_Phdr, Elf64_Dyn>() : read<Elf32_Ehdr, Elf32_Phdr, Elf32_Dyn>();
}

elf_file::~elf_file() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::size_t elf_file::read_at(std::uint64_t offset, void* target, std::size_t bytes) const noexcept {
  if (offset >= size_) return 0;
  ssize_t const got = ::pread(descriptor_, target, bytes, static_cast<off_t>(offset));
  return got > 0 ? static_cast<std::size_t>(got) : 0;
}

template <typename Type>
std::vector<Type> elf_file::table(std::uint64_t offset, std::uint64_t count) const {
  if (count > most_entries || offset > size_ || count > (size_ - offset) / sizeof(Type)) return {};
  std::vector<Type> entries(count);
  if (read_at(offset, entries.data(), count * sizeof(Type)) != count * sizeof(Type)) entries.clear();
  return entries;
}

std::string elf_file::text_at(std::uint64_t offset) const {
  std::string text(longest_text, '\0');
  text.resize(read_at(offset, text.data(), text.size()));
  text.resize(::strnlen(text.data(), text.size()));
  return text;
}

template <typename Header, typename Segment, typename Entry>
void elf_file::read() {
  auto const head = table<Header>(0, 1);
  if (head.empty() || head[0].e_phentsize != sizeof(Segment)) return;
  auto const segments = table<Segment>(head[0].e_phoff, head[0].e_phnum);
  if (segments.empty()) return;
  whole = true;
  auto const in_file = [&](std::uint64_t address) -> std::uint64_t {
    for (auto const& s : segments) {
      if (s.p_type == PT_LOAD && address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz)
        return address - s.p_vaddr + s.p_offset;
    }
    return size_;
  };
  for (auto const& s : segments) {
    if (s.p_type == PT_INTERP) interpreter = text_at(s.p_offset);
    if (s.p_type != PT_DYNAMIC) continue;
    auto const entries = table<Entry>(s.p_offset, s.p_filesz / sizeof(Entry));
    std::uint64_t names = size_;
    for (auto const& e : entries) {
      if (e.d_tag == DT_STRTAB) names = in_file(e.d_un.d_ptr);
    }
    for (auto const& e : entries) {
      auto const value = static_cast<std::uint64_t>(e.d_un.d_val);
      if (e.d_tag == DT_NULL) break;
      if (e.d_tag == DT_NEEDED && needed.size() < most_needed) needed.push_back(text_at(names + value));
      if (e.d_tag == DT_RPATH) rpath = text_at(names + value);
      if (e.d_tag == DT_RUNPATH) runpath = text_at(names + value);
      if (e.d_tag == DT_FLAGS_1) no_default_folders = (value & DF_1_NODEFLIB) != 0;
    }
  }
}

// From one stretch of data to the next: a hole holds nothing, however long it is.
bool elf_file::holds(std::string_view text) const {
  std::vector<char> part(piece + text.size());
  std::uint64_t searched = 0;
  for (std::uint64_t at = 0; at < size_ && searched < most_searched;) {
    off_t const data = ::lseek(descriptor_, static_cast<off_t>(at), SEEK_DATA);
    if (data > static_cast<off_t>(at)) at = static_cast<std::uint64_t>(data);
    if (data < 0 && errno == ENXIO) return false;
    std::size_t const got = read_at(at, part.data(), part.size());
    if (got < text.size()) return false;
    if (::memmem(part.data(), got, text.data(), text.size()) != nullptr) return true;
    std::size_t const step = got - text.size() + 1;  // one that begins at the end of this part is met again
    at += step;
    searched += step;
  }
  return false;
}

bool elf_file::is_text() const {
  std::string start(256, '\0');
  start.resize(read_at(0, start.data(), start.size()));
  return !start.empty() && start.find('\0') == start.npos;
}

std::string elf_file::script_line() const {
  std::string start(256, '\0');
  start.resize(read_at(0, start.data(), start.size()));
  if (!start.starts_with("#!")) return {};
  return start.substr(2, start.find('\n') - 2);
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
