// See direct.hpp.
#include "core/resource/direct.hpp"

namespace gpumem::resource {

space::handle direct::allocate(demand const& wish) {
  stats::add(count().requests, 1);
  stats::add(count().upstream, 1);
  demand rounded = wish;
  rounded.bytes = space::units_of(wish.bytes) * space::unit;
  if (rounded.bytes < wish.bytes || rounded.bytes / space::unit > ~std::uint32_t{0}) {
    throw driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "direct", "larger than any device",
                                    driver::refused_by::largest_block);
  }
  extent memory{};
  try {
    memory = upstream_.reserve(rounded);
  } catch (driver::allocation_failed const& failed) {
    // Other chains of this context may hold memory that they do not use.
    stats::add(count().failed, 1);
    if (failed.code() != CUDA_ERROR_OUT_OF_MEMORY || home_.relieve == nullptr) throw;
    home_.relieve(home_.context);  // says too little of what the driver's own pools gave back to rely on
    memory = upstream_.reserve(rounded);
  }
  std::unique_lock lock(mutex_);
  space::handle h = space::none;
  // The new segment is the only idle space, so the search finds just that.
  if (region_.add_segment(memory.address, memory.bytes, memory.token)) {
    h = region_.take(space::done, static_cast<std::uint32_t>(memory.bytes / space::unit), true);
  }
  lock.unlock();
  if (h == space::none) {
    upstream_.release(memory, wish.stream);
    throw driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "direct", "no host memory for its tables",
                                    driver::refused_by::host_memory);
  }
  stats::add(count().bytes_in, memory.bytes);
  return h;
}

void direct::deallocate(space::handle h, order when) noexcept {
  std::unique_lock lock(mutex_);
  space::segment* const s = &home_.where.segments[blocks()[h].segment];
  extent const memory{s->base, s->bytes, s->token};
  region_.remove_segment(s);
  lock.unlock();
  stats::add(count().bytes_out, memory.bytes);
  upstream_.release(memory, when.slot != stream_order::no_slot ? when.stream : nullptr);
}

space::handle direct::block_at(space::segment const& in, std::uint64_t address) noexcept {
  std::lock_guard lock(mutex_);
  return resource::block_at(in, address);
}

void direct::forget() noexcept {
  std::lock_guard lock(mutex_);
  while (!region_.segments().empty()) {
    space::segment* const s = region_.segments().back();
    upstream_.lost({s->base, s->bytes, s->token});
    region_.remove_segment(s);
  }
}

}  // namespace gpumem::resource
