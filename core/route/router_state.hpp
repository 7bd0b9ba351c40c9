// The one state of this process's router, shared by the files of core/route, and the small steps of its hot
// path. Made by start(), never destroyed; a forked child leaves it behind.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "core/base/threads/interleave.hpp"
#include "core/route/contexts/contexts.hpp"
#include "core/route/contexts/peers.hpp"
#include "core/route/identities.hpp"
#include "core/route/pitches.hpp"
#include "core/route/pool_figures.hpp"
#include "core/route/program_pools.hpp"
#include "core/route/settings.hpp"
#include "core/space/block_registry.hpp"

namespace gpumem::route {

// What becomes of stream-ordered requests on a device.
enum class pool_use : std::uint8_t {
  served,   // by its chain
  counted,  // the same, and the program has asked what its default pool says
  drivers,  // the program set a memory pool of its own, or shared the default one
};

// The router's state: where blocks are, the contexts, and what the configuration chose.
struct router_state {
  space::block_registry where;
  peers access;
  // Moves on when a stream or a context comes or goes: what is remembered of their handles is then asked for
  // again.
  std::atomic<std::uint64_t> streams_changed{1};
  contexts known{where, access, streams_changed, {give_back, lost_to_pool}};
  chain_factory factory = nullptr;
  rule_set* rules = nullptr;                          // null: none, or none for requests that ask for no name
  rule_set* every_rule = nullptr;                     // null: none
  std::array<std::atomic<pool_use>, 64> pool_uses{};  // by device
  std::array<pool_figures, 64> figures{};             // by device, as far as they are counted
  // The first device that is not there: to ask about it takes the driver a microsecond, of one that is 30 ns
  // (H100).
  std::atomic<int> devices_end{64};
  std::array<std::atomic<bool>, stats::max_devices> limits_made{};  // all budgets of the device are there
  bool serves_pools = false;                                        // [route] pools
  bool builds_ahead = false;                                        // see start()
  program_pools pools;
  std::array<std::atomic<CUmemoryPool>, 64>
      defaults{};  // by device, once a request has named it; never another
  std::array<std::atomic<CUmemoryPool>, 64> chosen{};  // by device, what the program set as its current pool
  std::atomic<std::uint64_t> shared_defaults{0};  // bit d: the default pool of device d is other devices' too
  std::atomic<std::uint64_t> asked_defaults{0};   // bit d: its figures were asked for, and are counted since
  std::atomic<std::uint64_t> looked_at_defaults{0};  // bit d: and no block is left that was missed then
  std::array<std::atomic<int>, stats::max_devices> giving_back{};  // threads in give_back_on
  pitches rows_known;
  settings set;

  identities numbers;

  pool_use pool_use_of(int device) const noexcept {
    return static_cast<std::size_t>(device) < pool_uses.size()
               ? pool_uses[static_cast<std::size_t>(device)].load(std::memory_order_relaxed)
               : pool_use::served;
  }
  bool is_shared(std::size_t device) const noexcept { return has(shared_defaults, device); }
  bool is_asked(std::size_t device) const noexcept { return has(asked_defaults, device); }

 private:
  static bool has(std::atomic<std::uint64_t> const& devices, std::size_t device) noexcept {
    return device < 64 && (devices.load() >> device & 1) != 0;
  }
};

extern router_state* present;

// Where a stream belongs: its context, and its slot there. `entry` null: the driver must answer.
struct stream_place {
  enum class kind : std::uint8_t {
    usual,
    capturing,    // its allocations and frees are graph nodes of the driver's
    without_slot  // all are taken, or the driver cannot name it: before 12.0, or the legacy one beside a
                  // capture
  };
  context_entry* entry = nullptr;
  stream_order::slot slot = stream_order::no_slot;
  kind is = kind::usual;

  bool capturing() const noexcept { return is == kind::capturing; }
};

// What each thread remembers, until a stream or a context comes or goes: the context it used last, and a few
// streams, the last ones first: which are found fast does not depend on their handles. The driver is asked
// only once for each: its answers take a lock of its own, which 16 threads would meet at.
class route_memo {
 public:
  context_entry* find(CUcontext context, std::uint64_t now) const noexcept {
    return since_ == now ? remembered(context) : nullptr;
  }
  // The same whatever has changed since: for who asks is_of() afterwards, once the context was found well.
  context_entry* remembered(CUcontext context) const noexcept {
    return context_ == context ? entry_ : nullptr;
  }
  // No stream and no context came or went since it was found. Asked last: an entry that is well by now may be
  // so for another context.
  bool is_of(std::uint64_t now) const noexcept { return since_ == now; }
  void keep(CUcontext context, context_entry* entry, std::uint64_t now) noexcept {
    renew(now);
    context_ = context;
    entry_ = entry;
  }

  stream_place find(CUstream stream, CUcontext current, std::uint64_t now) noexcept {
    if (since_ != now) return {};
    for (std::size_t const i : {0, 1}) {
      stream_line const& line = streams_[i];
      if (line.stream == stream && line.current == current) return line.place();
    }
    return find_elsewhere(stream, current);
  }
  // Forgets all when a stream or a context came or went since.
  void renew(std::uint64_t now) noexcept {
    if (since_ == now) return;
    *this = {};
    since_ = now;
  }
  void keep(CUstream stream, CUcontext current, stream_place const& place, std::uint64_t now) noexcept {
    renew(now);
    std::move_backward(streams_.begin(), streams_.end() - 1, streams_.end());
    streams_[0] = {stream, current, packed(place)};
  }

 private:
  // An address has 48 bits at most where this runs: the slot lies above it.
  static std::uint64_t packed(stream_place const& place) noexcept {
    return reinterpret_cast<std::uint64_t>(place.entry) | std::uint64_t{place.slot} << 48;
  }
  // One stream with its place.
  struct stream_line {
    CUstream stream = nullptr;
    CUcontext current = nullptr;
    std::uint64_t packed_place = 0;  // 0: unused

    stream_place place() const noexcept {
      return {reinterpret_cast<context_entry*>(packed_place << 16 >> 16),
              static_cast<stream_order::slot>(packed_place >> 48)};
    }
  };

  // Behind the first two; it comes to the front.
  [[gnu::noinline]] stream_place find_elsewhere(CUstream stream, CUcontext current) noexcept {
    for (stream_line& line : streams_) {
      if (line.stream != stream || line.current != current) continue;
      std::swap(streams_[0], streams_[1]);
      std::swap(streams_[0], line);
      return streams_[0].place();
    }
    return {};
  }
  std::uint64_t since_ = 0;
  CUcontext context_ = nullptr;
  context_entry* entry_ = nullptr;
  std::array<stream_line, 6> streams_{};  // static TLS, of which there is little
};
inline constinit thread_local route_memo memo;

// Null when the device cannot be asked or memory is short.
context_entry* look_up(router_state& s, CUcontext context) noexcept;
inline context_entry* entry_of(router_state& s, CUcontext context) noexcept {
  auto* const known = memo.find(context, s.streams_changed.load(std::memory_order_acquire));
  return known != nullptr ? known : look_up(s, context);
}
// The same, to be asked about (route_memo::is_of).
inline context_entry* remembered_entry_of(router_state& s, CUcontext context) noexcept {
  auto* const known = memo.remembered(context);
  return known != nullptr ? known : look_up(s, context);
}

// A stream that captures, or belongs to a capture by a dependency.
bool captures(CUstream stream) noexcept;
stream_place look_up(router_state& s, CUstream stream, CUcontext current) noexcept;
// `current` names the context of a default stream, and is null with any other.
inline stream_place place_of(router_state& s, CUstream stream, CUcontext current) noexcept {
  stream_place place = memo.find(stream, current, s.streams_changed.load(std::memory_order_acquire));
  if (place.entry == nullptr) return look_up(s, stream, current);
  base::interleave();
  if (place.entry->order.capturing() && captures(stream)) place.is = stream_place::kind::capturing;
  return place;
}

// Whose an address is that a block of this context had, while a call runs that may end the context and give
// the address to others before it returns. `untold`: the driver cannot be asked (in a host function); its
// answer to a free, a refusal for the caller's sake, is the program's as it is. `not_found_out`: it was asked
// and could not say; what it would do with the address is not known.
enum class whose { ours, others, untold, not_found_out };
whose ask_whose(resource::chain_context const& home, CUdeviceptr address) noexcept;
inline bool ask_whether_of_others(resource::chain_context const& home, CUdeviceptr address) noexcept {
  return home.epochs.ending() && ask_whose(home, address) == whose::others;
}

// The live block that begins there, or `none`: asked of the map.
space::handle live_block_at(router_state& s, CUdeviceptr address) noexcept;

// The live block that contains the address, and its owner; `none`: there is none, or the address is in no
// part of it that the program asked for.
space::handle block_around(router_state& s, CUdeviceptr address, resource::resource*& owner) noexcept;

// Of an address that is no live block's: whether it lies in a segment, whose base the driver would take for
// an allocation of the program's.
bool ask_unknown_free(router_state& s, CUdeviceptr address) noexcept;

// See give_back in router.hpp.
std::uint64_t give_back_on(int device, resource::give_back_scope scope) noexcept;

// Takes down the ledger of the device now.
void take_down(int device) noexcept;
// The same where this thread has requested more than it has leave for; and after reserved memory changed,
// which also asks how much the device holds in all.
void settle(context_entry& entry) noexcept;

}  // namespace gpumem::route
