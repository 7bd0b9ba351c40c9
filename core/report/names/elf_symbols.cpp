// See elf_symbols.hpp. Only 64-bit files of this machine's byte order: no other can be loaded here.
#include "core/report/names/elf_symbols.hpp"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace gpumem::report {
namespace {

constexpr std::size_t most_headers = 4096;
constexpr std::uint64_t most_symbols = 4'000'000;  // of one file: a report waits for this

class elf_file {
 public:
  explicit elf_file(std::string const& path)
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    struct stat about {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &about) != 0 || !S_ISREG(about.st_mode) ||
        !read(0, &head_, sizeof head_) || std::memcmp(head_.e_ident, ELFMAG, SELFMAG) != 0 ||
        head_.e_ident[EI_CLASS] != ELFCLASS64)
      return;
    segments_ = table<Elf64_Phdr>(head_.e_phoff, head_.e_phnum, head_.e_phentsize);
    sections_ = table<Elf64_Shdr>(head_.e_shoff, head_.e_shnum, head_.e_shentsize);
  }
  elf_file(elf_file const&) = delete;
  elf_file& operator=(elf_file const&) = delete;
  ~elf_file() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  // Address as linked; the offset itself where no segment holds it.
  std::uint64_t address_of(std::uint64_t offset) const {
    for (auto const& one : segments_) {
      if (one.p_type == PT_LOAD && offset >= one.p_offset && offset - one.p_offset < one.p_filesz)
        return offset - one.p_offset + one.p_vaddr;
    }
    return offset;
  }

  // Names the functions that hold these addresses, which are sorted.
  std::map<std::uint64_t, std::string> names_of(std::vector<std::uint64_t> const& addresses) {
    std::map<std::uint64_t, std::string> names;
    for (std::uint32_t const kind : {SHT_SYMTAB, SHT_DYNSYM}) {
      for (auto const& section : sections_) {
        if (section.sh_type == kind && section.sh_link < sections_.size())
          scan(section, sections_[section.sh_link], addresses, names);
      }
    }
    return names;
  }

 private:
  bool read(std::uint64_t offset, void* target, std::size_t bytes) const {
    return ::pread(descriptor_, target, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
  }

  template <typename Entry>
  std::vector<Entry> table(std::uint64_t offset, std::size_t count, std::size_t entry_bytes) const {
    std::vector<Entry> entries(count);
    if (count > most_headers || entry_bytes != sizeof(Entry) || count == 0 ||
        !read(offset, entries.data(), count * sizeof(Entry)))
      entries.clear();
    return entries;
  }

  std::string name_at(std::uint64_t offset) const {
    char text[256];
    ssize_t const got = ::pread(descriptor_, text, sizeof text - 1, static_cast<off_t>(offset));
    return got <= 0 ? std::string() : std::string(text, ::strnlen(text, static_cast<std::size_t>(got)));
  }

  void scan(Elf64_Shdr const& symbols, Elf64_Shdr const& strings, std::vector<std::uint64_t> const& addresses,
            std::map<std::uint64_t, std::string>& names) {
    auto const chunk = std::make_unique<std::array<Elf64_Sym, 1024>>();
    std::uint64_t const count = symbols.sh_size / sizeof(Elf64_Sym);
    for (std::uint64_t first = 0; first < count && seen_ < most_symbols; first += chunk->size()) {
      seen_ += chunk->size();
      std::size_t const part = std::min<std::uint64_t>(chunk->size(), count - first);
      if (!read(symbols.sh_offset + first * sizeof(Elf64_Sym), chunk->data(), part * sizeof(Elf64_Sym)))
        return;
      for (std::size_t i = 0; i < part; ++i) {
        Elf64_Sym const& one = (*chunk)[i];
        if (ELF64_ST_TYPE(one.st_info) != STT_FUNC || one.st_size == 0) continue;
        auto at = std::lower_bound(addresses.begin(), addresses.end(), one.st_value);
        for (; at != addresses.end() && *at - one.st_value < one.st_size; ++at) {
          if (!names.contains(*at)) names[*at] = name_at(strings.sh_offset + one.st_name);
        }
      }
    }
  }

  int descriptor_;
  std::uint64_t seen_ = 0;
  Elf64_Ehdr head_{};
  std::vector<Elf64_Phdr> segments_;
  std::vector<Elf64_Shdr> sections_;
};

}  // namespace

elf_places find_places(std::string const& path, std::vector<std::uint64_t> const& offsets) {
  elf_file file(path);
  elf_places places;
  std::vector<std::uint64_t> calls;
  for (std::uint64_t const offset : offsets) {
    if (offset == 0) continue;
    places[offset].address = file.address_of(offset - 1);
    calls.push_back(places[offset].address);
  }
  std::sort(calls.begin(), calls.end());
  auto const names = file.names_of(calls);
  for (auto& [offset, place] : places) {
    if (auto const found = names.find(place.address); found != names.end()) place.symbol = found->second;
  }
  return places;
}

}  // namespace gpumem::report
