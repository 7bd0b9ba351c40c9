// Where a resource gets its segments: an upstream (one driver call pair) or another resource below it in the
// chain. Called on slow paths, never under a lock that a hit needs, from any thread. A capture may be
// running: upstreams make their calls in relaxed mode.
#pragma once

#include <cstdint>

#include "core/driver/error.hpp"
#include "core/resource/demand.hpp"

namespace gpumem::resource {

// One upstream allocation. Both ends are multiples of 512 bytes.
struct extent {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::uint64_t token = 0;  // the source's own
};

class source {
 public:
  virtual ~source() = default;

  // `wish.bytes` rounded up to 512 B at least. With a slot, the memory may be used by later work of that
  // stream only. Throws driver::allocation_failed with the driver's code.
  virtual extent reserve(demand const& wish) = 0;
  // Nothing may use the memory any more, unless `order` names the stream after whose work it is free.
  virtual void release(extent const& memory, CUstream order) noexcept = 0;
  // The context of the memory is gone, and for most sources the memory with it: nothing uses it any more.
  virtual void lost(extent const&) noexcept {}
  // After the last lost(): drops what the source itself holds in the driver.
  virtual void forget() noexcept {}
  // The program enabled or disabled access by other devices; habitat::peers says which have it now.
  virtual void peers_changed() noexcept {}
  // Gives back what the source itself holds for nobody; bytes given back.
  virtual std::uint64_t trim() noexcept { return 0; }
};

}  // namespace gpumem::resource
