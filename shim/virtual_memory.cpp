// Reference counts of cuMemCreate memory; see virtual_memory.hpp. When the heap fails the memory goes
// uncounted; nothing is ever subtracted that was not added.
#include "shim/virtual_memory.hpp"

#include <new>

#include "core/route/limits.hpp"

namespace gpumem::shim {
namespace {

alignas(virtual_memory) unsigned char storage[sizeof(virtual_memory)];

virtual_memory* make() noexcept {
  return new (storage) virtual_memory;
}

}  // namespace

virtual_memory& virtual_memory::instance() noexcept {
  static virtual_memory& only = *make();
  return only;
}

bool virtual_memory::created(CUmemGenericAllocationHandle handle, std::uint64_t bytes, int device) noexcept {
  std::lock_guard const held(lock_);
  memory_id const id = ++last_;
  try {
    memories_.emplace(id, memory{bytes, device, 1});
    handles_.insert_or_assign(handle, named{id, 1});
  } catch (std::bad_alloc const&) {
    memories_.erase(id);
    return false;
  }
  return true;
}

// The handle may be the one already known, or a new one for the memory mapped at `address`.
void virtual_memory::retained(CUmemGenericAllocationHandle handle, CUdeviceptr address) noexcept {
  std::lock_guard const held(lock_);
  if (auto const known = handles_.find(handle); known != handles_.end()) {
    ++known->second.references;
    return;
  }
  auto after = mappings_.upper_bound(address);
  if (after == mappings_.begin()) return;
  auto const& [base, piece] = *--after;
  if (address - base >= piece.bytes) return;
  try {
    handles_.emplace(handle, named{piece.id, 1});
    ++memories_.at(piece.id).references;
  } catch (std::bad_alloc const&) {
    return;
  }
}

void virtual_memory::released(CUmemGenericAllocationHandle handle) noexcept {
  std::lock_guard const held(lock_);
  auto const found = handles_.find(handle);
  if (found == handles_.end() || --found->second.references != 0) return;
  memory_id const id = found->second.id;
  handles_.erase(found);
  drop(id);
}

void virtual_memory::mapped(CUdeviceptr address, std::uint64_t bytes,
                            CUmemGenericAllocationHandle handle) noexcept {
  std::lock_guard const held(lock_);
  auto const found = handles_.find(handle);
  if (found == handles_.end()) return;
  try {
    if (!mappings_.emplace(address, mapping{bytes, found->second.id}).second) return;
    ++memories_.at(found->second.id).references;
  } catch (std::bad_alloc const&) {
    return;
  }
}

void virtual_memory::unmapped(CUdeviceptr address, std::uint64_t bytes) noexcept {
  std::lock_guard const held(lock_);
  auto const end = mappings_.lower_bound(address + bytes);
  for (auto at = mappings_.lower_bound(address); at != end;) {
    memory_id const id = at->second.id;
    at = mappings_.erase(at);
    drop(id);
  }
}

void virtual_memory::drop(memory_id id) noexcept {
  auto const found = memories_.find(id);
  if (found == memories_.end() || --found->second.references != 0) return;
  route::let_go(found->second.device, found->second.bytes);
  memories_.erase(found);
}

void virtual_memory::reset_in_child() noexcept {
  new (storage) virtual_memory;
}

}  // namespace gpumem::shim
