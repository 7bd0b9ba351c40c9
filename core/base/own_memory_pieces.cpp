// See own_memory_pieces.hpp.
#include "core/base/own_memory_pieces.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/own_memory.hpp"

namespace gpumem::base {

// A piece lies within a page: it is there as a whole or not at all. From the first that is not there on, none
// is known of.
own_memory_pieces::own_memory_pieces(places const& expected) noexcept {
  std::array<own_range, most_pieces> wanted;
  for (std::size_t i = 0; i < expected.count; ++i)
    wanted[i] = {reinterpret_cast<void const*>(expected.begins[i]), held_[i].data(), piece_bytes};
  count_ = read_own_memory({wanted.data(), expected.count}) / piece_bytes;
  for (std::size_t i = 0; i < count_; ++i) pieces_[i] = {.begin = expected.begins[i], .bytes = piece_bytes};
}

own_memory_pieces::piece* own_memory_pieces::find(std::uintptr_t begin) noexcept {
  auto const end = pieces_.begin() + count_;
  auto const found = std::find_if(pieces_.begin(), end, [begin](piece const& p) { return p.begin == begin; });
  return found != end ? &*found : nullptr;
}

own_memory_pieces::piece* own_memory_pieces::fetch(std::uintptr_t begin) noexcept {
  std::size_t const at = count_ < most_pieces ? count_++ : next_++ % most_pieces;
  std::size_t const bytes =
      read_own_memory(reinterpret_cast<void const*>(begin), held_[at].data(), piece_bytes);
  pieces_[at] = {.begin = begin, .bytes = bytes};
  return &pieces_[at];
}

bool own_memory_pieces::read(void const* from, void* to, std::size_t bytes) noexcept {
  auto at = reinterpret_cast<std::uintptr_t>(from);
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    std::uintptr_t const begin = at / piece_bytes * piece_bytes;
    std::size_t const part = std::min<std::size_t>(bytes, begin + piece_bytes - at);
    piece* found = find(begin);
    if (found == nullptr) found = fetch(begin);
    if (found->bytes != piece_bytes) return false;
    if (!std::exchange(found->used, true) && used_.count < most_pieces) used_.begins[used_.count++] = begin;
    std::memcpy(out, held_[static_cast<std::size_t>(found - pieces_.data())].data() + (at - begin), part);
    at += part, out += part, bytes -= part;
  }
  return true;
}

}  // namespace gpumem::base
