// See live_set.hpp. Linear probing; what is erased is closed by moving back what stands behind it.
#include "core/recording/live_set.hpp"

#include <sys/mman.h>

namespace gpumem::recording {
namespace {

std::size_t hash_of(key_kind keys, std::uint64_t address) noexcept {
  std::uint64_t value = (address ^ static_cast<std::uint64_t>(keys) << 60) * 0x9e3779b97f4a7c15ull;
  return static_cast<std::size_t>(value ^ value >> 32);
}

event* map_table(std::size_t places) noexcept {
  void* const made =
      ::mmap(nullptr, places * sizeof(event), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return made == MAP_FAILED ? nullptr : static_cast<event*>(made);
}

}  // namespace

live_set::~live_set() {
  clear();
}

void live_set::clear() noexcept {
  if (table_ != nullptr) ::munmap(table_, places_ * sizeof(event));
  table_ = nullptr;
  places_ = used_ = 0;
  full_ = false;
}

// Where it is, or the free place where it belongs. There is always a free one.
std::size_t live_set::place_of(key_kind keys, std::uint64_t address) const noexcept {
  std::size_t at = hash_of(keys, address) & (places_ - 1);
  while (table_[at].what != action::none && (table_[at].address != address || table_[at].keys != keys))
    at = (at + 1) & (places_ - 1);
  return at;
}

event const* live_set::find(key_kind keys, std::uint64_t address) const noexcept {
  if (used_ == 0) return nullptr;
  event const& there = table_[place_of(keys, address)];
  return there.what == action::none ? nullptr : &there;
}

bool live_set::grow() noexcept {
  std::size_t const more = places_ == 0 ? 1024 : places_ * 2;
  event* const old = table_;
  event* const made = map_table(more);
  if (made == nullptr) return false;
  std::size_t const before = places_;
  table_ = made;
  places_ = more;
  for (std::size_t i = 0; i < before; ++i) {
    if (old[i].what != action::none) table_[place_of(old[i].keys, old[i].address)] = old[i];
  }
  if (old != nullptr) ::munmap(old, before * sizeof(event));
  return true;
}

void live_set::erase(std::size_t place) noexcept {
  std::size_t hole = place;
  for (std::size_t at = (hole + 1) & (places_ - 1); table_[at].what != action::none;
       at = (at + 1) & (places_ - 1)) {
    std::size_t const home = hash_of(table_[at].keys, table_[at].address) & (places_ - 1);
    // It may move back unless its own place lies behind the hole.
    if (((at - home) & (places_ - 1)) < ((at - hole) & (places_ - 1))) continue;
    table_[hole] = table_[at];
    hole = at;
  }
  table_[hole] = {};
  --used_;
}

live_set::change live_set::apply(event const& one) noexcept {
  change result;
  bool const taken = is_begin(one.what);
  if (!taken && !is_end(one.what)) return result;
  if (taken && used_ * 4 >= places_ * 3 && !grow()) {
    full_ = true;
    return result;
  }
  result.known = !taken;
  if (places_ == 0) {
    result.known = false;
    return result;
  }
  std::size_t const place = place_of(one.keys, one.address);
  bool const there = table_[place].what != action::none;
  if (there) result.before = table_[place];
  result.known = there != taken;
  if (taken) {
    table_[place] = one;
    used_ += there ? 0 : 1;
  } else if (there) {
    erase(place);
  }
  return result;
}

}  // namespace gpumem::recording
