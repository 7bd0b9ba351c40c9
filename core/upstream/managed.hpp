// The upstream `managed`: cuMemAllocManaged, memory that host and devices share, with the advice for all of
// it that the configuration asks for. Called by the resource above it, on slow paths, from any thread. Advice
// that the driver refuses is said once, and the memory is served without it.
#pragma once

#include <atomic>

#include "core/resource/resource.hpp"
#include "core/resource/source.hpp"

namespace gpumem::upstream {

class managed final : public resource::source {
 public:
  enum class place : std::uint8_t { any, host, device };
  struct options {
    place preferred_location = place::any;
    bool read_mostly = false;
  };
  managed(resource::habitat const& home, std::size_t node) noexcept : managed(home, node, options{}) {}
  managed(resource::habitat const& home, std::size_t node, options const& o) noexcept
      : home_(home), node_(node), options_(o) {}
  resource::extent reserve(resource::demand const& wish) override;
  void release(resource::extent const& memory, CUstream order) noexcept override;
  void lost(resource::extent const& memory) noexcept override;

 private:
  void advise(CUdeviceptr address, std::uint64_t bytes) noexcept;

  resource::habitat const& home_;
  std::size_t const node_;
  options const options_;
  std::atomic<bool> told_{false};
};

}  // namespace gpumem::upstream
