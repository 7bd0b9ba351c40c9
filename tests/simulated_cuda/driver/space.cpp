// Memory of one simulated device: see space.hpp.
// Called under the machine's lock.
// Memory given back loses its contents at once, so that a test sees the difference between kept and returned
// memory.
#include "space.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace simulated {

space::space(std::uint64_t capacity) : capacity_(capacity) {
  span_ = std::max<std::uint64_t>(capacity / driver_block * driver_block * 4, 16 * driver_block);
  file_ = memfd_create("simulated-device", MFD_CLOEXEC);
  std::uint64_t const mapped = span_ + driver_block;
  // The addresses are held from here on: what they give up between two calls, a thread's new stack may take.
  void* const held = mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  auto const begin = reinterpret_cast<std::uint64_t>(held);
  base_ = (begin + driver_block - 1) / driver_block * driver_block;
  // The file offset of an address is its distance from base_, so the map is aligned, not the offset.
  if (file_ < 0 || held == MAP_FAILED || ftruncate(file_, static_cast<off_t>(mapped)) != 0 ||
      mmap(reinterpret_cast<void*>(base_), span_, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file_, 0) == MAP_FAILED) {
    std::perror("simulated-cuda: no memory file for a device; lower GPUMEM_SIMULATED_MEMORY");
    std::abort();
  }
  if (base_ > begin) munmap(held, base_ - begin);
  munmap(reinterpret_cast<void*>(base_ + span_), begin + mapped - (base_ + span_));
  holes_[base_] = span_;
}

bool space::charge(std::uint64_t bytes) noexcept {
  if (bytes > capacity_ || used_ > capacity_ - bytes) return false;
  used_ += bytes;
  most_used_ = std::max(most_used_, used_);
  return true;
}

std::uint64_t space::take(std::uint64_t bytes) {
  if (!charge(bytes)) return 0;
  for (auto it = holes_.begin(); it != holes_.end(); ++it) {
    if (it->second < bytes) continue;
    auto const [address, size] = *it;
    holes_.erase(it);
    if (size > bytes) holes_[address + bytes] = size - bytes;
    if (has_moved(address, bytes)) {  // pieces that moved one by one are in no order
      empty(address, bytes);
      renew(address, bytes);
    }
    return address;
  }
  used_ -= bytes;
  return 0;
}

std::uint64_t space::export_from(std::uint64_t address) {
  exported_.insert(address);
  auto const moved = moved_.find(address / driver_block * driver_block);
  return moved != moved_.end() ? moved->second + address % driver_block : address - base_;
}

// Fresh memory at these addresses.
void space::renew(std::uint64_t address, std::uint64_t bytes) {
  if (file_end_ == 0) file_end_ = span_ + driver_block;
  void* const at = reinterpret_cast<void*>(address);
  auto const offset = static_cast<off_t>(file_end_);
  if (ftruncate(file_, static_cast<off_t>(file_end_ + bytes)) != 0 ||
      mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file_, offset) ==
          MAP_FAILED) {
    std::abort();
  }
  for (std::uint64_t i = 0; i < bytes; i += driver_block) moved_[address + i] = file_end_ + i;
  file_end_ += bytes;
}

bool space::has_moved(std::uint64_t address, std::uint64_t bytes) const noexcept {
  auto const moved = moved_.lower_bound(address);
  return moved != moved_.end() && moved->first < address + bytes;
}

// The contents are lost, and the host's memory for them is given back.
void space::empty(std::uint64_t address, std::uint64_t bytes) noexcept {
  auto const punch = [this](std::uint64_t offset, std::uint64_t size) {
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
              static_cast<off_t>(size));
  };
  if (!has_moved(address, bytes)) return punch(address - base_, bytes);
  for (std::uint64_t i = 0; i < bytes; i += driver_block) {
    auto const moved = moved_.find(address + i);
    punch(moved != moved_.end() ? moved->second : address + i - base_, driver_block);
  }
}

void space::give(std::uint64_t address, std::uint64_t bytes) {
  used_ -= bytes;
  auto const first = exported_.lower_bound(address), last = exported_.lower_bound(address + bytes);
  if (first != last) {  // an importer keeps what it was
    exported_.erase(first, last);
    renew(address, bytes);
  } else {
    empty(address, bytes);
  }
  auto next = holes_.lower_bound(address);
  if (next != holes_.end() && next->first == address + bytes) {
    bytes += next->second;
    next = holes_.erase(next);
  }
  if (next != holes_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  holes_[address] = bytes;
}

}  // namespace simulated
