// What must always hold of a region, checked block by block: used by its random test and by the fuzzer.
// Walks the segments from outside, through public members only; complain() gets one line for each violation.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "core/space/region.hpp"

namespace gpumem::space {

class nobody final : public segment_owner {};               // of segments that nothing asks for their owner
inline constexpr std::uint64_t first_address = 1ull << 40;  // of what a test adds

// What the caller of a region knows.
struct region_model {
  std::map<std::uint64_t, std::uint64_t> segments;  // base -> bytes
  std::set<handle> out;                             // live (or cached) blocks
  std::set<handle> hidden;                          // of these, not in the map
};

template <typename Complain>
void check_region(block_registry& where, region& space, region_model const& model, Complain complain) {
  std::uint64_t idle = 0, unfinished = 0, reserved = 0, largest = 0;
  std::size_t empty = 0;
  std::set<handle> out;
  if (space.segments().size() != model.segments.size()) complain("number of segments");
  for (segment const* s : space.segments()) {
    auto const known = model.segments.find(s->base);
    if (known == model.segments.end() || known->second != s->bytes) complain("a segment nobody added");
    std::uint64_t at = s->base;
    handle before = none;
    for (handle h = s->first; h != none; h = where.blocks[h].after) {
      block const& b = where.blocks[h];
      if (b.begin() != at) complain("a gap or an overlap at " + std::to_string(at));
      if (b.units == 0) complain("an empty block");
      if (b.before != before) complain("a neighbour that does not know its neighbour");
      if (&where.segments[b.segment] != s) complain("a block of another segment");
      bool const hole = b.now.load() == state::hole;
      if (!hole) reserved += b.bytes();
      if (hole && before != none && where.blocks[before].now.load() == state::hole)
        complain("holes that are not merged");
      bool const found = where.map.find(b.begin()) == h;
      if (found != b.is(mapped)) complain("the map and the block disagree");
      space.map_starts(*s);
      for (std::uint64_t const address : {b.begin(), b.begin() + b.bytes() / 2, b.end() - 1}) {
        if (space.block_at(*s, address) != (found ? h : none))
          complain("an address whose block is not found");
      }
      if (b.now.load() == state::idle) {
        idle += b.bytes();
        largest = std::max(largest, b.bytes());
        if (b.where != done) unfinished += b.bytes();
        if (b.where == done && b.bytes() == s->bytes) ++empty;
        if (before != none && where.blocks[before].now.load() == state::idle &&
            where.blocks[before].where == b.where) {
          complain("idle neighbours of one domain that are not merged");
        }
      } else if (!hole) {
        out.insert(h);
        if (found == model.hidden.contains(h)) complain("hidden and findable, or neither");
      }
      at = b.end();
      before = h;
    }
    if (at != s->base + s->bytes) complain("a segment that does not end where it should");
  }
  if (out != model.out) complain("the live blocks are not those handed out");
  if (idle != space.idle_bytes()) complain("idle bytes");
  if (empty != space.empty_segments()) complain("segments of which nothing is in use");
  if (unfinished != space.pending_bytes()) complain("pending bytes");
  if (reserved != space.reserved_bytes()) complain("reserved bytes");
  if (largest != space.largest_idle()) complain("largest idle");
  if (space.has_pending() != (unfinished > 0)) complain("has_pending");
}

}  // namespace gpumem::space
