// See virtual_memory.hpp. Without heap memory an allocation goes uncounted; nothing is ever subtracted that
// was not added.
#include "shim/observed/virtual_memory.hpp"

#include <new>

#include "core/base/threads/undestroyed.hpp"
#include "shim/observed/recorded.hpp"

namespace gpumem::shim {

virtual_memory& virtual_memory::instance() noexcept {
  return base::undestroyed<virtual_memory>::get();
}

bool virtual_memory::created(CUmemGenericAllocationHandle handle,
                             route::observed_bytes const& what) noexcept {
  base::lock_guard const held(lock_);
  memory_id const id = ++last_;
  try {
    memories_.emplace(id, memory{what, 1});
    handles_.insert_or_assign(handle, named{id, 1});
    record_observed(true, recording::key_kind::physical, id, what);
  } catch (std::bad_alloc const&) {
    memories_.erase(id);
    return false;
  }
  return true;
}

// The handle may be the one already known, or a new one for the memory mapped at `address`.
void virtual_memory::retained(CUmemGenericAllocationHandle handle, CUdeviceptr address) noexcept {
  base::lock_guard const held(lock_);
  if (auto const known = handles_.find(handle); known != handles_.end()) {
    ++known->second.references;
    return;
  }
  auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return;
  auto const& [base, piece] = *--after;
  auto const of = memories_.find(piece.id);
  if (address - base >= piece.bytes || of == memories_.end()) return;
  try {
    handles_.emplace(handle, named{piece.id, 1});
    ++of->second.references;
  } catch (std::bad_alloc const&) {
    return;
  }
}

virtual_memory::step virtual_memory::releases(CUmemGenericAllocationHandle handle) noexcept {
  base::lock_guard const held(lock_);
  step taken{handle, {}};
  auto const found = handles_.find(handle);
  if (found == handles_.end()) return taken;
  memory_id const id = found->second.id;
  try {
    taken.references.push_back({id, 0, 0, found->second.references == 1, {}});
  } catch (std::bad_alloc const&) {
    return taken;
  }
  if (--found->second.references != 0) return taken;
  handles_.erase(found);
  taken.references.back().freed = drop(id);
  return taken;
}

void virtual_memory::mapped(CUdeviceptr address, std::uint64_t bytes,
                            CUmemGenericAllocationHandle handle) noexcept {
  base::lock_guard const held(lock_);
  auto const found = handles_.find(handle);
  if (found == handles_.end()) return;
  auto const of = memories_.find(found->second.id);
  if (of == memories_.end()) return;
  try {
    if (mappings_.emplace(address, mapping{bytes, of->first}).second) ++of->second.references;
  } catch (std::bad_alloc const&) {
    return;
  }
}

virtual_memory::step virtual_memory::unmaps(CUdeviceptr address, std::uint64_t bytes) noexcept {
  base::lock_guard const held(lock_);
  step taken;
  auto const end = mappings_.lower_bound(address + bytes);
  for (auto at = mappings_.lower_bound(address); at != end;) {
    try {
      taken.references.push_back({at->second.id, at->first, at->second.bytes, true, {}});
    } catch (std::bad_alloc const&) {
      return taken;
    }
    at = mappings_.erase(at);
    taken.references.back().freed = drop(taken.references.back().id);
  }
  return taken;
}

// The memory's own record stays in the step once nothing refers to it.
route::observed_bytes virtual_memory::drop(memory_id id) noexcept {
  auto const found = memories_.find(id);
  if (found == memories_.end() || --found->second.references != 0) return {};
  route::observed_bytes const freed = found->second.held;
  memories_.erase(found);
  record_observed(false, recording::key_kind::physical, id, freed);
  route::leaves(freed);
  return freed;
}

void virtual_memory::has_left(step const& taken) noexcept {
  for (auto const& each : taken.references) {
    if (each.freed.bytes != 0) route::has_left(each.freed);
  }
}

// The last first: of several mappings of one memory it is the one that took the memory's record along.
void virtual_memory::undo(step const& taken) noexcept {
  base::lock_guard const held(lock_);
  for (auto each = taken.references.rbegin(); each != taken.references.rend(); ++each) {
    try {
      hold(*each);
      if (each->mapped != 0) {
        mappings_.emplace(each->address, mapping{each->mapped, each->id});
      } else if (auto const made = handles_.try_emplace(taken.handle, named{each->id, 1}); !made.second) {
        ++made.first->second.references;
      }
    } catch (std::bad_alloc const&) {  // it goes uncounted from here on
    }
  }
}

void virtual_memory::hold(step::reference const& taken) {
  if (taken.freed.bytes != 0) {
    memories_.emplace(taken.id, memory{taken.freed, 1});
    record_observed(true, recording::key_kind::physical, taken.id, taken.freed);
    route::stays(taken.freed);
  } else if (auto const found = memories_.find(taken.id); found != memories_.end() && taken.last) {
    ++found->second.references;
  }
}

void virtual_memory::reset_in_child() noexcept {
  base::undestroyed<virtual_memory>::renew();
}

}  // namespace gpumem::shim
