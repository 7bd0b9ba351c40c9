// A host whose memory is that of the scripted driver, so that its size is set and its use is seen there. For
// tests of upstream/host/system.
#pragma once

#include "core/upstream/host/host_memory.hpp"
#include "tests/unit/fake_driver/fake_driver.hpp"

namespace gpumem::tests {

class fake_host final : public upstream::host_memory {
 public:
  static fake_host& instance() {
    static fake_host only;
    return only;
  }
  amount measure() noexcept override {
    fake_driver& driver = fake_driver::instance();
    std::lock_guard lock(driver.mutex);
    return {driver.capacity - driver.in_use, driver.capacity};
  }
  std::uint64_t map(std::uint64_t bytes, std::uint64_t alignment) noexcept override {
    last_alignment = alignment;
    CUdeviceptr address = 0;
    return fake_driver::instance().allocate(&address, bytes) == CUDA_SUCCESS ? address : 0;
  }
  void unmap(std::uint64_t address, std::uint64_t) noexcept override {
    fake_driver::instance().release(address);
  }
  std::atomic<std::uint64_t> last_alignment{0};
};

}  // namespace gpumem::tests
