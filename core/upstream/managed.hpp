// The upstream `managed`: cuMemAllocManaged, memory that host and devices share, with the advice that the
// configuration asks for. Called by the resource above it, on slow paths, from any thread. If the driver
// refuses the advice, that is said once and the memory is served without it.
#pragma once

#include <atomic>

#include "core/upstream/deferred_release_source.hpp"

namespace gpumem::upstream {

class managed final : public deferred_release_source {
 public:
  enum class location : std::uint8_t { any, host, device };
  struct options {
    location preferred_location = location::any;
    bool read_mostly = false;
  };
  managed(resource::chain_context const& home, std::size_t node) noexcept : managed(home, node, options{}) {}
  managed(resource::chain_context const& home, std::size_t node, options const& o) noexcept
      : deferred_release_source(home, true), node_(node), options_(o) {}
  resource::extent reserve(resource::allocation_request const& request) override;
  void lost(resource::extent const& memory) noexcept override;
  bool takes_back_when_idle() const noexcept override { return true; }
  void renew(std::uint64_t address, std::uint64_t bytes) noexcept override { advise(address, bytes); }

 private:
  bool give_away(resource::extent const& memory, bool may_wait) noexcept override;
  bool would_wait() noexcept override { return has_work(); }
  // Gives the configured advice for this memory.
  void advise(CUdeviceptr address, std::uint64_t bytes) noexcept;

  std::size_t const node_;
  options const options_;
  std::atomic<bool> told_{false};
};

}  // namespace gpumem::upstream
