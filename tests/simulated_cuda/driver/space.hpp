// Memory of one simulated device: one sparse memory file, mapped once, so that sizes cost nothing until
// touched and another process can map a piece of it. Used by the machine's allocator, under its lock. Only
// whole 2 MiB steps are handed out here; blocks inside a step are the allocator's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

namespace simulated {

inline constexpr std::uint64_t driver_block = 2u << 20;

class space {
 public:
  // `capacity`: bytes of device memory. Addresses are four times as many, so holes never look like
  // exhaustion.
  explicit space(std::uint64_t capacity);

  std::uint64_t take(std::uint64_t bytes);  // 0 if there is no room
  void give(std::uint64_t address, std::uint64_t bytes);
  // Another process may open this memory, and then keeps it: whoever gets these addresses next has other
  // memory there (measured: driver 580). Where it lies in the file.
  std::uint64_t export_from(std::uint64_t address);

  bool contains(std::uint64_t address) const noexcept { return address >= base_ && address < base_ + span_; }
  std::uint64_t base() const noexcept { return base_; }
  std::uint64_t capacity() const noexcept { return capacity_; }
  std::uint64_t used() const noexcept { return used_; }
  std::uint64_t most_used() const noexcept { return most_used_; }
  int file() const noexcept { return file_; }

  // Memory of this device that lies elsewhere (cuMemCreate, arrays).
  bool charge(std::uint64_t bytes) noexcept;
  void uncharge(std::uint64_t bytes) noexcept { used_ -= bytes; }

 private:
  int file_ = -1;
  std::uint64_t base_ = 0;
  std::uint64_t span_ = 0;
  std::uint64_t capacity_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t most_used_ = 0;
  std::map<std::uint64_t, std::uint64_t> holes_;  // address -> bytes
  std::set<std::uint64_t> exported_;              // addresses in use of which a handle was made
  std::map<std::uint64_t, std::uint64_t>
      moved_;  // address of a step -> where it lies, if not at its distance from base
  std::uint64_t file_end_ = 0;

  bool has_moved(std::uint64_t address, std::uint64_t bytes) const noexcept;
  void empty(std::uint64_t address, std::uint64_t bytes) noexcept;
  void renew(std::uint64_t address, std::uint64_t bytes);
};

}  // namespace simulated
