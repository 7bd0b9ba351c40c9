// The upstream `system`: memory of the host, which a device with HMM or ATS can use like managed memory
// (RMM's system_memory_resource and sam_headroom_memory_resource). With `headroom`, pages that would leave
// less than that free on the device are told to stay on the host. To the driver these addresses are plain
// host memory. Called on slow paths, from any thread.
#pragma once

#include <atomic>

#include "core/upstream/deferred_release_source.hpp"
#include "core/upstream/host/host_memory.hpp"

namespace gpumem::upstream {

class system final : public deferred_release_source {
 public:
  // `headroom`: bytes of the device; 0: the driver decides where pages are. Throws driver::allocation_failed
  // where the device does not reach pageable memory.
  system(resource::chain_context const& home, std::size_t node, std::uint64_t headroom,
         host_memory& host = host_memory::of_this_machine());

  resource::extent reserve(resource::allocation_request const& request) override;
  void lost(resource::extent const& memory) noexcept override;

 private:
  // Counts them as held. Throws allocation_failed where the host has not so many available.
  void take_from_host(std::uint64_t bytes);
  void place(std::uint64_t address, std::uint64_t bytes) noexcept;

  std::size_t const node_;
  std::uint64_t const headroom_;
  host_memory& host_;
  std::atomic<std::uint64_t> held_{0};
  std::atomic<bool> told_{false};
};

}  // namespace gpumem::upstream
