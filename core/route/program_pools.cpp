// See program_pools.hpp; and the requests that it answers, in default_pools.hpp.
#include "core/route/program_pools.hpp"

#include "core/route/default_pools.hpp"
#include "core/route/router.hpp"
#include "core/route/router_state.hpp"

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
  while (at < used && (pools_[at].serves.load() || pools_[at].live.load() != 0)) ++at;
  if (at == most) return;
  pool& entry = pools_[at];
  entry.device = device;
  entry.figures.renew();
  entry.handle.store(handle, std::memory_order_release);
  entry.serves.store(true, std::memory_order_release);
  if (at == used) made_.store(used + 1, std::memory_order_release);
}

void program_pools::withdraw(CUmemoryPool handle) noexcept {
  base::lock_guard const lock(mutex_);
  if (pool* const found = find(handle); found != nullptr) found->serves.store(false);
}

program_pools::pool* program_pools::find(CUmemoryPool handle) noexcept {
  std::size_t const used = made_.load(std::memory_order_acquire);
  for (std::size_t at = 0; at < used; ++at) {
    pool& each = pools_[at];
    if (each.serves.load(std::memory_order_acquire) && each.handle.load() == handle) return &each;
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

CUmemoryPool program_pools::of(space::block const& b, space::handle h) noexcept {
  pool* const from = b.is(space::pooled) ? pool_of(h) : nullptr;
  return from != nullptr ? from->handle.load() : nullptr;
}

void pool_made(CUmemoryPool pool, CUmemPoolProps const& properties) noexcept {
  if (present == nullptr || !present->serves_pools || !program_pools::is_plain(properties)) return;
  present->pools.made(pool, properties.location.id);
}

void pool_destroyed(CUmemoryPool pool) noexcept {
  if (present == nullptr) return;
  present->pools.withdraw(pool);
  // The driver goes on with the default pool.
  for (std::size_t device = 0; device < present->chosen.size(); ++device) {
    if (present->chosen[device].load(std::memory_order_relaxed) == pool)
      pool_chosen(static_cast<int>(device), default_pool(static_cast<int>(device)));
  }
}

outcome allocate_from_pool(CUmemoryPool pool, driver::request const& request, CUdeviceptr* result) noexcept {
  router_state* const s = present;
  program_pools::pool* const from = s != nullptr ? s->pools.find(pool) : nullptr;
  if (from == nullptr) return pass;
  stream_place const place = place_of(*s, request.stream, request.context);
  if (place.entry == nullptr || place.entry->device != from->device) return pass;
  driver::request asked = request;
  asked.of_pool = true;
  outcome const answer = allocate_carefully(asked, result);
  if (answer.code != CUDA_SUCCESS) return answer;
  space::handle const h = live_block_at(*s, *result);
  if (h != space::none) s->pools.took(*from, s->where.blocks[h], h);
  return answer;
}

}  // namespace gpumem::route
