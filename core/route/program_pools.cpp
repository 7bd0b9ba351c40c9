// See program_pools.hpp; and the requests that it answers, in default_pools.hpp.
#include "core/route/program_pools.hpp"

#include <algorithm>

#include "core/base/mutant.hpp"
#include "core/driver/question.hpp"
#include "core/route/default_pools.hpp"
#include "core/route/router.hpp"
#include "core/route/router_state.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::route {

bool program_pools::is_plain(CUmemPoolProps const& p) noexcept {
  return p.allocType == CU_MEM_ALLOCATION_TYPE_PINNED && p.handleTypes == CU_MEM_HANDLE_TYPE_NONE &&
         p.location.type == CU_MEM_LOCATION_TYPE_DEVICE && p.win32SecurityAttributes == nullptr &&
         p.maxSize == 0 && p.usage == 0;
}

void program_pools::made(CUmemoryPool handle, int device) noexcept {
  base::lock_guard const lock(mutex_);
  if (!entries_) entries_.emplace();
  std::size_t const used = made_.load(std::memory_order_relaxed);
  std::size_t at = 0;
  auto const is_free = [](pool const& p) {
    return !p.tells.load() && p.remains.load() == left::nothing && p.live.load() == 0;
  };
  while (at < used && !is_free(pools_[at])) ++at;
  if (at == most) return;
  pool& entry = pools_[at];
  entry.device = device;
  entry.figures.renew();
  entry.handle.store(handle, std::memory_order_release);
  entry.serves.store(true, std::memory_order_release);
  entry.tells.store(true, std::memory_order_release);
  if (at == used) made_.store(used + 1, std::memory_order_release);
}

void program_pools::withdraw(CUmemoryPool handle) noexcept {
  base::lock_guard const lock(mutex_);
  if (pool* const found = find(handle); found != nullptr) found->serves.store(false);
}

program_pools::pool* program_pools::end(CUmemoryPool handle) noexcept {
  base::lock_guard const lock(mutex_);
  pool* const found = find_telling(handle);
  if (found == nullptr) return nullptr;
  found->serves.store(false);
  found->tells.store(false);
  bool const lives = found->live.load() != 0 && !GPUMEM_MUTANT(ended_pool_goes);
  found->remains.store(lives ? left::ending : left::nothing);
  return found;
}

bool program_pools::is_kept(CUmemoryPool handle) noexcept {
  base::lock_guard const lock(mutex_);
  std::size_t const used = made_.load(std::memory_order_relaxed);
  return std::any_of(pools_.begin(), pools_.begin() + static_cast<std::ptrdiff_t>(used), [&](pool const& p) {
    return p.remains.load() != left::nothing && p.handle.load() == handle;
  });
}

CUmemoryPool program_pools::take_kept() noexcept {
  base::lock_guard const lock(mutex_);
  std::size_t const used = made_.load(std::memory_order_relaxed);
  for (std::size_t at = 0; at < used; ++at) {
    pool& each = pools_[at];
    if (each.remains.load() != left::kept || each.live.load() != 0) continue;
    each.remains.store(left::nothing);  // before the call, after which the handle may be another pool's
    return each.handle.load();
  }
  return nullptr;
}

void program_pools::restore(pool& entry, CUmemoryPool handle, bool serves) noexcept {
  base::lock_guard const lock(mutex_);
  if (entry.tells.load() || entry.handle.load() != handle) return;  // another pool's by now
  entry.remains.store(left::nothing);
  entry.tells.store(true, std::memory_order_release);
  entry.serves.store(serves, std::memory_order_release);
}

program_pools::pool* program_pools::find(CUmemoryPool handle) noexcept {
  pool* const found = find_telling(handle);
  return found != nullptr && found->serves.load(std::memory_order_acquire) ? found : nullptr;
}

program_pools::pool* program_pools::find_telling(CUmemoryPool handle) noexcept {
  std::size_t const used = made_.load(std::memory_order_acquire);
  for (std::size_t at = 0; at < used; ++at) {
    pool& each = pools_[at];
    if (each.tells.load(std::memory_order_acquire) && each.handle.load() == handle) return &each;
  }
  return nullptr;
}

bool program_pools::took(pool& from, space::block& b, space::handle h) noexcept {
  std::uint8_t* const entry = entries_->make(h);
  if (entry == nullptr) return false;
  *entry = static_cast<std::uint8_t>(&from - pools_.data());
  from.live.fetch_add(1);
  b.mark(space::pooled);
  from.figures.took(b.bytes() - b.rounding);
  return true;
}

program_pools::pool* program_pools::pool_of(space::handle h) noexcept {
  std::uint8_t const* const entry = entries_->find(h);
  return entry != nullptr ? &pools_[*entry] : nullptr;
}

void program_pools::gave(space::block& b, space::handle h, bool stream_ordered) noexcept {
  pool* const from = pool_of(h);
  if ((b.unmark(space::pooled) & space::pooled) == 0 || from == nullptr) return;
  from->figures.gave(b.bytes() - b.rounding, stream_ordered);
  from->live.fetch_sub(1);
}

void program_pools::lost(space::block& b, space::handle h) noexcept {
  pool* const from = pool_of(h);
  if ((b.unmark(space::pooled) & space::pooled) != 0 && from != nullptr) from->live.fetch_sub(1);
}

CUmemoryPool program_pools::of(space::block const& b, space::handle h) noexcept {
  pool* const from = b.is(space::pooled) ? pool_of(h) : nullptr;
  return from != nullptr ? from->handle.load() : nullptr;
}

void lost_to_pool(space::block& b, space::handle h) noexcept {
  if (present != nullptr) present->pools.lost(b, h);
}

void pool_made(CUmemoryPool pool, CUmemPoolProps const& properties) noexcept {
  if (present == nullptr || !present->serves_pools || !program_pools::is_plain(properties)) return;
  present->pools.made(pool, properties.location.id);
}

pool_ending pool_ends(CUmemoryPool pool) noexcept {
  pool_ending was;
  if (present == nullptr || pool == nullptr) return was;
  if (auto const* const found = present->pools.find_telling(pool); found != nullptr)
    was.served = found->serves;
  was.told = present->pools.end(pool);
  // The driver goes on with the default pool.
  for (std::size_t device = 0; device < present->chosen.size(); ++device) {
    if (present->chosen[device].load(std::memory_order_relaxed) != pool) continue;
    was.current_on |= std::uint64_t{1} << device;
    pool_chosen(static_cast<int>(device), default_pool(static_cast<int>(device)));
  }
  return was;
}

std::optional<CUresult> keep_ended(CUmemoryPool pool, pool_ending const& was) noexcept {
  auto const& real = driver::real;
  using left = program_pools::left;
  if (present != nullptr && was.told == nullptr && present->pools.is_kept(pool))
    return CUDA_ERROR_INVALID_VALUE;
  if (was.told == nullptr || was.told->remains.load() != left::ending) return std::nullopt;
  if (real.cuMemPoolSetAttribute == nullptr || real.cuDeviceSetMemPool == nullptr) {
    was.told->remains.store(left::nothing);
    return std::nullopt;
  }
  // Which the driver refuses as it refuses to destroy one, beside a capture as well.
  cuuint64_t nothing = 0;
  CUresult const code = real.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &nothing);
  if (code != CUDA_SUCCESS) return code;
  stream_order::relaxed_mode const relaxed(true);  // no capture that begins now
  for (int device = 0; device < 64; ++device) {
    if ((was.current_on >> device & 1) != 0) real.cuDeviceSetMemPool(device, default_pool(device));
  }
  was.told->remains.store(left::kept);  // from now on any thread's call may have it destroyed
  return code;
}

void destroy_kept() noexcept {
  if (present == nullptr || !present->serves_pools) return;
  stream_order::relaxed_mode const relaxed(true);  // no capture that begins now
  while (CUmemoryPool const gone = present->pools.take_kept()) driver::real.cuMemPoolDestroy(gone);
}

void pool_survived(CUmemoryPool pool, pool_ending const& was) noexcept {
  if (present == nullptr) return;
  if (was.told != nullptr) present->pools.restore(*was.told, pool, was.served);
  for (std::size_t device = 0; device < present->chosen.size(); ++device) {
    if ((was.current_on >> device & 1) != 0) pool_chosen(static_cast<int>(device), pool);
  }
}

namespace {

// The device whose default pool it is, in whose place its chain serves; none: another pool. Named by its
// handle it is the pool that cuMemAllocAsync takes from, whichever is current. Were its requests the
// driver's, two pools would grow by steps of their own in the place of one.
std::optional<int> device_of_served_default(router_state& s, CUmemoryPool pool) noexcept {
  auto const ask = driver::real.cuDeviceGetDefaultMemPool;
  if (ask == nullptr || GPUMEM_MUTANT(two_default_pools)) return std::nullopt;
  auto const end = static_cast<std::size_t>(s.devices_end.load(std::memory_order_relaxed));
  for (std::size_t device = 0; device < std::min(end, s.defaults.size()); ++device) {
    CUmemoryPool its = s.defaults[device].load(std::memory_order_relaxed);
    if (its == nullptr) {
      CUresult const code = driver::asked(ask, &its, static_cast<int>(device));
      if (code == CUDA_ERROR_INVALID_DEVICE) s.devices_end.store(static_cast<int>(device));
      if (code != CUDA_SUCCESS) return std::nullopt;
      s.defaults[device].store(its, std::memory_order_relaxed);
    }
    if (its == pool) return s.is_shared(device) ? std::nullopt : std::optional(static_cast<int>(device));
  }
  return std::nullopt;
}

}  // namespace

outcome allocate_from_pool(CUmemoryPool pool, driver::request const& request, CUdeviceptr* result) noexcept {
  router_state* const s = present;
  if (s == nullptr) return pass;
  program_pools::pool* const from = s->pools.find(pool);
  std::optional<int> const device = from != nullptr ? from->device : device_of_served_default(*s, pool);
  if (!device) return pass;
  stream_place const place = place_of(*s, request.stream, request.context);
  if (place.entry == nullptr || place.entry->device != *device) return pass;
  driver::request asked = request;
  asked.of_pool = true;
  outcome const answer = allocate_carefully(asked, result);
  space::handle const h = answer.code == CUDA_SUCCESS ? live_block_at(*s, *result) : space::none;
  if (h == space::none) return answer;
  space::block& b = s->where.blocks[h];
  if (from != nullptr) {
    s->pools.took(*from, b, h);
  } else if (s->is_asked(static_cast<std::size_t>(*device))) {
    count_taken(*s, *device, b);
  }
  return answer;
}

}  // namespace gpumem::route
