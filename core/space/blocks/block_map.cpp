// See block_map.hpp.
#include "core/space/blocks/block_map.hpp"

#include <sys/mman.h>

#include <mutex>
#include <new>

namespace gpumem::space {

namespace {

// Entries in use before the table is rebuilt: as few as 64 bytes of host memory a live block allow, as no
// processor foresees how long a probe goes on.
constexpr std::uint64_t fullest(std::uint64_t size) noexcept {
  return size * 9 / 16;
}

}  // namespace

constinit block_map::nothing block_map::none_yet{};

block_map::table* block_map::table::make(std::uint64_t size) noexcept {
  void* const memory = ::operator new (sizeof(table) + size * sizeof(std::uint32_t),
                                       std::align_val_t{alignof(table)}, std::nothrow);
  if (memory == nullptr) return nullptr;
  auto* const made = new (memory) table{.mask = size - 1};
  for (std::uint64_t i = 0; i < size; ++i) new (&made->at(i)) std::atomic<std::uint32_t>(empty);
  return made;
}

// Gives the memory of its entries back and leaves their addresses: a reader that was overtaken finds them
// empty, or as they were.
void block_map::table::let_go() noexcept {
  constexpr std::uint64_t page = 4096;
  std::uint64_t const begin = (reinterpret_cast<std::uint64_t>(&at(0)) + page - 1) / page * page;
  std::uint64_t const end = reinterpret_cast<std::uint64_t>(&at(mask) + 1) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

bool block_map::insert(handle h) noexcept {
  std::uint64_t const address = blocks_[h].begin();
  std::uint64_t const mixed = mix(address);
  shard& s = shards_[shard_of(mixed)];
  std::lock_guard lock(s.lock);
  table* t = s.present.load(std::memory_order_relaxed);
  if (s.used + 1 > fullest(t->mask + 1)) {
    if (!rebuild(s)) return false;
    t = s.present.load(std::memory_order_relaxed);
  }
  for (std::uint64_t i = first(address, mixed);; ++i) {
    std::uint32_t const there = t->at(i).load(std::memory_order_relaxed);
    if (there != empty && there != tombstone) continue;
    t->at(i).store(entry_of(address, mixed, h), std::memory_order_release);
    if (there == empty) ++s.used;
    ++s.live;
    return true;
  }
}

void block_map::erase(handle h) noexcept {
  std::uint64_t const address = blocks_[h].begin();
  std::uint64_t const mixed = mix(address);
  shard& s = shards_[shard_of(mixed)];
  std::lock_guard lock(s.lock);
  table* const t = s.present.load(std::memory_order_relaxed);
  for (std::uint64_t i = first(address, mixed);; ++i) {
    std::uint32_t const there = t->at(i).load(std::memory_order_relaxed);
    if (there == empty) return;
    if (handle_in(there) != h) continue;
    // A tombstone before an empty entry keeps no probe going, so it can be an empty entry itself.
    bool const last = t->at(i + 1).load(std::memory_order_relaxed) == empty;
    t->at(i).store(last ? empty : tombstone, std::memory_order_release);
    if (last) --s.used;
    --s.live;
    return;
  }
}

// Sweeps tombstones, and doubles the table where half of what may be used is live. Under the shard's
// lock.
bool block_map::rebuild(shard& s) noexcept {
  table* const old = s.present.load(std::memory_order_relaxed);
  std::uint64_t const old_size = old->mask + 1;
  std::uint64_t const size = old_size < 64 ? 64 : (s.live * 2 > fullest(old_size) ? old_size * 2 : old_size);
  table* fresh = size == old_size ? s.spare : nullptr;
  if (fresh == nullptr) {
    fresh = table::make(size);
    if (fresh == nullptr) return false;
  } else {
    for (std::uint64_t i = 0; i < size; ++i) fresh->at(i).store(empty, std::memory_order_relaxed);
  }
  for (std::uint64_t k = 0; k < old_size; ++k) {
    std::uint32_t const entry = old->at(k).load(std::memory_order_relaxed);
    if (entry == empty || entry == tombstone) continue;
    std::uint64_t const address = blocks_[handle_in(entry)].begin();
    std::uint64_t i = first(address, mix(address));
    while (fresh->at(i).load(std::memory_order_relaxed) != empty) ++i;
    fresh->at(i).store(entry, std::memory_order_relaxed);
  }
  s.present.store(fresh, std::memory_order_release);
  s.rebuilds.fetch_add(1, std::memory_order_release);
  s.used = s.live;
  // The old table stays readable for readers that were overtaken: kept as the spare, or left behind when
  // outgrown.
  old->let_go();
  s.spare = size == old_size ? old : nullptr;
  return true;
}

}  // namespace gpumem::space
