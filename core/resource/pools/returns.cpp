// Memory of a suballocator that goes back to its source while nobody asks for memory: large blocks whose size
// has not come back before, and segments of which nothing was in use for `release_after`. When the driver
// frees memory launches of other threads wait, so this happens only inside calls of the program's that
// natively free or wait for the GPU (route/returns.hpp), never beside a capture; and only of memory
// whose work is done.
#include "core/base/contract.hpp"
#include "core/base/mutant.hpp"
#include "core/resource/pools/suballocator.hpp"

namespace gpumem::resource {

void suballocator::prove(space::handle h) noexcept {
  space::block& b = blocks()[h];
  if (!age_.works() || age_.earned.has(b.bytes())) return;
  lock held(mutex_);
  if (has_ended()) return;
  home_.where.segments[b.segment].unproven = false;
  if (!age_.earned.came_back(b.bytes(), base::now_ns(), age_.after())) b.mark(space::unproven);
}

// Not into a magazine, which would keep it, unless its size came back since it was handed out.
void suballocator::deallocate_unproven(space::handle h, free_order const& order) noexcept {
  space::block& b = blocks()[h];
  std::uint64_t const bytes = bytes_of(h, order);
  if (age_.earned.has(bytes)) return deallocate(h, order);
  stats::add(count().bytes_out, bytes);
  space::epoch_id const freed = order.settled ? home_.epochs.last_done() : home_.epochs.open();
  lock held(mutex_);
  if (has_ended(order.life)) return;
  b.freed = freed;
  reap();
  space::segment& in = home_.where.segments[b.segment];
  bool const done = home_.epochs.is_done(b.freed) || GPUMEM_MUTANT(unproven_is_done);
  region_.put(h, done ? space::done : free_list_of(order.slot));
  note_unproven(in, bytes);
}

void suballocator::note_unproven(space::segment& in, std::uint64_t bytes) noexcept {
  if (age_.earned.has(bytes)) return;
  in.unproven = true;
  age_.earned.left(bytes, base::now_ns());
  age_.hurry();
  free_duties.fetch_or(gives_back, std::memory_order_relaxed);
}

void suballocator::note_surplus(std::uint64_t idle) noexcept {
  if (page_ != 0 || !age_.works() || would_exceed(0)) return;
  surplus_.note_growth(idle, region_.reserved_bytes());
  if (surplus_.is_wanted()) free_duties.fetch_or(gives_back, std::memory_order_relaxed);
}

void suballocator::sweep(std::uint64_t now) noexcept {
  if (sharing_.load(std::memory_order_relaxed) && !waits_.waited_lately()) stop_sharing();
  auto const old_enough = age_.old_enough(now);
  auto const put = [&](stream_order::slot s, space::handle freed) { put_list(freed, free_list_of(s)); };
  std::uint64_t const stay = caches_.sweep(
      blocks(),
      [&](space::epoch_id freed) {
        return old_enough && static_cast<std::int32_t>(freed - *old_enough) <= 0;
      },
      put);
  if (age_.wants_all(now, stay, region_.idle_bytes(), region_.reserved_bytes())) flush(nullptr);
}

// Not while threads wait for one another: the magazines of all would be filled again under the mutex.
void suballocator::give_back_surplus(std::uint64_t now) noexcept {
  lock held(mutex_);
  if (sharing_.load(std::memory_order_relaxed)) return surplus_.drop();
  std::uint64_t const most_ns = surplus_.begin(now);
  if (most_ns == 0) return;
  settle(held);
  if (GPUMEM_MUTANT(surplus_is_done)) region_.reap([](space::epoch_id) { return true; });
  backing_->release_surplus(held, now + most_ns);
  surplus_.spent(base::now_ns() - now);
}

// For tests: as if requests had given back all that is empty.
static bool always_gives_ahead() noexcept {
  return GPUMEM_MUTANT(always_gives_ahead) || GPUMEM_MUTANT(ahead_is_done);
}

void suballocator::give_back_ahead() noexcept {
  lock held(mutex_);
  if (backing_->ahead.missing() == 0 && !always_gives_ahead()) return;
  settle(held);
  if (GPUMEM_MUTANT(ahead_is_done)) region_.reap([](space::epoch_id) { return true; });
  if (always_gives_ahead()) backing_->release_empty(held, 0, true);
  backing_->release_ahead(held);
}

void suballocator::give_back_due(moment const& at) noexcept {
  std::uint64_t const now = at.now;
  if (at.in_a_free && surplus_.is_wanted()) give_back_surplus(now);
  if (at.at_pace && (backing_->ahead.is_wanted() || always_gives_ahead())) give_back_ahead();
  if (!age_.is_due(now)) return;
  lock held(mutex_);
  if (!age_.is_due(now)) return;  // another thread was faster
  age_.next_look(now, age_.interval());
  if (age_.wants_mark(now)) {
    age_.note(now, home_.epochs.move_on());
    reap();
    sweep(now);
    idle_throughout_ = age_.floor.end_interval(region_.idle_bytes());
  }
  due_memory due{.old_enough = age_.old_enough(now), .idle_throughout = idle_throughout_};
  // What was freed just now is done where the GPU is idle: asked once.
  bool const idle = [&] {
    if (!region_.has_pending() && !backing_->has_due(due)) return true;
    held.unlock();
    bool const done = home_.epochs.collect(home_.epochs.open());
    held.lock();
    reap();
    return done;
  }();
  if (!backing_->has_due(due)) return;
  if (idle) age_.gpu_was_idle();
  bool const may = idle || !backing_->waits_for_gpu() || (at.in_a_free && age_.may_wait_for_gpu(now));
  due.until = now + age_.time_for_it(now) * (backing_->waits_for_gpu() ? 1 : 5);
  if (may && backing_->release_due(held, due, age_)) {
    idle_throughout_ = 0;
    return age_.was_worth_it();
  }
  age_.next_look(now, may ? 0 : age_.interval() / 16);
  free_duties.fetch_or(gives_back, std::memory_order_relaxed);
}

}  // namespace gpumem::resource
