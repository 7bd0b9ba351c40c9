// See direct.hpp.
#include "core/resource/pools/direct.hpp"

#include <new>

#include "core/base/mutant.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/recording/writer/record.hpp"
#include "core/resource/counted_request.hpp"
#include "core/resource/in_hand.hpp"

namespace gpumem::resource {

// As a segment of one idle block, whose units are returned, 0 for no memory; under the mutex.
std::uint32_t direct::add(extent const& memory, std::uint64_t alignment) noexcept try {
  std::uint64_t const base =
      alignment > space::unit ? (memory.address + alignment - 1) / alignment * alignment : memory.address;
  std::uint64_t const front = base - memory.address;
  if (front > 0) cut_[base] = memory;
  if (!region_.add_segment(base, memory.bytes - front, memory.token, memory.contextless)) {
    cut_.erase(base);
    return 0;
  }
  left_out_ += front;
  return static_cast<std::uint32_t>((memory.bytes - front) / space::unit);
} catch (std::bad_alloc const&) {
  return 0;
}

extent direct::whole(space::segment const& s) const noexcept {
  auto const cut = cut_.find(s.base);
  extent memory = cut != cut_.end() ? cut->second : extent{s.base, s.bytes, s.token, s.contextless};
  memory.life =
      home_.epochs.life();  // that of its memory, or over: until it is forgotten there is no next one
  return memory;
}

// What the source is to have back; under the mutex.
extent direct::remove(space::segment* s, in_hand* into) noexcept {
  extent const memory = whole(*s);
  if (into != nullptr) into->hold(home_.epochs, memory.life, memory.address, memory.bytes);
  left_out_ -= cut_.erase(s->base) * (memory.bytes - s->bytes);
  region_.remove_segment(s);
  return memory;
}

// Other chains of this context may hold memory that they do not use.
extent direct::reserve(allocation_request const& request) {
  try {
    return upstream_.reserve(request);
  } catch (driver::allocation_failed const& failed) {
    if (failed.code() != CUDA_ERROR_OUT_OF_MEMORY || home_.relieve == nullptr) throw;
  }
  // What it says is too little to rely on, as the driver's own pools give back too.
  home_.relieve(home_.context(), give_back_scope::done);
  extent memory;
  try {
    memory = upstream_.reserve(request);
  } catch (driver::allocation_failed const&) {
    home_.relieve(home_.context(), give_back_scope::all);
    memory = upstream_.reserve(request);
  }
  stats::add(count_device().rung_trimmed, 1);
  return memory;
}

space::handle direct::allocate(allocation_request const& request) {
  counted_request counted(count());
  stats::add(count().upstream, 1);
  space::handle const h = make(request);
  counted.served_by(blocks()[h]);
  return h;
}

space::handle direct::make(allocation_request const& request) {
  allocation_request rounded = request;
  rounded.bytes = space::units_of(request.bytes) * space::unit;
  if (rounded.bytes < request.bytes || rounded.bytes / space::unit > ~std::uint32_t{0}) {
    bool const on_device = home_.kind == driver::memory_kind::device;
    throw driver::allocation_failed(
        CUDA_ERROR_OUT_OF_MEMORY, "direct", "larger than any device",
        on_device ? driver::refused_by::largest_block : driver::refused_by::tables);
  }
  if (request.alignment > space::unit) rounded.bytes += request.alignment - space::unit;
  in_hand hand;
  rounded.hand = &hand;
  std::uint32_t const life = home_.epochs.life();
  extent const memory = reserve(rounded);
  space::handle h = space::none;
  std::uint32_t units = 0;
  bool ended = false;  // it is of the context that its handle names by now
  {
    base::lock_guard lock(mutex_);
    ended = home_.epochs.ended_since(life);
    // The new segment is the only idle space, so the search finds just that.
    if (!ended) units = add(memory, request.alignment);
    if (units != 0) h = region_.take(space::done, units, true);
    if (units != 0 && h == space::none) remove(region_.segments().back());
  }
  if (ended) {
    upstream_.release(memory, {});
    throw driver::allocation_failed(CUDA_ERROR_CONTEXT_IS_DESTROYED, "direct", "its context has ended");
  }
  if (h == space::none) {
    upstream_.release(memory, {.stream = request.stream, .may_wait = false});
    throw driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "direct", "no host memory for its tables",
                                    driver::refused_by::tables);
  }
  return h;
}

void direct::deallocate(space::handle h, free_order const& order) noexcept {
  std::uint64_t const bytes = bytes_of(h, order);
  extent memory;
  in_hand hand;
  // As long as the end of a context takes.
  for (int i = 0; GPUMEM_MUTANT(lost_block_kept) && i < 20; ++i) base::interleave_surely();
  {
    base::lock_guard lock(mutex_);
    bool const lost = home_.epochs.ended_since(order.life) && !GPUMEM_MUTANT(lost_block_kept) &&
                      !GPUMEM_MUTANT(late_free_kept);
    if (!lost) memory = remove(&home_.where.segments[blocks()[h].segment], &hand);
  }
  stats::add(count().bytes_out, bytes);
  if (memory.bytes == 0) return;  // it went with the context
  // Stream 0 by its other name: none at all would be all work of the context.
  bool const on_stream_0 = order.in_order && order.slot != stream_order::no_slot && order.stream == nullptr;
  upstream_.release(memory,
                    {.stream = on_stream_0 ? CU_STREAM_LEGACY : order.stream, .may_wait = !order.in_order});
}

space::handle direct::block_at(space::segment const& in, std::uint64_t address) noexcept {
  base::lock_guard lock(mutex_);
  return region_.has(in, address) ? walk_to(in, address) : space::none;
}

idle_usage direct::measure() noexcept {
  if (!mutex_.try_lock()) return {};  // at exit another thread may have stopped with it held
  std::uint64_t const left_out = left_out_;
  mutex_.unlock();
  return {.idle = left_out};
}

void direct::forget() noexcept {
  base::lock_guard lock(mutex_);
  for (space::segment* const s : region_.segments()) lose_blocks(*this, *s);
  recording::await_frees();
  while (!region_.segments().empty()) {
    space::segment* const s = region_.segments().back();
    upstream_.lost(whole(*s));
    remove(s);
  }
}

}  // namespace gpumem::resource
