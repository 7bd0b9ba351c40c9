// The contexts of this process as core knows them: epochs, stream identities and the three chains of each,
// made at the first request in it. Found by handle without a lock; an entry is never destroyed, only marked
// gone, because a handle may be used again by the driver for another context.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "core/resource/chain.hpp"
#include "core/route/peers.hpp"
#include "core/route/router.hpp"
#include "core/stream_order/epochs.hpp"
#include "core/stream_order/streams.hpp"

namespace gpumem::route {

struct context_entry {
  context_entry(space::atlas& where, peers const& access, CUcontext context, int device_number) noexcept;

  // The chain of a kind; made on first use. Null: passthrough.
  resource::chain* chain_of(driver::memory_kind kind, chain_factory factory) noexcept;
  void forget() noexcept;

  CUcontext const handle;
  int const device;
  stream_order::epochs order;
  stream_order::streams streams;
  std::atomic<bool> gone{false};
  context_entry* next = nullptr;

  template <typename Visit>
  void each_chain(Visit visit) noexcept {
    for (auto const& c : chains_) {
      if (auto* made = c.load(std::memory_order_acquire); made != nullptr) visit(*made);
    }
  }

  // Those whose memory is in the device's ledger: all but the host's.
  template <typename Visit>
  void each_device_chain(Visit visit) noexcept {
    for (auto const kind : {driver::memory_kind::device, driver::memory_kind::managed}) {
      auto* made = chains_[static_cast<std::size_t>(kind)].load(std::memory_order_acquire);
      if (made != nullptr) visit(*made);
    }
  }

 private:
  std::array<resource::habitat, 3> homes_;
  std::array<std::atomic<resource::chain*>, 3> chains_{};
  std::array<std::atomic<bool>, 3> made_{};
  std::mutex mutex_;
};

class contexts {
 public:
  contexts(space::atlas& where, peers const& access) noexcept : where_(where), access_(access) {}

  context_entry* find(CUcontext context) const noexcept {
    for (auto* e = first_.load(std::memory_order_acquire); e != nullptr; e = e->next) {
      if (e->handle == context && !e->gone.load(std::memory_order_acquire)) return e;
    }
    return nullptr;
  }
  // Null when the device cannot be asked or memory is short.
  context_entry* find_or_make(CUcontext context) noexcept;

  template <typename Visit>
  void each(Visit visit) noexcept {
    for (auto* e = first_.load(std::memory_order_acquire); e != nullptr; e = e->next) {
      if (!e->gone.load(std::memory_order_acquire)) visit(*e);
    }
  }

 private:
  space::atlas& where_;
  peers const& access_;
  std::atomic<context_entry*> first_{nullptr};
  std::mutex mutex_;
};

}  // namespace gpumem::route
