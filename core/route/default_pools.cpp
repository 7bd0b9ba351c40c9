// See default_pools.hpp.
#include "core/route/default_pools.hpp"

#include <algorithm>

#include "core/base/mutant.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/driver/question.hpp"
#include "core/route/router_state.hpp"
#include "core/upstream/cuda_async.hpp"

namespace gpumem::route {

CUmemoryPool default_pool(int device) noexcept {
  CUmemoryPool pool = nullptr;
  auto const ask = driver::real.cuDeviceGetDefaultMemPool;
  return ask != nullptr && driver::asked(ask, &pool, device) == CUDA_SUCCESS ? pool : nullptr;
}

namespace {

constexpr int no_device = -1;

[[gnu::always_inline]] inline int find_default(router_state& s, CUmemoryPool pool) noexcept {
  auto const ask = driver::real.cuDeviceGetDefaultMemPool;
  int const end = ask != nullptr ? s.devices_end.load(std::memory_order_relaxed) : 0;
  for (int device = 0; device < end; ++device) {
    CUmemoryPool its = nullptr;
    CUresult const code = driver::asked(ask, &its, device);
    if (code == CUDA_ERROR_INVALID_DEVICE) s.devices_end.store(device, std::memory_order_relaxed);
    if (code != CUDA_SUCCESS) return no_device;
    if (its == pool) return device;
  }
  return no_device;
}

int device_of(space::block_registry& where, space::block const& b) noexcept {
  auto& owner = where.segments[b.segment].owner;
  space::segment_owner* const known = std::atomic_ref<space::segment_owner*>(owner).load();
  return known != nullptr ? static_cast<resource::resource*>(known)->home().device : -1;
}

// Blocks of the device that are live and do not count yet, but what is of a pool that the program made. One
// that is being freed counts for nobody. True: there were some.
bool count_live(int device) noexcept {
  auto& where = present->where;
  bool any = false;
  where.blocks.each([&](space::handle h) {
    space::block& b = where.blocks[h];
    auto const live = [&b] { return b.now.load() == space::state::live; };
    if (!live() || b.where == stream_order::no_slot || b.is(space::pooled | space::counted)) return;
    if (device_of(where, b) != device) return;
    any = true;
    count_taken(*present, device, b);
    if (!live()) count_given(*present, device, b, true);
  });
  return any;
}

// From now on requests count (answer_request_slow), and so does what is live already. What a thread was just
// being handed when it was asked for first is seen by a later look, at the next question: there is one until
// it finds nothing.
void begin_to_count(int device) noexcept {
  std::uint64_t const bit = std::uint64_t{1} << device;
  if ((present->looked_at_defaults.load(std::memory_order_relaxed) & bit) != 0) return;
  bool const is_first = (present->asked_defaults.fetch_or(bit) & bit) == 0;
  if (!is_first && (present->looked_at_defaults.fetch_or(bit) & bit) != 0) return;
  auto const tell = [device] {
    pool_use expected = pool_use::served;
    present->pool_uses[static_cast<std::size_t>(device)].compare_exchange_strong(expected, pool_use::counted);
  };
  if (is_first && !GPUMEM_MUTANT(looked_once)) tell();
  bool const found = count_live(device);
  if (!is_first && found) present->looked_at_defaults.fetch_and(~bit);
  if (!is_first || !GPUMEM_MUTANT(looked_once)) return;
  present->looked_at_defaults.fetch_or(bit);
  base::interleave_surely();
  tell();
}

std::uint64_t less(std::uint64_t from, std::uint64_t bytes) noexcept {
  return from > bytes ? from - bytes : 0;
}

}  // namespace

served_pool find_served(CUmemoryPool pool) noexcept {
  if (present == nullptr || pool == nullptr) return {};
  if (auto* const made = present->pools.find_telling(pool); made != nullptr)
    return {pool, &made->figures, made->device};
  int const device = find_default(*present, pool);
  if (device == no_device) return {};
  begin_to_count(device);
  return {pool, &present->figures[static_cast<std::size_t>(device)], device, true};
}

std::optional<int> device_of_default(CUmemoryPool pool) noexcept {
  int const device = present != nullptr ? find_default(*present, pool) : no_device;
  return device != no_device ? std::optional(device) : std::nullopt;
}

void tell_attribute(served_pool const& pool, CUmemPool_attribute attribute, void* value) noexcept {
  pool_figures& ours = *pool.figures;
  auto const ask = driver::real.cuMemPoolGetAttribute;
  if (ask == nullptr) return;
  cuuint64_t threshold = 0;
  if (ask(pool.handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == CUDA_SUCCESS)
    ours.synchronized(threshold);  // whether the program has is not asked
  // Segments of a chain that stands on this very pool are no blocks of the program's.
  std::uint64_t const segments = pool.is_default ? upstream::cuda_async::in_default_pool(pool.device) : 0;
  auto& told = *static_cast<cuuint64_t*>(value);
  auto const add = [&](std::uint64_t more) { told = less(told, segments) + more; };
  // The driver's part and ours have their highest at times of their own.
  auto const highest = [&](CUmemPool_attribute current, std::uint64_t now, std::uint64_t high) {
    cuuint64_t drivers = 0;
    if (ask(pool.handle, current, &drivers) != CUDA_SUCCESS) return add(high);
    std::uint64_t const together = less(drivers, segments) + now;
    told = GPUMEM_MUTANT(highest_added_up) ? less(told, segments) + high
                                           : std::max({less(told, segments), high, together});
  };
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT) add(ours.used());
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
    highest(CU_MEMPOOL_ATTR_USED_MEM_CURRENT, ours.used(), ours.used_high());
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) add(ours.reserved());
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
    highest(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, ours.reserved(), ours.reserved_high());
}

void attribute_set(served_pool const& pool, CUmemPool_attribute attribute) noexcept {
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) pool.figures->reset_used_high();
  if (attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) pool.figures->reset_reserved_high();
}

void trimmed(served_pool const& pool, std::uint64_t keep) noexcept {
  std::uint64_t reserved = stats::get(stats::gauges(pool.device).reserved);
  if (reserved > keep) {
    present->known.each([&](context_entry& e) {
      if (e.device == pool.device)
        e.each_device_chain([](resource::chain& c) { c.give_back(resource::give_back_scope::done); });
    });
  }
  pool.figures->trimmed(keep);
}

CUmemoryPool pool_of(CUdeviceptr block) noexcept {
  space::handle const h = present != nullptr ? live_block_at(*present, block) : space::none;
  if (h == space::none) return nullptr;
  space::block const& b = present->where.blocks[h];
  if (CUmemoryPool const made = present->pools.of(b, h); made != nullptr) return made;
  return is_of_default_pool(b) ? default_pool(device_of(present->where, b)) : nullptr;
}

CUcontext context_of(CUdeviceptr block, CUcontext real) noexcept {
  space::handle const h = present != nullptr ? live_block_at(*present, block) : space::none;
  if (h == space::none) return real;
  if (is_of_pool(present->where.blocks[h])) return nullptr;
  return real != nullptr ? real : resource::owner_of(present->where, h).home().context();
}

void count_taken(router_state& s, int device, space::block& b) noexcept {
  std::uint64_t const bytes = b.bytes() - b.rounding;
  if ((b.mark(space::counted) & space::counted) != 0) return;
  s.figures[static_cast<std::size_t>(device)].took(bytes);
}

void count_given(router_state& s, int device, space::block& b, bool stream_ordered) noexcept {
  std::uint64_t const bytes = b.bytes() - b.rounding;
  if ((b.unmark(space::counted) & space::counted) == 0) return;
  s.figures[static_cast<std::size_t>(device)].gave(bytes, stream_ordered || GPUMEM_MUTANT(used_by_any_free));
}

}  // namespace gpumem::route
