// See suballocator.hpp. Here: the hit path, magazines, and what the chain asks; the slow path is in
// allocate_slow.cpp.
#include "core/resource/pools/suballocator.hpp"

#include <algorithm>
#include <cstdio>
#include <new>

#include "core/base/mutant.hpp"
#include "core/base/text/bytes.hpp"
#include "core/resource/pools/size_classes.hpp"
#include "core/resource/pools/thread_slots.hpp"

namespace gpumem::resource {

namespace {

// Indices into thread_slots, given out to suballocators that live at the same time.
std::atomic<std::uint64_t> free_indices{~std::uint64_t{0}};

constexpr std::uint64_t most_bytes = ~std::uint32_t{0} * space::unit;

std::size_t take_index() noexcept {
  std::uint64_t seen = free_indices.load(std::memory_order_relaxed);
  while (seen != 0) {
    if (free_indices.compare_exchange_weak(seen, seen & (seen - 1), std::memory_order_relaxed)) {
      return static_cast<std::size_t>(__builtin_ctzll(seen));
    }
  }
  return thread_slots::most;
}

}  // namespace

suballocator::suballocator(chain_context const& home, std::size_t node, suballocator_options const& options,
                           source& upstream, char const* name) noexcept
    : resource(home, node),
      options_(options),
      upstream_(upstream),
      pages_(upstream.pages()),
      name_(name),
      classes_up_to_(options.round_to == space::unit ? std::min(most_bytes, options.largest) : 0),
      slot_index_(options.one_magazine ? thread_slots::most : take_index()),
      has_index_(slot_index_ < thread_slots::most),
      region_(home.where, this) {
  quick_ = this;
}

suballocator::~suballocator() {
  give_index_back();
}

void suballocator::give_index_back() noexcept {
  if (!has_index_) return;
  has_index_ = false;
  free_indices.fetch_or(1ull << slot_index_, std::memory_order_relaxed);
}

void suballocator::prepare() {
  if (options_.initial == 0) return;
  if (pages_ != nullptr) return prepare_pages();
  extent const memory = upstream_.reserve({.bytes = options_.initial});
  lock held(mutex_);
  if (!region_.add_segment(memory.address, memory.bytes, memory.token)) {
    held.unlock();
    upstream_.release(memory, nullptr);
    throw refusal(driver::refused_by::tables, "no host memory for its tables");
  }
}

std::uint32_t suballocator::rounded_units(std::uint64_t bytes) const {
  return has_class(bytes) ? rounded_to_class(bytes) : rounded_to_step(bytes);
}

magazine* suballocator::magazine_of(stream_order::slot s) noexcept {
  if (magazine* const known = known_magazine_of(s); known != nullptr) return known;
  if (s == stream_order::no_slot && !options_.one_magazine) return new_thread_magazine();
  return new_stream_magazine(slot_of_magazine(s));
}

space::handle suballocator::from_magazine(slow_request& c) noexcept {
  return c.own->take(blocks(), c.units, serves(c.request.slot), c.waiting, c.request.alignment);
}

std::uint32_t suballocator::rounded_to_step(std::uint64_t bytes) const {
  std::uint64_t const step = options_.round_to;
  std::uint64_t const rounded = (std::max<std::uint64_t>(bytes, 1) + step - 1) / step * step;
  if (bytes > options_.largest || rounded < bytes || rounded / space::unit > ~std::uint32_t{0}) {
    stats::node_counters& counters = stats::local().nodes[node_];  // it gets no further
    stats::add(counters.requests, 1);
    stats::add(counters.failed, 1);
    char text[80];
    std::snprintf(text, sizeof text, "its largest block is %.16s, asked %.16s",
                  base::print_bytes(std::min(options_.largest, most_bytes)).view().data(),
                  base::print_bytes(bytes).view().data());
    throw refusal(driver::refused_by::largest_block, text);
  }
  return static_cast<std::uint32_t>(rounded / space::unit);
}

driver::allocation_failed suballocator::refusal(driver::refused_by kind, char const* why) const noexcept {
  char who[64];
  std::snprintf(who, sizeof who, *options_.name != '\0' ? "%s \"%s\"" : "%s", name_, options_.name);
  return driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, who, why, kind);
}

space::handle suballocator::allocate(allocation_request const& request) {
  std::optional<space::epoch_id> waiting;
  space::handle const h = try_allocate_cached(blocks(), known_magazine_of(request.slot), request.bytes,
                                              request.slot, request.alignment, waiting);
  return h != space::none ? h : allocate_slow(request, waiting);
}

space::handle suballocator::allocate_slow(allocation_request const& request,
                                          std::optional<space::epoch_id> waiting) {
  std::uint32_t const units = rounded_units(request.bytes);
  magazine* const own = magazine_of(request.slot);
  stats::shard& shard = stats::local();
  slow_request c{.request = request, .units = units, .own = own, .waiting = waiting};
  space::handle const h = own != nullptr && !waiting ? from_magazine(c) : space::none;
  if (h == space::none) return allocate_counted(c);
  count_hit(shard, request.slot, count_served(shard, units));
  return h;
}

// A hit is what needed nothing from upstream, on whatever rung. What is refused was never handed out.
space::handle suballocator::allocate_counted(slow_request& c) {
  stats::add(count().requests, 1);
  space::handle const h = try_rungs(c);
  stats::add(count().bytes_in, c.units * space::unit);
  if (!c.grew) stats::add(count().hits, 1);
  return h;
}

void suballocator::deallocate(space::handle h, free_order const& order) noexcept {
  if (!try_cache(blocks(), known_magazine_of(order.slot), h, order.settled)) deallocate_slow(h, order);
}

void suballocator::deallocate_slow(space::handle h, free_order const& order) noexcept {
  space::block& b = blocks()[h];
  stats::add(count().bytes_out, b.bytes());
  b.freed = order.settled ? home_.epochs.last_done() : home_.epochs.open();
  magazine* const m = magazine_of(order.slot);
  space::handle const evicted = m != nullptr ? m->put(blocks(), h) : (b.next = space::none, h);
  if (evicted == space::none) return;
  lock held(mutex_);
  reap();
  put_list(evicted, free_list_of(order.slot));
  if (region_.idle_bytes() > options_.release_threshold) release_empty(held, options_.release_threshold);
}

// Called shortly after reap(): blocks merge with what is not done only, so that their epochs are near each
// other.
void suballocator::put_list(space::handle first, space::free_list_id to) noexcept {
  // A block is put beside its neighbours by address, of which none need be in a cache: asked for early.
  space::handle soon = first;
  auto const prefetch_next = [&] {
    if (soon == space::none) return;
    space::block const& b = blocks()[soon];
    if (b.before != space::none) blocks().prefetch(b.before);
    if (b.after != space::none) blocks().prefetch(b.after);
    soon = b.next;
  };
  for (int i = 0; i < 4; ++i) prefetch_next();
  while (first != space::none) {
    prefetch_next();
    space::handle const next = blocks()[first].next;
    region_.put(first, home_.epochs.is_done(blocks()[first].freed) ? space::done : to);
    first = next;
  }
}

magazine* suballocator::new_thread_magazine() noexcept {
  if (slot_index_ >= thread_slots::most) return nullptr;
  thread_slots* const slots = attach_thread();
  if (slots == nullptr) return nullptr;
  lock held(mutex_);
  magazine* free = nullptr;
  for (auto const& m : magazines_) {
    if (!m->in_use) free = m.get();
  }
  if (free == nullptr) {
    try {
      magazines_.push_back(std::make_unique<magazine>());
      free = magazines_.back().get();
    } catch (std::bad_alloc const&) {
      return nullptr;
    }
  }
  free->in_use = true;
  free->belongs_to_this_thread();
  slots->entries[slot_index_] = {this, free};
  return free;
}

magazine* suballocator::new_stream_magazine(stream_order::slot s) noexcept {
  lock held(mutex_);
  if (magazine* const made = by_stream_[s].load(std::memory_order_acquire); made != nullptr) return made;
  try {
    magazines_.push_back(std::make_unique<magazine>());
  } catch (std::bad_alloc const&) {
    return nullptr;
  }
  magazines_.back()->in_use = true;  // by the stream slot, for good
  magazines_.back()->stream = s;
  magazines_.back()->belongs_to_this_thread();  // most streams are one thread's
  by_stream_[s].store(magazines_.back().get(), std::memory_order_release);
  return magazines_.back().get();
}

std::uint64_t suballocator::reserved() const noexcept {
  lock held(mutex_, std::try_to_lock);  // as measure() does
  return held ? region_.reserved_bytes() : 0;
}

void suballocator::return_magazine(magazine* m) const noexcept {
  lock held(mutex_);
  m->in_use = false;
}

space::handle suballocator::block_at(space::segment const& in, std::uint64_t address) noexcept {
  lock held(mutex_);
  if (!region_.has(in, address)) return space::none;
  return region_.map_starts(in) ? region_.block_at(in, address) : walk_to(in, address);
}

idle_usage suballocator::measure() noexcept {
  lock held(mutex_, std::try_to_lock);  // at exit another thread may have stopped with the mutex held
  if (!held) return {};
  idle_usage sum{.idle = region_.idle_bytes(), .pending = 0, .largest = region_.largest_idle()};
  std::uint64_t cached = 0;
  region_.reap([&](space::epoch_id s) { return home_.epochs.is_done(s); });
  sum.pending = region_.pending_bytes();
  visit_magazines([&](magazine& m) {
    m.measure(
        blocks(), [&](space::epoch_id s) { return home_.epochs.is_done(s); }, cached, sum.pending);
  });
  sum.idle += cached;
  return sum;
}

void suballocator::stream_gone(stream_order::slot s) noexcept {
  lock held(mutex_);
  reap();
  if (magazine* const m = by_stream_[s].load(std::memory_order_acquire); m != nullptr) {
    space::handle freed = space::none;
    visit_magazines([&](magazine& one) { freed = one.empty(blocks()); }, m);
    put_list(freed, GPUMEM_MUTANT(done_with_stream) ? space::done : space::pending);
  }
  region_.orphan(free_list_of(s));
}

void suballocator::forget() noexcept {
  lock held(mutex_);
  visit_magazines([&](magazine& m) { m.empty(blocks()); });
  while (!region_.segments().empty()) {
    space::segment* const s = region_.segments().back();
    lose_blocks(*this, *s);
    upstream_.lost({s->base, s->bytes, s->token});
    region_.remove_segment(s);
  }
  give_index_back();  // nothing is asked of this object again; the next context's takes over
}

}  // namespace gpumem::resource
