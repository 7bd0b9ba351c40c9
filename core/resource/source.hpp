// Where a resource gets its segments: an upstream (one pair of driver calls) or another resource below it
// in the chain. Called on slow paths, from any thread, never under a lock that a hit needs. A capture may
// be running: upstreams make their calls in relaxed mode.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/driver/error.hpp"
#include "core/resource/allocation_request.hpp"
#include "core/resource/give_back_scope.hpp"

namespace gpumem::resource {

class budget;

// One upstream allocation. Both ends are multiples of 512 bytes.
struct extent {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t token = 0;   // the source's own
  bool contextless = false;  // see space::segment
  bool done = false;         // on its way back: all work that used it is done
  // Of the context that had it, as its epochs count; from its end on the address is anybody's.
  std::uint32_t life = any_life;

  static constexpr std::uint32_t any_life = ~std::uint32_t{0};  // it goes with no context
};

// After which work memory is free that goes back.
struct release_order {
  CUstream stream = nullptr;  // its work so far; null: all work of the context
  bool may_wait = true;       // the call may wait for that, as cuMemFree does: not in a free in stream order
};

// What a source can do besides, when its memory comes by pages that are mapped where one wants them
// (upstream/vmm): a resource then has ranges of addresses, fills them with pieces, each of one or more pages,
// and gives back any pieces of them. A piece costs the same whatever its size, and goes only whole. Called as
// a source is. An extent from claim() goes back whole, by release() or lost() of the source, whatever is
// mapped in it. `life`: of the context whose pool asks, as its epochs count it, read where the pool was
// looked at: a context that ended since took the range with it, and its address may be the next one's.
class page_source {
 public:
  virtual std::uint64_t page() const noexcept = 0;  // bytes; all below are multiples of it
  // Addresses without memory, at least `bytes`. Throws driver::allocation_failed.
  virtual extent claim(std::uint64_t bytes) = 0;
  // Maps pieces of these sizes from `address` on, one behind the other, as many as the driver has; bytes
  // mapped, and the code if not all.
  virtual std::uint64_t map(std::uint64_t address, std::span<std::uint64_t const> pieces, std::uint32_t life,
                            CUresult& code) noexcept = 0;
  // True: the driver has less than that for certain.
  virtual bool lacks(std::uint64_t bytes) noexcept = 0;
  // Whole pieces that nothing uses any more. False: the driver refused, as it does in a callback; all is
  // still there.
  virtual bool unmap(std::uint64_t address, std::uint64_t bytes, std::uint32_t life) noexcept = 0;

 protected:
  ~page_source() = default;
};

// The interface of everything that gives segments.
class source {
 public:
  virtual ~source() = default;

  // Null: an extent goes back as it came.
  virtual page_source* pages() noexcept { return nullptr; }

  // `request.bytes` rounded up to 512 B at least. With a slot, the memory may be used by later work of that
  // stream only. Throws driver::allocation_failed with the driver's code.
  virtual extent reserve(allocation_request const& request) = 0;
  // Nothing may use the memory once the work before `order` is done.
  virtual void release(extent const& memory, release_order const& order) noexcept = 0;
  // The context of the memory is gone, and for most sources the memory with it: nothing uses it any more.
  // The caller's tables still have it: whoever is given the address meanwhile waits for them.
  virtual void lost(extent const&) noexcept {}
  // After the last lost(): drops what the source itself holds in the driver.
  virtual void forget() noexcept {}
  // After forget(): another context of the device is its own from now on.
  virtual void begin_again() {}
  // The program enabled or disabled access by other devices; chain_context::peers says which have it now.
  virtual void peers_changed() noexcept {}
  // Advice of the program's for this part of its memory was taken back: the source's own holds again.
  virtual void renew(std::uint64_t /*address*/, std::uint64_t /*bytes*/) noexcept {}
  // The program has waited for all work of the context.
  virtual void synchronized() noexcept {}
  // Bytes that were released, and wait for work that may use them before they go back.
  virtual std::uint64_t pending() noexcept { return 0; }
  // Gives back what the source itself holds for nobody; bytes given back.
  virtual std::uint64_t trim(give_back_scope) noexcept { return 0; }
  // Bytes that the driver has free, where these decide whether it serves a request; none: that is not known.
  virtual std::optional<std::uint64_t> free_at_driver() noexcept { return std::nullopt; }
  // Bytes until a limit; ~0: there is none.
  virtual std::uint64_t left_to_limit() const noexcept { return ~std::uint64_t{0}; }
  // A request for `more` was just refused: so would be one for `bytes`, which is less.
  virtual bool refuses_as_well(std::uint64_t /*bytes*/, std::uint64_t /*more*/) noexcept { return false; }
  // The driver would refuse so many bytes even once `back` more had come back to it.
  virtual bool is_hopeless(std::uint64_t /*bytes*/, std::uint64_t /*back*/) noexcept { return false; }
  // A request may give memory back that is done before it takes more, once the GPU has nothing to do.
  virtual bool takes_back_when_idle() const noexcept { return false; }
  // The same while the GPU is at work: it waits for none of it.
  virtual bool takes_back_at_once() const noexcept { return false; }
  // It refuses only once all that is idle on the device went back.
  virtual bool relieves() const noexcept { return false; }
  // Its segments are counted by this budget.
  virtual bool counts_in(budget const&) const noexcept { return false; }
};

}  // namespace gpumem::resource
