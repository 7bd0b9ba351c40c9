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
  span_ = std::max<std::uint64_t>(capacity * 4, 16 * driver_block);
  file_ = memfd_create("simulated-device", MFD_CLOEXEC);
  std::uint64_t const mapped = span_ + driver_block;
  void* memory = MAP_FAILED;
  if (file_ >= 0 && ftruncate(file_, static_cast<off_t>(mapped)) == 0) {
    memory = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, 0);
  }
  if (memory == MAP_FAILED) {
    std::perror("simulated-cuda: no memory file for a device; lower GPUMEM_SIMULATED_MEMORY");
    std::abort();
  }
  // The file offset of an address is its distance from base_, so align by moving the map, not the offset.
  auto const raw = reinterpret_cast<std::uint64_t>(memory);
  base_ = (raw + driver_block - 1) / driver_block * driver_block;
  if (base_ != raw) {
    munmap(memory, mapped);
    memory = mmap(reinterpret_cast<void*>(base_), span_, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_NORESERVE | MAP_FIXED, file_, 0);
    if (memory == MAP_FAILED) std::abort();
  }
  holes_[base_] = span_;
}

bool space::charge(std::uint64_t bytes) noexcept {
  if (bytes > capacity_ || used_ > capacity_ - bytes) return false;
  used_ += bytes;
  return true;
}

std::uint64_t space::take(std::uint64_t bytes) {
  if (!charge(bytes)) return 0;
  for (auto it = holes_.begin(); it != holes_.end(); ++it) {
    if (it->second < bytes) continue;
    auto const [address, size] = *it;
    holes_.erase(it);
    if (size > bytes) holes_[address + bytes] = size - bytes;
    return address;
  }
  used_ -= bytes;
  return 0;
}

void space::give(std::uint64_t address, std::uint64_t bytes) {
  used_ -= bytes;
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(address - base_),
            static_cast<off_t>(bytes));
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
