// The upstreams that are one driver call pair: `cuda` (cuMemAlloc, capable of legacy IPC and peer access)
// and `pinned_host` (cuMemHostAlloc). Called by the resource above them, on
// slow paths, from any thread; the calls are made in relaxed capture mode with the chain's context current.
#pragma once

#include "core/upstream/deferred_release_source.hpp"
#include "core/upstream/refused_frees.hpp"

namespace gpumem::upstream {

class cuda final : public deferred_release_source {
 public:
  cuda(resource::chain_context const& home, std::size_t node) noexcept
      : deferred_release_source(home, true), node_(node) {}
  resource::extent reserve(resource::allocation_request const& request) override;
  void lost(resource::extent const& memory) noexcept override;
  void forget() noexcept override;
  bool takes_back_when_idle() const noexcept override { return true; }
  bool takes_back_at_once() const noexcept override;
  std::optional<std::uint64_t> free_at_driver() noexcept override;
  bool is_hopeless(std::uint64_t bytes, std::uint64_t back) noexcept override;
  // The driver takes pages of 2 MiB; a part of one may still be free.
  bool refuses_as_well(std::uint64_t bytes, std::uint64_t more) noexcept override {
    constexpr std::uint64_t page = 2ull << 20;
    return bytes >= page && (more - 1) / page == (bytes - 1) / page;
  }

 private:
  bool give_away(resource::extent const& memory, bool may_wait) noexcept override;
  bool would_wait() noexcept override { return !takes_back_at_once() && has_work(); }
  // Whether memory that is done is to go in order: else cuMemFree has nothing to wait for, or may.
  bool goes_in_order(bool may_wait) noexcept;
  // Whatever the GPU does. False: it has to go by cuMemFree.
  bool free_in_order(CUdeviceptr address) noexcept;

  std::size_t const node_;
  std::atomic<bool> refuses_{false};  // to free in order, as a device without memory pools does
  base::mutex mutex_;
  CUstream own_ GPUMEM_GUARDED_BY(mutex_) = nullptr;
};

class pinned_host final : public resource::source {
 public:
  // `flags`: of cuMemHostAlloc, for every request besides its own.
  pinned_host(resource::chain_context const& home, std::size_t node, unsigned flags) noexcept
      : home_(home), node_(node), flags_(flags), refused_(home) {}
  resource::extent reserve(resource::allocation_request const& request) override;
  void release(resource::extent const& memory, resource::release_order const& order) noexcept override;
  void lost(resource::extent const& memory) noexcept override;
  void forget() noexcept override;
  void begin_again() noexcept override { refused_.begin_again(); }
  std::uint64_t trim(resource::give_back_scope) noexcept override;
  bool takes_back_when_idle() const noexcept override { return true; }  // cuMemFreeHost waits for kernels

 private:
  bool give_away(resource::extent const& memory) noexcept;
  // Frees again what the driver refused to take back.
  void retry() noexcept;

  resource::chain_context const& home_;
  std::size_t const node_;
  unsigned const flags_;
  refused_frees refused_;
};

}  // namespace gpumem::upstream
