// What every resource of a chain does: serve blocks and take them back. Called by the router (the top of a
// chain) or by the resource above, from any thread, with no lock held. allocate throws
// driver::allocation_failed and nothing else; the others never throw. A resource is never destroyed: it
// forgets all when its context goes, and may serve another one then.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/base/mutant.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/driver/request.hpp"
#include "core/resource/allocation_request.hpp"
#include "core/resource/give_back_scope.hpp"
#include "core/space/block_registry.hpp"
#include "core/stats/page/counters.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/stream_order/epochs.hpp"
#include "core/stream_order/streams.hpp"

namespace gpumem::resource {

class chain;
class budget;
class in_hand;
class suballocator;

// What all resources of one chain share.
struct chain_context {
  space::block_registry& where;
  stream_order::epochs& epochs;
  int device;
  driver::memory_kind kind;
  // Gives back empty segments of every chain of this context; null: only of the resource that asks.
  std::uint64_t (*relieve)(CUcontext context, give_back_scope scope) = nullptr;
  // Bit d: device d may touch this device's memory, as the program enabled it; null: none ever.
  std::atomic<std::uint64_t> const* peers = nullptr;
  // Which chain of its context: the route of its kind, or one that only rules name.
  std::size_t number = 0;
  // Of this context; null: they are not known by their handles.
  stream_order::streams* streams = nullptr;
  // Hears of a block of a pool that the program made, which went with the context; null: there are none.
  void (*lost_to_pool)(space::block& b, space::handle h) = nullptr;
  // Where this device's counters lie in a shard.
  std::size_t device_slot = stats::device_slot(device);

  // Another one after the end of the first (begin_again).
  CUcontext context() const noexcept { return epochs.context(); }
};

// A free by the program that was refused: nothing of ours that is live begins at `address`.
struct refused_free {
  std::uint64_t address = 0;
  space::handle inside = space::none;  // the live block that holds the address
  void const* caller = nullptr;
  bool if_known = true;  // to be reported by who knows what the address was; without, by whoever is asked
};

// Bytes a resource holds that the program does not.
struct idle_usage {
  std::uint64_t idle = 0;  // could serve a request: done or not
  // Freed, and not known to be done: a part of `idle`, or held by a source.
  std::uint64_t pending = 0;
  std::uint64_t largest = 0;  // the largest run of it
};

// When memory that is due may go back.
struct moment {
  std::uint64_t now = 0;   // nanoseconds
  bool in_a_free = false;  // a free without a stream, which natively waits for the GPU
  bool at_pace = false;    // that has just waited, as frees keep the GPU's pace
};

// See above; the functions that do nothing here are for those that need them.
class resource : public space::segment_owner {
 public:
  resource(chain_context const& home, std::size_t node) noexcept : home_(home), node_(node) {}
  virtual ~resource() = default;
  resource(resource const&) = delete;

  // A live block of at least `request.bytes`, known to the block map; never `none`.
  virtual space::handle allocate(allocation_request const& request) = 0;
  // `h`, a block of this resource's own segments, is cached (taken from the program); `order`: see
  // allocation_request.hpp. What owns no segments is never asked.
  virtual void deallocate(space::handle h, free_order const& order) noexcept;
  // A block that this resource, or one below it, handed out was freed by the program; called before its owner
  // gets it back, from the owner upwards. The block still has its size, rounding and stream.
  virtual void freed(space::handle h, free_order const& order) noexcept;
  // One below is about to write over such a block, before this one hears that it was freed.
  virtual void before_overwrite(space::handle, free_order const&) noexcept {}
  // It fills what lies behind the bytes that it is asked for.
  virtual bool has_zones() const noexcept { return false; }

  // The same of a block whose size has not come back before (space::unproven), freed where memory may go
  // back.
  virtual void deallocate_unproven(space::handle h, free_order const& order) noexcept {
    deallocate(h, order);
  }
  // The same of a block that another process may have open: it serves nobody until its segment goes back to
  // the driver, which keeps it for the other process.
  virtual void withhold(space::handle, free_order const&) noexcept {}
  // An address of one of its own segments is in memory that another process may open.
  virtual void exported(std::uint64_t) noexcept {}

  // For those that report faults of the program; true: reported. Any chain may be asked about any address.
  virtual bool refused(refused_free const&) noexcept { return false; }
  // The program has waited for all work of the context.
  virtual void synchronized() noexcept {}

  // The block of `in` that holds `address`, live or not; none where that segment, found without a lock, is
  // none of this resource's by now.
  virtual space::handle block_at(space::segment const&, std::uint64_t) noexcept { return space::none; }

  // What it holds and the program does not.
  virtual idle_usage measure() noexcept { return {}; }
  // The idle bytes of that alone, without a look at each block.
  virtual std::uint64_t idle() noexcept { return measure().idle; }
  // Its free blocks by size, for a refusal; others may use it meanwhile.
  virtual void count_free(stats::free_blocks&) noexcept {}
  // What it holds is counted by this budget, idle or not.
  virtual bool counts_in(budget const&) const noexcept { return false; }
  // Gives every empty segment to its source; bytes given back.
  virtual std::uint64_t give_back(give_back_scope) noexcept { return 0; }
  // Inside a call of the program's that natively frees or waits: gives back what is due by now (going_back).
  virtual void give_back_due(moment const&) noexcept {}
  // The stream of this slot was destroyed: what was freed on it waits for its epoch.
  virtual void stream_gone(stream_order::slot) noexcept {}
  // The context of a block that this resource, or one below it, handed out took it along: it counts as given
  // back with those that count what they hand out. Told by the owner, from forget().
  virtual void lost(space::handle) noexcept {}
  // The context is gone and all memory with it: forget every segment, make no driver call.
  virtual void forget() noexcept {}
  // After forget(): another context of the device is its own from now on. As when it was made, what it has
  // learned of the program's sizes apart. Throws driver::allocation_failed where it reserves memory.
  virtual void begin_again() {}

  chain_context const& home() const noexcept { return home_; }
  // Itself where it is a suballocator, whose hits need no virtual call; else null.
  suballocator* quick() const noexcept { return quick_; }

  // The resource that hands out this one's blocks, null for the top; set once, before the first request.
  resource* parent() const noexcept { return parent_; }
  // The same for one block, where several stand on this one.
  resource* parent(space::handle h) const noexcept { return forks_ ? way_up(h) : parent_; }
  void set_parent(resource& parent) noexcept { parent_ = &parent; }

 protected:
  space::block_table& blocks() noexcept { return home_.where.blocks; }
  // The block of the segment that holds the address, found block by block.
  space::handle walk_to(space::segment const& in, std::uint64_t address) noexcept;
  // This thread's counters of this node, and of its device.
  stats::node_counters& count() noexcept { return stats::local().nodes[node_]; }
  stats::device_counters& count_device() noexcept { return stats::local().devices[home_.device_slot]; }
  // A block that this node counted when it handed it out.
  void count_back(space::handle h, free_order const& order = {}) noexcept {
    stats::add(count().bytes_out, bytes_of(h, order));
  }
  std::uint64_t bytes_of(space::handle h, free_order const& order) noexcept {
    return order.bytes != 0 ? order.bytes : blocks()[h].bytes();
  }

  // The parent of one block, for those that have several.
  virtual resource* way_up(space::handle) const noexcept { return parent_; }

  chain_context const home_;  // a copy: one step less on the way to everything
  std::size_t const node_;
  bool forks_ = false;  // way_up decides
  suballocator* quick_ = nullptr;

 private:
  resource* parent_ = nullptr;
};

// The resource that made a segment, or the segment of a block.
inline resource& owner_of(space::segment const& s) noexcept {
  auto& owner = const_cast<space::segment&>(s).owner;  // atomic_ref takes no const in C++20
  return *static_cast<resource*>(
      std::atomic_ref<space::segment_owner*>(owner).load(std::memory_order_acquire));
}
inline resource& owner_of(space::segment_table::place const& p) noexcept {
  return *static_cast<resource*>(p.owner);
}
inline resource& owner_of(space::block_registry& where, space::handle h) noexcept {
  return owner_of(where.segments[where.blocks[h].segment]);
}

// A free of the program's: what the block passed through hears of it, up to but not including `until`.
inline void tell_parents(resource const& owner, space::handle h, free_order const& order,
                         resource const* until = nullptr) noexcept {
  // As long as the end of a context takes.
  for (int i = 0; GPUMEM_MUTANT(freed_is_lost_as_well) && i < 20; ++i) base::interleave_surely();
  for (resource* r = owner.parent(h); r != until && r != nullptr; r = r->parent(h)) r->freed(h, order);
}
// The same, and then its owner has the block back.
[[gnu::always_inline]] inline void take_back(resource& owner, space::handle h, free_order const& order,
                                             resource const* until = nullptr) noexcept {
  if (owner.parent() != nullptr) tell_parents(owner, h, order, until);
  owner.deallocate(h, order);
}
// The same of a block that the program never saw, of a request that was served in that life of the context.
inline void give_back_unseen(chain_context const& home, space::handle h, allocation_request const& request,
                             std::uint32_t life, resource const* until) noexcept {
  auto expected = space::state::live;
  space::block& b = home.where.blocks[h];
  std::uint64_t const bytes = b.bytes();
  // Else the context took it along, and said so to all.
  if (!b.now.compare_exchange_strong(expected, space::state::cached)) return;
  take_back(owner_of(home.where, h), h,
            {.slot = request.slot, .stream = request.stream, .life = life, .bytes = bytes}, until);
}

// Set when this thread changed what is reserved from the driver, so that the router takes the ledger down
// after counting its next request.
inline thread_local bool reserved_changed = false;
// Notes the device's ledger after reserved memory changed.
void note_change(int device) noexcept;

// New memory where a segment of another context lies: the driver has ended that context and is about to say
// so. Returns once its blocks are forgotten, and nobody but `mine`, which may be null, has it in hand; or
// after a second. False: a free of these addresses was on its way to the driver, and may have
// taken the memory (passing_free).
bool wait_for_address_reuse(chain_context const& home, std::uint64_t base, std::uint64_t bytes,
                            in_hand const* mine = nullptr) noexcept;

// What a context takes along: each live block of a segment is out of the ledger, of its owner and of all
// above.
void lose_blocks(resource& owner, space::segment const& in) noexcept;

// Where reserved memory lies: managed memory, and the host's, need not be on the device.
enum class lies : std::uint8_t { on_device, anywhere };

// Counts `bytes` as reserved from, or given back to, the driver.
void note_reserved(chain_context const& home, std::uint64_t address, std::uint64_t bytes,
                   lies where = lies::on_device) noexcept;
void note_released(int device, std::uint64_t bytes, lies where) noexcept;
// It was noted as released, and the driver did not take it.
void note_kept(int device, std::uint64_t bytes, lies where) noexcept;

}  // namespace gpumem::resource
