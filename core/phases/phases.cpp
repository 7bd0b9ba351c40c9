// See phases.hpp. One lock is around all of it; inside it the page's lock is taken, never the other way. What
// a reader of the page needs lies in the table, which is plain memory until there is a page; who follows whom
// on a thread's stack lies in `slots`, by the same number.
#include "core/phases/phases.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/threads/yielding_guard.hpp"
#include "core/recording/writer/record.hpp"
#include "core/stats/events/windows.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::phases {
namespace {

using slot_number = std::uint32_t;
constexpr slot_number none = ~slot_number{0};
constexpr std::size_t other = stats::max_phases - 1;  // the place of names without one
constexpr stack_of of_no_thread = ~stack_of{0};

struct slot {
  slot_number below = none;  // on its thread's stack; of a free one: the next free one
  stack_of which = 0;
  std::uint64_t serial = 0;  // 0: free
  std::uint64_t note = 0;
  bool is_told = false;           // to the recording
  std::uint32_t passed_over = 0;  // below it, and above the one below
};

// Of one thread. Kept as the value of a key and not in static TLS, of which there is little: 16 bits for the
// top, from 1 on, the rest for what was passed over.
struct thread_phases {
  slot_number top = none;
  std::uint32_t passed_over = 0;  // on top of them
};

pthread_key_t thread_key;
constinit std::atomic<bool> is_watched{false};  // there is a key

thread_phases unpacked(void const* value) noexcept {
  auto const word = reinterpret_cast<std::uintptr_t>(value);
  return {.top = static_cast<slot_number>(word & 0xffff) - 1,
          .passed_over = static_cast<std::uint32_t>(word >> 16)};
}

// Read where it is made, written back where it ends.
class own_phases {
 public:
  own_phases() noexcept
      : now(is_watched.load(std::memory_order_acquire) ? unpacked(pthread_getspecific(thread_key))
                                                       : thread_phases{}) {}
  ~own_phases() {
    std::uintptr_t const word = std::uintptr_t{now.passed_over} << 16 | (now.top + 1);
    if (is_watched.load()) pthread_setspecific(thread_key, reinterpret_cast<void*>(word));
  }
  own_phases(own_phases const&) = delete;
  own_phases& operator=(own_phases const&) = delete;

  thread_phases now;
};

constinit stats::phase_table before_page{};
constinit stats::phase_table* table = &before_page;
constinit std::array<slot, stats::max_open_phases> slots{};
constinit slot_number first_free = none, slots_used = 0;
constinit std::uint32_t names_used = 0;
constinit std::uint64_t last_serial = 0;
constinit std::array<std::uint16_t, 1024> by_hash{};  // place + 1
constinit std::atomic_flag busy{};

using stats::get;
using stats::set;

void increase(std::uint64_t& word, std::uint64_t by) noexcept {
  set(word, get(word) + by);
}

stats::page_header* head() noexcept {
  stats::page* const now = stats::current_page();
  return now == nullptr || table != &now->phases ? nullptr : &now->fixed.head;
}

std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t value = 0xcbf29ce484222325ull;
  for (char const letter : text) value = (value ^ static_cast<unsigned char>(letter)) * 0x100000001b3ull;
  return value ^ value >> 29;
}

// --- the table ---

void name_place(std::size_t place, std::string_view name) noexcept {
  stats::phase_entry& entry = table->phases[place];
  std::memcpy(entry.name, name.data(), name.size());
  entry.name[name.size()] = '\0';
  std::atomic_ref<std::uint64_t>(entry.ready).store(1, std::memory_order_release);
}

void tell_count() noexcept {
  if (stats::page_header* const to = head(); to != nullptr)
    std::atomic_ref<std::uint32_t>(to->phase_count).store(names_used, std::memory_order_release);
}

std::size_t place_of(phase_name const& name) noexcept {
  std::uint64_t const hash = hash_of(name.view());
  for (std::size_t at = hash % by_hash.size();; at = (at + 1) % by_hash.size()) {
    std::size_t const place = by_hash[at];
    if (place != 0 && name.view() == table->phases[place - 1].name) return place - 1;
    if (place != 0) continue;
    if (names_used == other) {
      if (get(table->phases[other].ready) == 0) name_place(other, "other");
      return other;
    }
    name_place(names_used, name.view());
    by_hash[at] = static_cast<std::uint16_t>(++names_used);
    tell_count();
    return names_used - 1u;
  }
}

// The first of this name that is open now: from here on its figures count.
void count_from(stats::phase_entry& entry, stats::counts_by_device const& counts) noexcept {
  for (std::size_t d = 0; d < counts.size(); ++d) {
    stats::phase_figures& of = entry.devices[d];
    set(of.requests_before, counts[d].requests);
    set(of.refusals_before, counts[d].refusals);
    set(of.growths_before, counts[d].growths);
  }
}
void count_until(stats::phase_entry& entry, stats::counts_by_device const& counts) noexcept {
  for (std::size_t d = 0; d < counts.size(); ++d) {
    stats::phase_figures& of = entry.devices[d];
    if (counts[d].requests == 0 && counts[d].growths == 0) continue;
    increase(of.requests, counts[d].requests - get(of.requests_before));
    increase(of.refusals, counts[d].refusals - get(of.refusals_before));
    increase(of.growths, counts[d].growths - get(of.growths_before));
  }
}

void move_to(stats::phase_table* to) noexcept {
  std::copy_n(table->phases, names_used, to->phases);
  to->phases[other] = table->phases[other];
  std::copy_n(table->open, slots_used, to->open);
  table = to;
  tell_count();
  stats::counts_by_device counts{};
  for (slot_number i = 0; i < slots_used; ++i) {
    if (slots[i].serial != 0) stats::open_window(i, counts);
  }
}

// Into the page as soon as there is one.
void look_for_page() noexcept {
  if (table != &before_page || stats::current_page() == nullptr) return;
  if (stats::phase_table* const found = stats::use_phases(); found != nullptr) move_to(found);
}

// The recording may begin while phases are open: page_opened() tells it of them.
void tell(bool begins, slot& of, std::size_t place) noexcept {
  if (!recording::is_on() || of.is_told == begins) return;
  of.is_told = begins;
  recording::note({.address = of.serial,
                   .number = static_cast<std::uint32_t>(place),
                   .what = begins ? recording::action::phase_begins : recording::action::phase_ends,
                   .keys = recording::key_kind::phase});
}

// --- one phase ---

slot_number take_slot() noexcept {
  if (first_free != none) {
    slot_number const taken = first_free;
    first_free = slots[taken].below;
    return taken;
  }
  return slots_used < slots.size() ? slots_used++ : none;
}

bool is_within_itself(std::size_t place, slot_number below) noexcept {
  for (slot_number i = below; i != none; i = slots[i].below) {
    if (get(table->open[i].phase) == place + 1) return true;
  }
  return false;
}

// Of no thread: `below` is none, and it stays out of all stacks.
slot_number enter(phase_name const& name, stack_of which, slot_number below) noexcept {
  look_for_page();
  std::size_t const place = place_of(name);
  stats::phase_entry& entry = table->phases[place];
  increase(entry.entered, 1);
  slot_number const number = take_slot();
  if (number == none) {
    if (stats::page_header* const to = head(); to != nullptr) increase(to->phases_unmeasured, 1);
    return none;
  }
  stats::open_phase& open = table->open[number];
  std::uint64_t const now = base::now_ns();
  slots[number] = {.below = below, .which = which, .serial = ++last_serial, .note = 0};
  set(open.began_ns, now);
  set(open.is_within, is_within_itself(place, below) ? 1 : 0);
  stats::counts_by_device counts{};
  stats::open_window(number, counts);
  if (get(entry.open) == 0) count_from(entry, counts);
  set(entry.open, get(entry.open) + 1);
  std::atomic_ref<std::uint64_t>(open.phase).store(place + 1, std::memory_order_release);
  if (stats::page_header* const to = head(); to != nullptr) set(to->phases_seen_ns, now);
  tell(true, slots[number], place);
  return number;
}

// Whoever reads meanwhile may miss what it adds, and never sees it twice.
void leave(slot_number number) noexcept {
  stats::open_phase& open = table->open[number];
  std::size_t const place = get(open.phase) - 1;
  stats::phase_entry& entry = table->phases[place];
  tell(false, slots[number], place);
  stats::counts_by_device counts{};
  stats::close_window(number, counts);
  for (std::size_t d = 0; d < stats::max_devices; ++d) {
    stats::phase_window& window = open.devices[d];
    stats::gauge_raise(entry.devices[d].highest, get(window.highest));
    stats::gauge_raise(entry.devices[d].added, get(window.highest) - get(window.began));
    set(window.began, 0), set(window.highest, 0);
  }
  set(entry.open, get(entry.open) - 1);
  if (get(entry.open) == 0) count_until(entry, counts);
  std::uint64_t const now = base::now_ns();
  std::atomic_ref<std::uint64_t>(open.phase).store(0, std::memory_order_release);
  if (get(open.is_within) == 0) increase(entry.inside_ns, now - get(open.began_ns));
  if (stats::page_header* const to = head(); to != nullptr) set(to->phases_seen_ns, now);
  slots[number] = {.below = first_free};
  first_free = number;
}

void end_all_of_thread(void* value) noexcept {
  base::yielding_guard const guard(busy);
  for (slot_number last = unpacked(value).top; last != none;) {
    slot_number const below = slots[last].below;
    leave(last);
    last = below;
  }
}

// All are its parent's.
void forget_in_child() {
  if (names_used != 0) {
    std::fill_n(before_page.phases, names_used, stats::phase_entry{});
    before_page.phases[other] = {};
    std::fill_n(before_page.open, slots_used, stats::open_phase{});
    std::fill_n(slots.begin(), slots_used, slot{});
    by_hash.fill(0);
  }
  table = &before_page;
  first_free = none;
  slots_used = names_used = 0;
  own_phases mine;
  mine.now = {};
  stats::forget_windows();
  busy.clear();
}

// False: there is no key to be had (yet), and nobody would hear of the end of a thread.
bool watch() noexcept {
  if (is_watched.load(std::memory_order_acquire)) return true;
  base::yielding_guard const guard(busy);
  if (is_watched.load()) return true;
  static constinit bool forks_are_watched = false;
  if (!forks_are_watched) pthread_atfork(nullptr, nullptr, &forget_in_child);
  forks_are_watched = true;
  auto const at_end = [](void* value) { end_all_of_thread(value); };
  if (pthread_key_create(&thread_key, at_end) == 0) is_watched.store(true, std::memory_order_release);
  return is_watched.load();
}

bool take_passed_over(thread_phases& mine) noexcept {
  if (mine.passed_over == 0) return false;
  --mine.passed_over;
  return true;
}

}  // namespace

bool begin(phase_name const& name, stack_of which) noexcept {
  if (!watch()) return false;
  base::yielding_guard const guard(busy);
  own_phases mine;
  slot_number const number = enter(name, which, mine.now.top);
  if (number == none) {
    ++mine.now.passed_over;
    return false;
  }
  slots[number].passed_over = std::exchange(mine.now.passed_over, 0);
  mine.now.top = number;
  return true;
}

bool end(stack_of which) noexcept {
  base::yielding_guard const guard(busy);
  own_phases mine;
  if (take_passed_over(mine.now)) return true;
  slot_number* link = &mine.now.top;
  std::uint32_t* passed = &mine.now.passed_over;
  for (; *link != none && slots[*link].which != which; link = &slots[*link].below)
    passed = &slots[*link].passed_over;
  if (*link == none) return false;
  slot_number const number = *link;
  *link = slots[number].below;
  *passed += slots[number].passed_over;
  leave(number);
  return true;
}

int depth(stack_of which) noexcept {
  base::yielding_guard const guard(busy);
  own_phases const mine;
  int count = static_cast<int>(mine.now.passed_over);
  for (slot_number i = mine.now.top; i != none; i = slots[i].below)
    count += static_cast<int>(slots[i].passed_over) + (slots[i].which == which ? 1 : 0);
  return count;
}

std::uint64_t start(phase_name const& name, std::uint64_t note) noexcept {
  watch();
  base::yielding_guard const guard(busy);
  slot_number const number = enter(name, of_no_thread, none);
  if (number == none) return 0;
  slots[number].note = note;
  return slots[number].serial << 16 | number;
}

bool stop(std::uint64_t phase, std::uint64_t& note) noexcept {
  base::yielding_guard const guard(busy);
  auto const number = static_cast<slot_number>(phase & 0xffff);
  if (phase == 0 || number >= slots.size() || slots[number].serial != phase >> 16) return false;
  if (slots[number].which != of_no_thread) return false;
  note = slots[number].note;
  leave(number);
  return true;
}

void pass_over() noexcept {
  if (!watch()) return;
  own_phases mine;
  ++mine.now.passed_over;
}

bool was_passed_over() noexcept {
  own_phases mine;
  return take_passed_over(mine.now);
}

std::uint32_t innermost() noexcept {
  base::yielding_guard const guard(busy);
  slot_number const own = own_phases().now.top;
  slot_number found = own;
  for (slot_number i = 0; own == none && i < slots_used; ++i) {
    if (found == none || slots[i].serial > slots[found].serial) found = i;
  }
  bool const is_one = found != none && slots[found].serial != 0;
  return is_one ? static_cast<std::uint32_t>(get(table->open[found].phase)) : 0;
}

void page_opened() noexcept {
  base::yielding_guard const guard(busy);
  if (names_used != 0) look_for_page();
  for (slot_number i = 0; i < slots_used; ++i) {
    if (slots[i].serial != 0) tell(true, slots[i], get(table->open[i].phase) - 1);
  }
}

}  // namespace gpumem::phases
