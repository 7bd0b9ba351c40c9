// Driver allocations: blocks, small-block segments, deferred releases. See memory.hpp; pools are in pool.cpp.
// Called under the machine's lock.
// Small blocks share a 2 MiB driver block in 512-byte steps, as the real driver's do; IPC depends on it.
#include "memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "machine.hpp"

namespace simulated {
namespace {

constexpr std::uint64_t step = 512;
constexpr std::uint64_t small_limit = driver_block / 2;

std::uint64_t round_up(std::uint64_t bytes, std::uint64_t to) {
  return (bytes + to - 1) / to * to;
}

void insert_hole(std::map<std::uint64_t, std::uint64_t>& holes, std::uint64_t address, std::uint64_t bytes) {
  auto next = holes.lower_bound(address);
  if (next != holes.end() && next->first == address + bytes) {
    bytes += next->second;
    next = holes.erase(next);
  }
  if (next != holes.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == address) {
      before->second += bytes;
      return;
    }
  }
  holes[address] = bytes;
}

constexpr std::uint64_t most_apart = std::uint64_t{1} << 46;  // beyond what was measured

// Of managed memory a program may have more than there is (measured: 16 TiB of a device with 80 GiB).
std::uint64_t apart(std::uint64_t bytes) {
  void* const at = mmap(nullptr, bytes + driver_block, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 0;
  auto const begin = reinterpret_cast<std::uint64_t>(at);
  std::uint64_t const base = round_up(begin, driver_block);
  if (base > begin) munmap(at, base - begin);
  munmap(reinterpret_cast<void*>(base + bytes), begin + driver_block - base);
  return base;
}

}  // namespace

graph_memory::~graph_memory() {
  machine& m = machine::get();
  block* const found = m.memory_.at(address);
  if (found != nullptr && found->kind == block_kind::graph) {
    block const gone = *found;
    m.memory_.erase(address);
    m.memory_.release(gone);
  }
}

void memory::add_device(std::uint64_t capacity) {
  int const device = static_cast<int>(spaces_.size());
  spaces_.push_back(std::make_unique<space>(capacity));
  for (bool const managed : {false, true}) {
    auto* made = new pool;
    made->device = device;
    made->is_default = true;
    made->managed = managed;
    pools.insert(made);
    (managed ? managed_pool : default_pool).push_back(made);
  }
  current_pool.push_back(default_pool.back());
}

block* memory::find(std::uint64_t address, bool captured) {
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return nullptr;
  --it;
  if (address >= it->first + it->second.span) return nullptr;
  bool const of_graph = it->second.kind == block_kind::graph;
  return !of_graph || captured || it->second.of_graph->live ? &it->second : nullptr;
}

block* memory::at(std::uint64_t base) {
  auto const it = blocks_.find(base);
  return it == blocks_.end() ? nullptr : &it->second;
}

block* memory::last_before(std::uint64_t end) {
  auto const after = blocks_.lower_bound(end);
  return after == blocks_.begin() ? nullptr : &std::prev(after)->second;
}

block& memory::insert(block made) {
  made.id = next_id_++;
  if (made.kind == block_kind::managed) made.sync_memops = true;  // measured
  if (is_managed(made)) advised.forget(made.base, made.span);
  return blocks_[made.base] = made;
}

std::pair<int, std::uint64_t> memory::share(std::uint64_t of_block) {
  if (auto const found = shared_.find(of_block); found != shared_.end()) return found->second;
  std::uint64_t const number = next_id_++;
  int const file = memfd_create("simulated-shared", MFD_CLOEXEC);
  if (file < 0 || pwrite(file, &number, sizeof number, 0) != sizeof number) std::abort();
  return shared_[of_block] = {file, number};
}

void memory::give(int device, std::uint64_t address, std::uint64_t bytes) {
  if (auto const gone = shared_.extract(address); !gone.empty()) close(gone.mapped().first);
  of(device).give(address, bytes);
}

std::uint64_t memory::held(int device, block_kind kind) const {
  std::uint64_t bytes = 0;
  for (auto const& [base, each] : blocks_) {
    if (each.device == device && each.kind == kind) bytes += each.bytes;
  }
  return bytes;
}

std::uint64_t memory::carve(context* owner, std::uint64_t bytes) {
  for (int attempt = 0; attempt < 2; ++attempt) {
    for (auto& [base, seg] : segments_) {
      if (seg.owner != owner) continue;
      for (auto it = seg.holes.begin(); it != seg.holes.end(); ++it) {
        if (it->second < bytes) continue;
        auto const [address, size] = *it;
        seg.holes.erase(it);
        if (size > bytes) seg.holes[address + bytes] = size - bytes;
        return address;
      }
    }
    std::uint64_t const base = of(owner->device).take(driver_block);
    if (base == 0) return 0;
    segments_[base] = segment{owner, {{base, driver_block}}};
  }
  return 0;
}

std::uint64_t memory::allocate(context* where, block_kind kind, std::uint64_t bytes) {
  context* const owner = where->home();  // memory outlives the green context it was made in
  block made;
  made.kind = kind;
  made.bytes = bytes;
  made.owner = owner;
  made.device = owner->device;
  if (bytes > of(owner->device).capacity()) {
    if (kind != block_kind::managed || bytes > most_apart) return 0;
    made.span = round_up(bytes, driver_block);
    made.base = apart(made.span);
    made.apart = true;
  } else if (bytes <= small_limit && kind == block_kind::device) {
    made.span = round_up(bytes, step);
    made.base = carve(owner, made.span);
    made.segment = made.base / driver_block * driver_block;
    made.segment_bytes = driver_block;
  } else {
    made.span = round_up(bytes, driver_block);
    made.base = of(owner->device).take(made.span);
    made.segment = made.base;
    made.segment_bytes = made.span;
  }
  if (made.base != 0) insert(made);
  return made.base;
}

std::uint64_t memory::mapped_end(block const& from) const {
  std::uint64_t end = std::max(from.base + from.span, from.segment + from.segment_bytes);
  if (from.kind != block_kind::mapping) return end;
  for (auto next = blocks_.find(end); next != blocks_.end() && next->second.kind == block_kind::mapping;
       next = blocks_.find(end)) {
    end += next->second.span;
  }
  return end;
}

void memory::release(block const& gone) {
  if (gone.apart) {
    munmap(reinterpret_cast<void*>(gone.base), gone.span);
    return;
  }
  auto const it = segments_.find(gone.segment);
  if (it == segments_.end()) {
    give(gone.device, gone.base, gone.span);
    return;
  }
  auto& holes = it->second.holes;
  insert_hole(holes, gone.base, gone.span);
  if (holes.size() == 1 && holes.begin()->second == driver_block) {
    segments_.erase(it);
    give(gone.device, gone.segment, driver_block);
  }
}

void memory::release_after(block const& gone, point when) {
  deferred_.emplace_back(gone, std::move(when));
}

void memory::collect(nanoseconds now, vector_clock& host) {
  std::erase_if(deferred_, [&](auto const& entry) {
    if (entry.second.end > now) return false;
    host.join(entry.second.after);
    release(entry.first);
    return true;
  });
}

void memory::forget(context* owner) {
  machine& m = machine::get();
  auto const is_apart = [owner](auto const& each) { return each.second.owner == owner && each.second.apart; };
  if (std::ranges::any_of(blocks_, is_apart)) m.run_all();  // see cuMemFree
  for (auto it = blocks_.begin(); it != blocks_.end();) {
    block const gone = it->second;
    ++it;
    if (gone.owner != owner) continue;
    switch (gone.kind) {
      case block_kind::device:
      case block_kind::managed:
      case block_kind::array:
        erase(gone.base);
        m.checker_.forget(gone.base, gone.span);
        release(gone);
        break;
      case block_kind::host:  // portable or not (measured: asked_rules end_host)
        erase(gone.base);
        munmap(reinterpret_cast<void*>(gone.base), gone.span);
        break;
      case block_kind::registered:  // measured: asked_rules registered
        of(gone.device).uncharge(m.mapping_bytes_);
        erase(gone.base);
        break;
      case block_kind::pooled:
        at(gone.base)->orphaned = true;
        break;
      default:
        break;
    }
  }
  std::erase_if(deferred_, [&](auto const& entry) {
    if (entry.first.owner != owner) return false;
    release(entry.first);
    return true;
  });
}

}  // namespace simulated
