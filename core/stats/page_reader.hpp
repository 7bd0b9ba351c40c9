// Where the bytes of a page come from: this process's own mapping, or a file. Read piece by piece, as most
// of a page is never touched. A file is read, not mapped: if it shrinks meanwhile there must be an error,
// not SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/stats/page/layout.hpp"

namespace gpumem::stats {

class page_reader {
 public:
  virtual ~page_reader() = default;
  // False when that range is not there.
  virtual bool read(std::uint64_t offset, void* target, std::size_t bytes) = 0;
};

// This process's own page.
class mapped_page_reader final : public page_reader {
 public:
  explicit mapped_page_reader(page& mapped) noexcept : mapped_(mapped) {}
  bool read(std::uint64_t offset, void* target, std::size_t bytes) override;

 private:
  page& mapped_;
};

// The page of another process, from its file.
class file_page_reader final : public page_reader {
 public:
  explicit file_page_reader(std::string const& path);
  file_page_reader(file_page_reader const&) = delete;
  file_page_reader& operator=(file_page_reader const&) = delete;
  ~file_page_reader() override;
  bool read(std::uint64_t offset, void* target, std::size_t bytes) override;
  std::string const& error() const noexcept { return error_; }  // empty: open
  std::uint64_t size() const noexcept { return size_; }

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::string error_;
};

}  // namespace gpumem::stats
