// Memory pools that the program made, in whose place chains serve where the configuration says so ([route]
// pools). Only plain pools of a device, whose memory nobody can tell from a chain's: no handle types, no
// usage flags, no maximum, no access by others. Each keeps the figures that it would tell of itself, and each
// block remembers its pool. One that is destroyed while blocks of it live is kept by the driver until they
// are freed, as natively: its handle would be the next one's (asked_rules pool_ended). Any thread; makes no
// driver call.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "core/base/threads/mutex.hpp"
#include "core/route/pool_figures.hpp"
#include "core/space/block_registry.hpp"
#include "core/space/blocks/side_table.hpp"

namespace gpumem::route {

class program_pools {
 public:
  // What is left of one that the program destroyed while blocks of it live: the driver is being told, or
  // keeps it.
  enum class left : std::uint8_t { nothing, ending, kept };
  // One pool. Its entry is another pool's when it is destroyed and all its blocks are freed.
  struct pool {
    std::atomic<CUmemoryPool> handle{nullptr};
    int device = -1;
    std::atomic<bool> serves{false};
    std::atomic<bool> tells{false};  // its figures are part of what the program is told
    std::atomic<left> remains{left::nothing};
    std::atomic<std::uint64_t> live{0};  // blocks
    pool_figures figures;
  };

  static bool is_plain(CUmemPoolProps const& properties) noexcept;

  // Of a plain one. Beyond the last entry pools are the driver's alone.
  void made(CUmemoryPool handle, int device) noexcept;
  // Opened to others: serves no more. Its blocks live on, and count.
  void withdraw(CUmemoryPool handle) noexcept;
  // It is to be destroyed: serves no more and tells nothing. Null: it told nothing. `ending` where a block
  // lives, until the driver has answered.
  pool* end(CUmemoryPool handle) noexcept;
  // The program has destroyed it, and the driver has it still.
  bool is_kept(CUmemoryPool handle) noexcept;
  // One that was kept and has no block any longer; null: none.
  CUmemoryPool take_kept() noexcept;
  // It was not destroyed after all.
  void restore(pool& entry, CUmemoryPool handle, bool serves) noexcept;
  // Null: no pool that is served; that tells.
  pool* find(CUmemoryPool handle) noexcept;
  pool* find_telling(CUmemoryPool handle) noexcept;

  // A block was handed out in the place of `from`; false: there is no room to remember it.
  bool took(pool& from, space::block& b, space::handle h) noexcept;
  // A block of a pool is freed.
  void gave(space::block& b, space::handle h, bool stream_ordered) noexcept;
  // It went with its context. What the pool says of itself stays: memory of the driver's pools outlives that.
  void lost(space::block& b, space::handle h) noexcept;
  // The pool of a block, also after its end; null: of none.
  CUmemoryPool of(space::block const& b, space::handle h) noexcept;

 private:
  static constexpr std::size_t most = 64;
  pool* pool_of(space::handle h) noexcept;

  base::mutex mutex_;  // of what makes entries and the table; reading needs it not
  std::array<pool, most> pools_{};
  std::atomic<std::size_t> made_{0};                        // entries in use, or used once
  std::optional<space::side_table<std::uint8_t>> entries_;  // by block: index of its pool
};

// For chain_context::lost_to_pool.
void lost_to_pool(space::block& b, space::handle h) noexcept;

}  // namespace gpumem::route
