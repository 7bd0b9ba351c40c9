// The contexts of this process as core knows them, each with its epochs, stream identities and chains, made
// at its first request. Found by handle without a lock. An entry is never destroyed, as others may be at it
// at any time. When its context has ended it waits for the next one of its device, whatever its handle: a
// program may make and end contexts for ever. Who had found it by its old handle must not take it for that.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "core/base/mutant.hpp"
#include "core/base/threads/mutex.hpp"
#include "core/driver/context_id.hpp"
#include "core/resource/chain.hpp"
#include "core/route/contexts/chain_factory.hpp"
#include "core/route/contexts/context_ending.hpp"
#include "core/route/contexts/peers.hpp"
#include "core/route/rules/rules.hpp"
#include "core/stream_order/epochs.hpp"
#include "core/stream_order/streams.hpp"

namespace gpumem::route {

// Name, id and size of a device for the report; at its first context or its first memory that is only seen.
void register_device(int device) noexcept;

// Asks the driver how much of the device is in use, and notes it for the ledger. Not while a stream captures.
// `here`: a context of the device, which the guard has made current.
bool look_at_use(stream_order::scoped_context const& here, int device) noexcept;
// Whether that was done for the first time in the hooked call that this thread is in, and what the process
// has taken since is all that the driver has: then it need not be asked again after the first growth. True
// once.
bool looked_first_in_this_call(int device) noexcept;

// What chains call of the route above; each as resource::chain_context says.
struct calls_of_chains {
  std::uint64_t (*relieve)(CUcontext context, resource::give_back_scope scope);
  void (*lost_to_pool)(space::block& b, space::handle h);
};

// One CUDA context: its epochs, streams and chains.
struct context_entry {
  context_entry(space::block_registry& where, peers const& access, CUcontext context, int device_number,
                rule_set const* rules, std::uint64_t order_of_making, calls_of_chains const& calls);

  // A route's chain, or one of rules; made on first use. Null: passthrough.
  resource::chain* chain_of(std::size_t number, chain_factory factory) noexcept {
    auto* const made = chains_[number].load(std::memory_order_acquire);
    return made != nullptr ? made : make_chain(number, factory);
  }
  // The same where it was made.
  resource::chain* made_chain(std::size_t number) const noexcept {
    return chains_[number].load(std::memory_order_acquire);
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
  // Zero: it lives. Else the serial of the context that the driver says has ended, though nobody has said so
  // yet.
  std::uint64_t ended_serial() const noexcept;
  // Once, whoever is first: its memory is nobody's any more. False: another thread did it, or by now it is
  // another context's than that of this serial.
  bool forget(std::uint64_t ended) noexcept;
  // After its end: serves another context of its device. In two steps, as only who makes it may see it
  // between them. Under the mutex of `contexts`.
  void begin_again(CUcontext context) noexcept;
  void begun(std::uint64_t order_of_making) noexcept;

  std::atomic<CUcontext> handle;
  std::atomic<std::uint64_t> serial;  // of all contexts that were met, from 1 on
  // What it is found by: the handle, while its context lives; else what is no handle.
  std::atomic<CUcontext> known_as;
  int const device;
  std::size_t const device_slot = stats::device_slot(device);
  stream_order::epochs order;
  stream_order::streams streams;
  std::atomic<bool> gone{false};
  std::atomic<bool> is_free{false};  // gone, and all that is to be done about it
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
  CUcontext no_handle() const noexcept {
    return reinterpret_cast<CUcontext>(const_cast<context_entry*>(this));
  }
  // Builds it, or the one of an earlier context begins again, once; null: that could not be, which was said,
  // or the context is gone.
  resource::chain* make_chain(std::size_t number, chain_factory factory) noexcept;

  std::array<resource::chain_context, max_chains> homes_;
  std::array<std::atomic<resource::chain*>, max_chains> chains_{};
  std::array<std::atomic<resource::suballocator*>, max_chains> quick_{};
  std::array<std::atomic<bool>, max_chains> made_{};
  std::array<resource::chain*, max_chains> kept_{};  // of an earlier context; under mutex_
  std::vector<std::size_t> rule_nodes_;
  base::mutex mutex_;  // of who makes a chain, or ends the context
};

// A green context is a part of a primary context: the same memory, and an event of the primary context covers
// its work. So requests in it are requests in the primary one.
struct green_context {
  driver::named_context const name;
  CUcontext const primary;
  std::atomic<bool> gone{false};
  std::atomic<int> endings{0};  // calls under way that may end it
  green_context* next = nullptr;

  // Meanwhile its handle may be another context's, of whatever kind and device, though nobody has said so.
  bool is_there() const noexcept {
    if (gone.load(std::memory_order_acquire)) return false;
    bool const may_end = endings.load(std::memory_order_acquire) > 0 && name.id != 0;
    return !may_end || GPUMEM_MUTANT(ended_green_found) || !driver::has_ended(name.handle, name.id);
  }
};

class contexts {
 public:
  // `changes` moves on when one is gone.
  contexts(space::block_registry& where, peers& access, std::atomic<std::uint64_t>& changes,
           calls_of_chains const& calls) noexcept
      : where_(where), access_(access), changes_(changes), calls_(calls) {}

  void use(rule_set const* rules) noexcept { rules_ = rules; }

  // The entry of this handle, or of the primary context of a green one; null: none yet. No lock.
  context_entry* find(CUcontext context) const noexcept {
    for (auto* e = first_.load(std::memory_order_acquire); e != nullptr; e = e->next) {
      if (e->known_as.load(std::memory_order_acquire) == context) return e;
    }
    green_context const* const green = find_green(context);
    return green != nullptr ? find(green->primary) : nullptr;
  }
  green_context* find_green(CUcontext context) const noexcept {
    return greens_.load(std::memory_order_acquire) != nullptr ? find_among_greens(context) : nullptr;
  }
  // A green context was made of this primary one.
  void add_green(CUcontext context, CUcontext primary) noexcept;
  void end_green(green_context& ended) noexcept;
  // Tells every chain that devices may touch other memory than before; the second where an ended context was
  // among those that do.
  void peers_changed() noexcept;
  void forget_peers_of(driver::named_context const& gone) noexcept;
  // The same, and sure to be the one that the handle names now: of one that may be ending the driver is
  // asked.
  context_entry* find_alive(CUcontext context) noexcept;
  context_entry* find_by(stream_order::epochs const& order) const noexcept {
    for (auto* e = first_.load(std::memory_order_acquire); e != nullptr; e = e->next) {
      if (&e->order == &order) return e;
    }
    return nullptr;
  }
  // Null when the device cannot be asked or memory is short; of a context that is not current here also while
  // a call may end it.
  context_entry* find_or_make(CUcontext context) noexcept;
  // Whether captures watch what threads do has changed: tells every context.
  void watch_captures() noexcept;
  // After the end of a capture, in whatever way; `watched`: it may have watched what threads do.
  void captures_over(bool watched = true) noexcept;

  // See context_ending. Until it is over nobody is served from the context without a question to the driver,
  // by an entry that is there or by one that is made meanwhile.
  void end_begins(context_ending& call) noexcept;
  // `ended`: those that were there when it began have; of others the driver is asked.
  void settle(context_ending const& call, bool ended) noexcept;
  // The call is over, whatever came of it.
  void end_over(context_ending const& call) noexcept;
  // The context of this serial has ended.
  void end(context_entry& gone, std::uint64_t serial) noexcept;
  // Of stream_order::one_stream, which holds no longer.
  void end_one_stream(char const* why) noexcept;

  // The chain of a resource; null: its context is gone.
  resource::chain* chain_of(resource::chain_context const& home) const noexcept {
    context_entry* const entry = find_by(home.epochs);
    return entry != nullptr && !entry->gone.load(std::memory_order_acquire) ? entry->made_chain(home.number)
                                                                            : nullptr;
  }

  template <typename Visit>
  void each(Visit visit) noexcept {
    for (auto* e = first_.load(std::memory_order_acquire); e != nullptr; e = e->next) {
      if (!e->gone.load(std::memory_order_acquire)) visit(*e);
    }
  }

 private:
  // Apart, as few programs have any, and each step of others would pay for its registers.
  green_context* find_among_greens(CUcontext context) const noexcept;
  // An entry that waits for a context of the device; null: none does.
  context_entry* find_free(int device) const noexcept;

  space::block_registry& where_;
  peers& access_;
  std::atomic<std::uint64_t>& changes_;
  calls_of_chains const calls_;
  rule_set const* rules_ = nullptr;
  std::atomic<context_entry*> first_{nullptr};
  std::atomic<green_context*> greens_{nullptr};
  base::mutex mutex_;
  std::uint64_t made_ GPUMEM_GUARDED_BY(mutex_) = 0;
  context_ending* endings_ GPUMEM_GUARDED_BY(mutex_) = nullptr;  // calls under way
  base::mutex watching_;                                         // what is told last is what is true
};

}  // namespace gpumem::route
