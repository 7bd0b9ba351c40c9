// See backing.hpp.
#include "core/resource/pools/backing/backing.hpp"

#include <algorithm>

#include "core/base/mutant.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/resource/free_duties.hpp"
#include "core/resource/in_hand.hpp"

namespace gpumem::resource {

namespace {

constexpr std::uint64_t most_apart = 1ull << 30;  // and a quarter of what is reserved
constexpr std::uint64_t piece = 64ull << 20;      // that goes back between two questions

}  // namespace

bool backing::may_make_apart(std::uint64_t bytes) const noexcept {
  return apart_ + bytes <= most_apart + pool_.region.reserved_bytes() / 4 && !would_exceed(bytes);
}

void backing::hand_back(pool_lock& held, extent const& memory, bool may_wait) noexcept {
  unlocked const meanwhile(held);
  // As long as the end of a context takes.
  for (int i = 0; GPUMEM_MUTANT(lost_from_the_hand) && i < 20; ++i) base::interleave_surely();
  pool_.upstream.release(memory, {.may_wait = may_wait});
}

std::uint64_t backing::release_segment(pool_lock& held, space::segment* s, bool may_wait,
                                       bool done) noexcept {
  extent const memory{s->base, s->bytes, s->token, s->contextless, done, pool_.home.epochs.life()};
  if (s->apart) apart_ -= s->bytes;
  if (s->rotates) rotated_ -= s->bytes;
  in_hand hand;
  hand.hold(pool_.home.epochs, memory.life, memory.address, memory.bytes);
  pool_.region.remove_segment(s);
  hand_back(held, memory, may_wait);
  return memory.bytes;
}

void backing::release_ahead(pool_lock& held) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  suballocator_options const& o = pool_.options;
  while (may_give_back()) {
    std::uint64_t const idle = pool_.region.idle_bytes(), reserved = stays();
    std::uint64_t const most = std::min(
        {ahead.missing(), idle - std::min(idle, o.kept_idle), reserved - std::min(reserved, o.initial)});
    std::uint64_t const gone = most != 0 ? release_empty(held, idle - std::min(most, piece), true) : 0;
    if (gone == 0) return;
    ahead.note_given(gone);
  }
}

bool backing::is_done(space::segment const& s) const noexcept {
  space::block_table& blocks = pool_.home.where.blocks;
  for (space::handle h = s.first; h != space::none; h = blocks[h].after) {
    if (!pool_.home.epochs.is_done(blocks[h].freed)) return false;
  }
  return true;
}

std::uint64_t backing::release_withheld(pool_lock& held, bool may_wait) noexcept {
  GPUMEM_EXPECTS(held.owns_lock());
  std::uint64_t released = 0;
  while (space::segment* const s = pool_.region.left_segment())
    released += release_segment(held, s, may_wait, is_done(*s));
  return released;
}

}  // namespace gpumem::resource
