// What the program asks about memory pools: a device's default pool, from which it takes by cuMemAllocAsync,
// and pools that it made (program_pools). Where chains serve in their place an answer is the driver's for
// what the driver serves, plus pool_figures for the rest. Called by the hooks of cuMemPool functions, after
// the driver succeeded; any thread.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "core/driver/request.hpp"
#include "core/route/pool_figures.hpp"
#include "core/route/program_pools.hpp"
#include "core/route/router.hpp"
#include "core/space/blocks/block.hpp"
#include "core/stream_order/streams.hpp"

namespace gpumem::route {

struct router_state;

// A pool in whose place chains serve: a device's default pool, or one that the program made.
struct served_pool {
  CUmemoryPool handle = nullptr;
  pool_figures* figures = nullptr;  // null: chains do not serve in its place
  int device = -1;
  bool is_default = false;
};
served_pool find_served(CUmemoryPool pool) noexcept;
// Null: the device has none.
CUmemoryPool default_pool(int device) noexcept;
// The device whose default pool it is; none: no device's.
std::optional<int> device_of_default(CUmemoryPool pool) noexcept;

// The driver's answer in `value`, for the four figures of bytes: ours is added.
void tell_attribute(served_pool const& pool, CUmemPool_attribute attribute, void* value) noexcept;
void attribute_set(served_pool const& pool, CUmemPool_attribute attribute) noexcept;
// Gives idle memory of the device's chains back, unless they hold no more than `keep`.
void trimmed(served_pool const& pool, std::uint64_t keep) noexcept;

// After the program made a pool.
void pool_made(CUmemoryPool pool, CUmemPoolProps const& properties) noexcept;
// What a pool was that is to be destroyed.
struct pool_ending {
  program_pools::pool* told = nullptr;  // null: its figures were the driver's alone
  bool served = false;
  std::uint64_t current_on = 0;  // bit d: of device d
};
// Before the call, after which the handle may be another pool's; and where the driver refused.
pool_ending pool_ends(CUmemoryPool pool) noexcept;
void pool_survived(CUmemoryPool pool, pool_ending const& was) noexcept;
// Of one of which a block lives, in the place of the driver's call: the driver's answer, and the pool is
// destroyed once none does (program_pools). None: the driver is to destroy it.
std::optional<CUresult> keep_ended(CUmemoryPool pool, pool_ending const& was) noexcept;
// After the program made or destroyed a pool, which the driver takes where it takes this: those of which no
// block lives any longer.
void destroy_kept() noexcept;
// cuMemAllocFromPoolAsync, of a stream-ordered request; pass: the driver must answer.
outcome allocate_from_pool(CUmemoryPool pool, driver::request const& request, CUdeviceptr* result) noexcept;

// The pool that the driver would name for this block; null: none.
CUmemoryPool pool_of(CUdeviceptr block) noexcept;
// What the driver would say: no context owns memory of a pool, and all other memory has one. `real`: the
// driver's answer for the segment.
CUcontext context_of(CUdeviceptr block, CUcontext real) noexcept;
// Whether the live block is memory of the default pool, and of some pool, to the program.
inline bool is_of_default_pool(space::block const& b) noexcept {
  return b.where != stream_order::no_slot || b.is(space::counted);
}
inline bool is_of_pool(space::block const& b) noexcept {
  return is_of_default_pool(b) || b.is(space::pooled);
}

// On the way of a request and of a free, once anybody has asked: see pool_figures.
void count_taken(router_state& s, int device, space::block& b) noexcept;
void count_given(router_state& s, int device, space::block& b, bool stream_ordered) noexcept;
}  // namespace gpumem::route
