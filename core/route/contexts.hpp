// The contexts of this process as core knows them: epochs, stream identities and the chains of each, made at
// the first request for one. Found by handle without a lock; an entry is never destroyed, only marked
// gone, because a handle may be used again by the driver for another context.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "core/resource/chain.hpp"
#include "core/route/peers.hpp"
#include "core/route/router.hpp"
#include "core/route/rules.hpp"
#include "core/stream_order/epochs.hpp"
#include "core/stream_order/streams.hpp"

namespace gpumem::route {

// Name, id and size of a device for the report; at its first context or its first memory that is only seen.
void register_device(int device) noexcept;

struct context_entry {
  context_entry(space::atlas& where, peers const& access, CUcontext context, int device_number,
                rule_set const* rules);

  // A route's chain, or one of rules; made on first use. Null: passthrough.
  resource::chain* chain_of(std::size_t number, chain_factory factory) noexcept {
    auto* const made = chains_[number].load(std::memory_order_acquire);
    return made != nullptr ? made : make_chain(number, factory);
  }
  // The top of that chain where it is there and its hits need no virtual call, else null.
  resource::suballocator* quick_of(std::size_t number) const noexcept {
    return quick_[number].load(std::memory_order_acquire);
  }
  // Counts a request that rule `index` took.
  void count_rule(std::size_t index, std::uint64_t bytes) const noexcept {
    auto& counters = stats::local().nodes[rule_nodes_[index]];
    stats::add(counters.requests, 1);
    stats::add(counters.bytes_in, bytes);
  }
  void forget() noexcept;

  CUcontext const handle;
  int const device;
  std::size_t const device_slot = stats::device_slot(device);
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
    for (std::size_t i = 0; i < chains_.size(); ++i) {
      auto* made = chains_[i].load(std::memory_order_acquire);
      if (made != nullptr && homes_[i].kind != driver::memory_kind::host) visit(*made);
    }
  }

 private:
  resource::chain* make_chain(std::size_t number, chain_factory factory) noexcept;

  std::array<resource::habitat, max_chains> homes_;
  std::array<std::atomic<resource::chain*>, max_chains> chains_{};
  std::array<std::atomic<resource::suballocator*>, max_chains> quick_{};
  std::array<std::atomic<bool>, max_chains> made_{};
  std::vector<std::size_t> rule_nodes_;
  std::mutex mutex_;
};

// A green context is a part of a primary context: the same memory, and an event of the primary context covers
// its work. So requests in it are requests in the primary one.
struct green_context {
  CUcontext const handle;
  CUcontext const primary;
  std::atomic<bool> gone{false};
  green_context* next = nullptr;
};

class contexts {
 public:
  contexts(space::atlas& where, peers const& access) noexcept : where_(where), access_(access) {}

  void use(rule_set const* rules) noexcept { rules_ = rules; }

  context_entry* find(CUcontext context) const noexcept {
    for (auto* e = first_.load(std::memory_order_acquire); e != nullptr; e = e->next) {
      if (e->handle == context && !e->gone.load(std::memory_order_acquire)) return e;
    }
    green_context const* const green = find_green(context);
    return green != nullptr ? find(green->primary) : nullptr;
  }
  green_context* find_green(CUcontext context) const noexcept {
    for (auto* g = greens_.load(std::memory_order_acquire); g != nullptr; g = g->next) {
      if (g->handle == context && !g->gone.load(std::memory_order_acquire)) return g;
    }
    return nullptr;
  }
  void add_green(CUcontext context, CUcontext primary) noexcept;
  // Null when the device cannot be asked or memory is short.
  context_entry* find_or_make(CUcontext context) noexcept;
  // Of stream_order::one_stream, which holds no longer.
  void end_one_stream(char const* why) noexcept;

  template <typename Visit>
  void each(Visit visit) noexcept {
    for (auto* e = first_.load(std::memory_order_acquire); e != nullptr; e = e->next) {
      if (!e->gone.load(std::memory_order_acquire)) visit(*e);
    }
  }

 private:
  space::atlas& where_;
  peers const& access_;
  rule_set const* rules_ = nullptr;
  std::atomic<context_entry*> first_{nullptr};
  std::atomic<green_context*> greens_{nullptr};
  std::mutex mutex_;
};

}  // namespace gpumem::route
