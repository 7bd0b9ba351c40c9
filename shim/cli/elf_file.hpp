// An ELF file as far as the loader's view of it goes: class, machine, interpreter, needed libraries, run
// paths, flags. For `gpumem check`. Nothing in the file is trusted: every offset is held against its size,
// and a damaged file is one that says little. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpumem::cli {

class elf_file {
 public:
  // Maps the file; `is_elf` is false if it cannot be read or is something else.
  explicit elf_file(std::string const& path);
  ~elf_file();
  elf_file(elf_file const&) = delete;
  elf_file& operator=(elf_file const&) = delete;

  bool is_elf = false;
  bool whole = false;               // its program headers could be read
  unsigned machine = 0;             // e_machine
  bool wide = false;                // 64-bit
  bool no_default_folders = false;  // DF_1_NODEFLIB
  std::string interpreter;          // of PT_INTERP; empty: none
  std::vector<std::string> needed;
  std::string rpath, runpath;

  // True if the bytes of the file hold `text`.
  bool holds(std::string_view text) const noexcept;
  // The first line of a script, without "#!"; empty: no script.
  std::string script_line() const;

 private:
  template <typename Type>
  Type const* at(std::uint64_t offset, std::uint64_t count = 1) const noexcept;
  std::string text_at(std::uint64_t offset) const;
  template <typename Header, typename Segment, typename Entry>
  void read();

  std::span<char const> bytes_;
};

// "x86-64", "aarch64" or the number.
std::string machine_name(unsigned machine);

}  // namespace gpumem::cli
