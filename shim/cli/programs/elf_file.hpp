// An ELF file as the loader sees it: class, machine, interpreter, needed libraries, run paths, flags. For
// `gpumem check`. Nothing in the file is trusted: every offset is checked against its size, and what is
// damaged is left out. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpumem::cli {

class elf_file {
 public:
  // Reads its headers; `is_elf` is false if it cannot be read or is something else.
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
  bool holds(std::string_view text) const;
  // No byte of its beginning says that it is none: what execvp gives to a shell.
  bool is_text() const;
  // The first line of a script, without "#!"; empty: no script.
  std::string script_line() const;

 private:
  std::size_t read_at(std::uint64_t offset, void* target, std::size_t bytes) const noexcept;
  template <typename Type>
  std::vector<Type> table(std::uint64_t offset, std::uint64_t count) const;  // empty: not all there
  std::string text_at(std::uint64_t offset) const;
  template <typename Header, typename Segment, typename Entry>
  void read();

  int const descriptor_;
  std::uint64_t size_ = 0;
};

// "x86-64", "aarch64" or the number.
std::string machine_name(unsigned machine);

}  // namespace gpumem::cli
