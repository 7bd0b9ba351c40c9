// Where the bytes of a page come from: this process's own mapping, or a file. Read piece by piece, as most
// of a page is never touched. A file is read, not mapped: if it shrinks meanwhile there must be an error,
// not SIGBUS.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/stats/page/layout.hpp"

namespace gpumem::stats {

class page_source {
 public:
  virtual ~page_source() = default;
  // False when that range is not there.
  virtual bool read(std::uint64_t offset, void* target, std::size_t bytes) = 0;
};

// This process's own page.
class mapped_source final : public page_source {
 public:
  explicit mapped_source(page& mapped) noexcept : mapped_(mapped) {}
  bool read(std::uint64_t offset, void* target, std::size_t bytes) override;

 private:
  page& mapped_;
};

// The page of another process, from its file.
class file_source final : public page_source {
 public:
  explicit file_source(std::string const& path);
  file_source(file_source const&) = delete;
  file_source& operator=(file_source const&) = delete;
  ~file_source() override;
  bool read(std::uint64_t offset, void* target, std::size_t bytes) override;
  std::string const& error() const noexcept { return error_; }  // empty: open
  std::uint64_t size() const noexcept { return size_; }

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::string error_;
};

}  // namespace gpumem::stats
