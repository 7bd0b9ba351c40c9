// See suballocator.hpp. Here: requests and frees, and what the chain asks; the slow path is in
// allocate_slow.cpp.
#include "core/resource/pools/suballocator.hpp"

#include <algorithm>

#include "core/base/mutant.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/recording/writer/record.hpp"
#include "core/stats/page/in_use.hpp"

namespace gpumem::resource {

namespace {

constexpr std::uint64_t most_bytes = ~std::uint32_t{0} * space::unit;

std::uint32_t page_of(source& upstream) noexcept {
  page_source* const pages = upstream.pages();
  return pages != nullptr ? static_cast<std::uint32_t>(pages->page() / space::unit) : 0;
}

}  // namespace

suballocator::suballocator(chain_context const& home, std::size_t node, suballocator_options const& options,
                           source& upstream, char const* type) noexcept
    : resource(home, node),
      options_(options),
      upstream_(upstream),
      refuse_(type, options_),
      classes_up_to_(options.round_to == space::unit ? std::min(most_bytes, options.largest) : 0),
      page_(page_of(upstream)),
      region_(home.where, this),
      caches_(mutex_, options.one_magazine),
      backing_([&]() -> backing* {
        backed_pool const pool{home_, node, options_, refuse_, region_, upstream};
        if (page_ == 0) return &made_.emplace<segment_backing>(pool);
        return &made_.emplace<page_backing>(pool, *upstream.pages());
      }()),
      life_(home.epochs.life()),
      age_(options.release_after) {
  quick_ = this;
}

void suballocator::prepare() {
  if (options_.initial == 0) return;
  lock held(mutex_);
  backing_->prepare(held);
}

std::uint32_t suballocator::rounded_units(std::uint64_t bytes) const {
  return has_class(bytes) ? rounded_to_class(bytes) : rounded_to_step(bytes);
}

space::handle suballocator::from_magazine(slow_request& c) noexcept {
  return c.own->take(blocks(), c.units, serves(c.request.slot), c.look, c.request.alignment);
}

std::uint32_t suballocator::rounded_to_step(std::uint64_t bytes) const {
  std::uint64_t const step = options_.round_to;
  std::uint64_t const rounded = (std::max<std::uint64_t>(bytes, 1) + step - 1) / step * step;
  if (bytes > options_.largest || rounded < bytes || rounded / space::unit > ~std::uint32_t{0}) {
    // Of memory that need not be on a device there may be more than its tables can say, if it may have so
    // much.
    bool const may = bytes <= options_.largest && bytes <= options_.maximum;
    if (may && home_.kind != driver::memory_kind::device) throw refuse_.no_tables();
    stats::node_counters& counters = stats::local().nodes[node_];  // it gets no further
    stats::add(counters.requests, 1);
    stats::add(counters.failed, 1);
    throw refuse_.larger_than(std::min(options_.largest, most_bytes), bytes);
  }
  return static_cast<std::uint32_t>(rounded / space::unit);
}

space::handle suballocator::allocate(allocation_request const& request) {
  cache_look look;
  magazine* const own = caches_.find(request.slot);
  space::handle const h =
      try_allocate_cached(blocks(), own, request.bytes, request.slot, request.alignment, look);
  if (h == space::none) return allocate_slow(request, own, look);
  count_hit(stats::local(), request.slot, blocks()[h].bytes());
  return h;
}

// The magazine is looked into here where that would have cost the hit path a call.
space::handle suballocator::allocate_slow(allocation_request const& request, magazine* own, cache_look look) {
  std::uint32_t const units = rounded_units(request.bytes);
  if (own == nullptr) own = caches_.find_or_make(request.slot);
  slow_request c{.request = request, .units = units, .own = own, .look = look};
  if (shares(units)) [[unlikely]] {
    space::handle const h = from_bin(c);
    return h != space::none ? h : allocate_counted(c);
  }
  space::handle const h = own != nullptr && !look.done ? from_magazine(c) : space::none;
  if (h == space::none) {
    // In the magazine a free of it would have no event.
    if (own != nullptr && !settles_when_freed(units * space::unit, request.slot)) own->note_asked(units);
    return allocate_counted(c);
  }
  count_hit(stats::local(), request.slot, units * space::unit);
  return h;
}

// A hit is what needed nothing from upstream, on whatever rung. What is refused was never handed out.
space::handle suballocator::allocate_counted(slow_request& c) {
  stats::node_counters& counters = count();
  stats::add(counters.requests, 1);
  space::handle const h = try_rungs(c);
  if (c.behind) [[unlikely]]
    get_ahead(c);
  if (c.units * space::unit >= options_.earned_from && page_ == 0) [[unlikely]]
    prove(h);
  stats::add(counters.bytes_in, c.units * space::unit);
  if (!c.grew) stats::add(counters.hits, 1);
  return h;
}

void suballocator::deallocate(space::handle h, free_order const& order) noexcept {
  magazine* const own = caches_.find(order.slot);
  if (!try_cache(blocks(), own, stats::local(), h, blocks()[h], order.settled, order.life))
    deallocate_slow(h, order);
}

void suballocator::deallocate_slow(space::handle h, free_order const& order) noexcept {
  bool const now = order.slot != stream_order::no_slot && settles_when_freed(blocks()[h].bytes(), order.slot);
  put_back(h, order);
  if (!now || !home_.epochs.well() || !may_give_back()) [[likely]]
    return;
  base::uncancelled const held;
  home_.epochs.collect(home_.epochs.open());
}

// Near the pool's bound, as in a free without a stream (route::do_duties): of a stream that nobody can ask
// whether it is done (settle_idle_streams) an event of later would be of later work too.
bool suballocator::settles_when_freed(std::uint64_t bytes, stream_order::slot on) const noexcept {
  if (bytes < settled_from || (free_duties.load(std::memory_order_relaxed) & settles) == 0) [[likely]]
    return false;
  stream_order::relaxed_mode const relaxed(
      true);  // a capture that begins forbids the question (measured, 580.159)
  return !stream_order::epochs::stands_alone(stream_of(free_list_of(on)));
}

void suballocator::put_back(space::handle h, free_order const& order) noexcept {
  space::block& b = blocks()[h];
  count_back(h, order);
  auto const still = is_still(order.settled ? home_.epochs.last_done() : home_.epochs.open(), order.life);
  if (shares(b.units) && bins_.put(blocks(), h, still)) return;
  magazine* const m = caches_.find_or_make(order.slot);
  space::handle evicted = m != nullptr ? m->put(blocks(), h, still) : h;
  if (m != nullptr && evicted == space::none) return;
  lock held = enter();
  if (has_ended(order.life)) return;
  if (m == nullptr) {
    still(b);
    b.next = space::none;
  }
  reap();
  put_list(evicted, free_list_of(order.slot));
  if (region_.idle_bytes() > options_.release_threshold)
    backing_->release_empty(held, options_.release_threshold, !order.in_order);
}

// Called shortly after reap(): blocks merge with what is not done only, so that their epochs are near each
// other.
void suballocator::put_list(space::handle first, space::free_list_id to) noexcept {
  if (has_ended()) return;
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

std::uint64_t suballocator::reserved() const noexcept {
  lock held(mutex_, std::try_to_lock);  // as measure() does
  return held ? region_.reserved_bytes() : 0;
}

space::handle suballocator::block_at(space::segment const& in, std::uint64_t address) noexcept {
  lock held(mutex_);
  if (!region_.has(in, address)) return space::none;
  return region_.map_starts(in) ? region_.block_at(in, address) : walk_to(in, address);
}

std::uint64_t suballocator::idle() noexcept {
  lock held(mutex_, std::try_to_lock);  // as measure() does
  if (!held) return 0;
  std::uint64_t cached = bins_.bytes();
  caches_.visit([&](magazine& m) { cached += m.bytes(); });
  return region_.idle_bytes() + cached;
}

idle_usage suballocator::measure() noexcept {
  lock held(mutex_, std::try_to_lock);  // at exit another thread may have stopped with the mutex held
  if (!held) return {};
  idle_usage sum{.idle = region_.idle_bytes(), .pending = 0, .largest = region_.largest_idle()};
  std::uint64_t cached = 0;
  region_.reap([&](space::epoch_id s) { return home_.epochs.is_done(s); });
  sum.pending = region_.pending_bytes();
  caches_.visit([&](magazine& m) {
    m.measure(
        blocks(), [&](space::epoch_id s) { return home_.epochs.is_done(s); }, cached, sum.pending);
  });
  bins_.measure(
      blocks(), [&](space::epoch_id s) { return home_.epochs.is_done(s); }, cached, sum.pending);
  sum.idle += cached;
  return sum;
}

// In steps, so that a pool in many pieces is not locked for all of them.
void suballocator::count_free(stats::free_blocks& to) noexcept {
  space::region::count_place at;
  for (bool more = true; more;) {
    lock held(mutex_);
    more = region_.count_idle(at, to);
  }
}

void suballocator::stream_gone(stream_order::slot s) noexcept {
  lock held(mutex_);
  reap();
  if (magazine* const m = caches_.of_stream(s); m != nullptr) {
    caches_.empty(blocks(), m, [&](stream_order::slot, space::handle freed) {
      put_list(freed, GPUMEM_MUTANT(done_with_stream) ? space::done : space::pending);
    });
  }
  region_.orphan(free_list_of(s));
}

void suballocator::forget() noexcept {
  lock held(mutex_);
  caches_.visit([&](magazine& m) { m.empty(blocks()); });
  bins_.forget();
  for (space::segment* const s : region_.segments()) lose_blocks(*this, *s);
  recording::await_frees();
  while (!region_.segments().empty()) {
    space::segment* const s = region_.segments().back();
    extent const memory{s->base, s->bytes, s->token};
    if (!GPUMEM_MUTANT(lost_after_its_segment)) upstream_.lost(memory);
    base::interleave_surely();
    // After that, as another context that is given the address waits until it is nobody's here: so the
    // recording has it once, and no block there is taken for the one that began there.
    region_.remove_segment(s);
    if (!GPUMEM_MUTANT(lost_after_its_segment)) continue;
    base::interleave_surely();
    upstream_.lost(memory);
  }
  backing_->all_lost();
}

// A thread that freed a block while its context ended may have put it into a magazine since.
void suballocator::begin_again() {
  {
    lock held(mutex_);
    caches_.visit([&](magazine& m) { m.empty(blocks()); });
    caches_.begin_again();
    bins_.forget();
    life_ = home_.epochs.life();
  }
  prepare();
}

// Where the driver waits for all work when it takes memory back, nothing goes while work does not end.
std::uint64_t suballocator::give_back(give_back_scope scope) noexcept {
  lock held(mutex_);
  settle(held);
  if (region_.has_pending()) settle_idle_streams();
  bool const driver_waits = backing_->requests_wait() && backing_->waits_for_gpu();
  std::uint64_t released = driver_waits ? 0 : backing_->release_empty(held, 0, backing_->requests_wait());
  bool const more = region_.has_pending() || (driver_waits && region_.empty_segment() != nullptr);
  if (scope == give_back_scope::all && more) {
    space::epoch_id const youngest = region_.youngest_epoch();
    held.unlock();
    bool const idle = driver_waits ? home_.epochs.wait_for_all() : home_.epochs.wait(youngest);
    held.lock();
    reap();
    if (idle || !driver_waits) released += backing_->release_empty(held, 0, backing_->requests_wait());
  }
  held.unlock();
  return released + upstream_.trim(scope);
}

std::uint64_t suballocator::give_back_idle() noexcept {
  lock held(mutex_, std::try_to_lock);  // whoever has it is at work there
  if (!held) return 0;
  settle(held);
  if (GPUMEM_MUTANT(parts_are_done)) region_.reap([](space::epoch_id) { return true; });
  return backing_->release_empty(held, 0, false);
}

// As the source of a resource above: a block that the program never sees, so it is hidden from the block map.
extent suballocator::reserve(allocation_request const& request) {
  lends_.store(true, std::memory_order_relaxed);
  std::uint32_t const units = rounded_units(request.bytes);
  allocation_request const plain{
      .bytes = request.bytes, .flags = request.flags, .alignment = request.alignment};
  slow_request c{.request = plain, .units = units, .hidden = true};
  space::handle const h = allocate_counted(c);
  return {.address = blocks()[h].begin(), .bytes = units * space::unit, .token = h, .life = c.life};
}

bool suballocator::driver_would_refuse(lock& held, slow_request const& c) noexcept {
  if (page_ != 0 || lends_.load(std::memory_order_relaxed)) return false;
  // What is on its way back, from any pool, is in no ledger, and the driver does not have it yet.
  std::uint64_t const moves = stats::moves_ended.load();
  if (stats::moves_begun.load() != moves) return false;
  if (stats::get(stats::gauges(home_.device).reserved) != region_.reserved_bytes()) return false;
  std::uint64_t const back = region_.empty_bytes() + region_.withheld_bytes() + upstream_.pending();
  held.unlock();
  bool const hopeless = upstream_.is_hopeless(c.units * space::unit, back);
  held.lock();
  return hopeless && stats::moves_begun.load() == moves;
}

bool suballocator::refuses_as_well(std::uint64_t bytes, std::uint64_t more) noexcept {
  lock held(mutex_);
  return region_.largest_idle() < bytes && upstream_.refuses_as_well(bytes, more);
}

void suballocator::release(extent const& memory, release_order const& order) noexcept {
  auto const h = static_cast<space::handle>(memory.token);
  stats::add(count().bytes_out, memory.bytes);
  lock held(mutex_);
  // On its way here nobody held a lock: its block may have gone with the context, and be another's by now.
  if (home_.epochs.ended_since(memory.life) && !GPUMEM_MUTANT(lost_block_kept)) return;
  if (blocks()[h].is(space::exported)) return keep_from_all(held, h, order.may_wait);
  space::segment& in = home_.where.segments[blocks()[h].segment];
  blocks()[h].freed = home_.epochs.open();  // its age
  bool const unproven = (blocks()[h].unmark(space::unproven) & space::unproven) != 0;
  region_.put(h, space::done);
  if (unproven) note_unproven(in, memory.bytes);
}

}  // namespace gpumem::resource
