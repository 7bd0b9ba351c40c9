// How a suballocator takes segments from its source and gives empty ones back; and how it serves as the
// source of another resource. Under the mutex, which is released around driver calls: other threads'
// requests go on meanwhile. growth_policy says how much; paged_growth.cpp is for sources of pages.
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/contract.hpp"
#include "core/base/text/bytes.hpp"
#include "core/resource/pools/suballocator.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::resource {

namespace {

constexpr std::uint64_t most_of_a_piece = 256ull << 20;

}  // namespace

driver::allocation_failed suballocator::at_maximum(std::uint64_t asked) const noexcept {
  char text[160];
  std::snprintf(text, sizeof text, "%s %.16s, reserved %.16s, asked %.16s", options_.maximum_option,
                base::print_bytes(options_.maximum).view().data(),
                base::print_bytes(region_.reserved_bytes()).view().data(),
                base::print_bytes(asked).view().data());
  return refusal(driver::refused_by::pool_maximum, text);
}

// Adds a segment for the request; throws what upstream throws. The mutex is given up meanwhile, held again on
// return.
space::handle suballocator::grow(lock& held, slow_request& c, std::uint64_t at_least, bool padded) {
  GPUMEM_EXPECTS(held.owns_lock());
  watched_ns_ = 0;
  c.grew = true;
  if (pages_ != nullptr) return grow_in_pages(held, c, at_least, most_of_a_piece);
  // Segments of a driver begin at pages, which is aligned enough for nearly all; one made for one block has
  // to hold it.
  std::uint64_t const bytes = padded || c.apart ? c.room() : c.units * space::unit;
  // Where memory is short, or to be spared: what is empty is of no use for this request.
  if (std::uint64_t const idle = region_.idle_bytes(); idle > 0 && would_exceed(bytes))
    release_empty(held, idle - std::min(idle, bytes));
  std::uint64_t const taken = region_.reserved_bytes() + growing_;
  if (taken > options_.maximum || bytes > options_.maximum - taken) {
    throw at_maximum(bytes);
  }
  std::uint64_t size =
      std::min(policy().step(std::max(bytes, at_least), region_.reserved_bytes(), home_.epochs.capturing()),
               options_.maximum - taken) /
      space::unit * space::unit;
  if (c.apart) size = bytes;
  stats::add(count().upstream, 1);
  growing_ += size;
  extent memory{};
  for (;;) {
    held.unlock();
    try {
      memory = upstream_.reserve({.bytes = size, .flags = c.request.flags, .alignment = c.request.alignment});
      held.lock();
      break;
    } catch (driver::allocation_failed const&) {
      held.lock();
      growing_ -= size;
      if (size == bytes) throw;
      size = bytes;  // the request itself may still fit
      growing_ += size;
    }
  }
  growing_ -= size;
  // What came back after the context ended is of the one that its handle names by now.
  if (home_.epochs.life() != 0) {
    held.unlock();
    upstream_.release(memory, nullptr);
    held.lock();
    throw driver::allocation_failed(CUDA_ERROR_CONTEXT_IS_DESTROYED, name_, "its context has ended");
  }
  if (!region_.add_segment(memory.address, memory.bytes, memory.token)) {
    held.unlock();
    upstream_.release(memory, nullptr);
    held.lock();
    throw refusal(driver::refused_by::tables, "no host memory for its tables");
  }
  space::segment* const made = region_.segments().back();
  made->apart = c.apart;
  if (c.apart) apart_ += size;
  space::handle const h =
      c.apart ? region_.take_from(made->first, 0, c.units, c.hidden, c.request.alignment) : search(c, true);
  if (h == space::none && !padded && c.request.alignment > space::unit) return grow(held, c, at_least, true);
  if (h == space::none) throw refusal(driver::refused_by::tables, "no host memory for its tables");
  return h;
}

std::uint64_t suballocator::release_empty(lock& held, std::uint64_t keep_idle) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  if (pages_ != nullptr) return release_pages(held, keep_idle);
  std::uint64_t released = release_left(held);
  while (region_.idle_bytes() > keep_idle || keep_idle == 0) {
    space::segment* const s = region_.empty_segment();
    if (s == nullptr) break;
    released += release_segment(held, s);
  }
  return released;
}

std::uint64_t suballocator::release_segment(lock& held, space::segment* s) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  extent const memory{s->base, s->bytes, s->token};
  if (s->apart) apart_ -= s->bytes;
  region_.remove_segment(s);
  held.unlock();
  upstream_.release(memory, nullptr);
  held.lock();
  return memory.bytes;
}

std::uint64_t suballocator::give_back() noexcept {
  lock held(mutex_);
  flush(nullptr);
  held.unlock();
  home_.epochs.wait(home_.epochs.open());
  held.lock();
  reap();
  std::uint64_t const released = release_empty(held, 0);
  held.unlock();
  return released + upstream_.trim();
}

// As the source of a resource above: a block that the program never sees, so it is hidden from the block map.
extent suballocator::reserve(allocation_request const& request) {
  std::uint32_t const units = rounded_units(request.bytes);
  allocation_request const plain{
      .bytes = request.bytes, .flags = request.flags, .alignment = request.alignment};
  slow_request c{.request = plain, .units = units, .hidden = true, .waiting = {}};
  space::handle const h = allocate_counted(c);
  return {blocks()[h].begin(), units * space::unit, h};
}

void suballocator::release(extent const& memory, CUstream) noexcept {
  auto const h = static_cast<space::handle>(memory.token);
  stats::add(count().bytes_out, memory.bytes);
  if (blocks()[h].is(space::exported)) return withhold(h, {});
  lock held(mutex_);
  region_.put(h, space::done);
}

}  // namespace gpumem::resource
