// See samples.hpp. Which bytes are drawn depends on what the thread requested and on nothing else, so that a
// run is like the next. No mathematical library: gpumem needs only the C library.
#include "core/stats/callers/samples.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <span>

#include "core/base/clock.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/base/threads/walk_stack.hpp"
#include "core/stats/callers/modules.hpp"
#include "core/stats/callers/python/frames.hpp"
#include "core/stats/callers/thread_memory.hpp"
#include "core/stats/page/page_state.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::stats {
namespace {

constinit std::atomic<std::uint64_t> interval{usual_sample_every};

constexpr std::uint64_t never = ~std::uint64_t{0};
constexpr std::uint64_t most_bytes = (std::uint64_t{1} << 48) - 1;

constexpr std::uint64_t mixed(std::uint64_t value) noexcept {  // splitmix64
  value += 0x9e3779b97f4a7c15ull;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ull;
  value = (value ^ value >> 27) * 0x94d049bb133111ebull;
  return value ^ value >> 31;
}

double chance_of_none(double intervals) noexcept {  // exp(-intervals), for up to 40
  double const part = -intervals / 64;
  double power = 1 + part * (1 + part / 2 * (1 + part / 3 * (1 + part / 4 * (1 + part / 5))));
  for (int i = 0; i < 6; ++i) power *= power;
  return power;
}

// --- the walks: at most 100 at once and 100 a second ---

constexpr std::uint64_t walk_ns = 10'000'000;
constexpr std::uint64_t walks_at_once = 100;
constinit std::atomic<std::uint64_t> walks_end{
    0};  // when all walks so far would have ended, one each walk_ns

bool may_walk() noexcept {
  if (!base::walks_take_no_lock.load(std::memory_order_relaxed)) return false;
  std::uint64_t const now = base::now_ns();
  std::uint64_t end = walks_end.load(std::memory_order_relaxed);
  for (;;) {
    if (end > now + (walks_at_once - 1) * walk_ns) return false;
    std::uint64_t const next = std::max(end, now) + walk_ns;
    if (walks_end.compare_exchange_weak(end, next, std::memory_order_relaxed)) return true;
  }
}

// --- the site that a caller had last, at the same place in Python code ---

// One word, so that it is read and written whole. Where the same stack was found again, the next walk comes
// after twice as many samples.
struct remembered {
  std::uint32_t tag;
  std::uint16_t site;
  std::uint8_t left;       // samples until the next walk
  std::uint8_t doublings;  // so far
};
static_assert(sizeof(remembered) == 8 && max_call_sites < 1 << 16);
constexpr std::uint8_t most_doublings = 8;

alignas(64) constinit std::array<std::atomic<std::uint64_t>, 512> last_sites{};

call_site walked_or_caller(sampled_request const& request, bool walk) noexcept {
  base::uncancelled const held;
  std::size_t const node = sample_node_of(request.device_slot);
  call_site found = no_site;
  if (request.caller != nullptr) {
    if (walk) found = site_of_stack(node, request.caller);
    if (found == no_site) found = site_of(node, {&request.caller, 1});
  }
  return found != no_site ? found : site_of(node, {});
}

// --- the place in Python code, whose frames take a call of the system (11 us where caches are cold) ---

// In a loop that asks for the same size from the same native code again and again, within a millisecond or
// two, and has been at the same place so many times, it is asked at one request in four: three blocks at
// most go to the line before.
constexpr int settled = 16;
constexpr std::uint64_t soon_ns = 6'000'000;  // for all that may be left

std::uint64_t python_place(std::uint64_t native) noexcept {
  thread_memory* const last = memory_of_this_thread();
  if (last == nullptr) return python::place_of_this_thread(nullptr);
  std::uint64_t const now = base::now_ns();
  bool const again = native == last->native && now - last->asked_ns < soon_ns;
  if (again && last->left != 0) {
    --last->left;
    return last->place;
  }
  std::uint64_t const place = python::place_of_this_thread(&last->frames);
  last->same = again && place == last->place ? std::min(last->same + 1, settled) : 0;
  last->left = last->same == settled && place != 0 ? 3 : 0;
  last->native = native;
  last->place = place;
  last->asked_ns = now;
  return place;
}

call_site site_for(sampled_request const& request) noexcept {
  std::uint64_t const native =
      mixed(reinterpret_cast<std::uint64_t>(request.caller) ^
            mixed(reinterpret_cast<std::uint64_t>(request.stack) + request.device_slot));
  std::uint64_t const key = mixed(native ^ (python::is_here() ? python_place(native + request.bytes) : 0));
  auto& place = last_sites[key % last_sites.size()];
  auto last = std::bit_cast<remembered>(place.load(std::memory_order_relaxed));
  auto const tag = static_cast<std::uint32_t>(key >> 32);
  bool const known = last.tag == tag && last.site != no_site;
  if (known && last.left != 0) {
    --last.left;
    place.store(std::bit_cast<std::uint64_t>(last), std::memory_order_relaxed);
    return last.site;
  }
  bool const walk = may_walk();
  if (known && !walk) return last.site;
  call_site const found = walked_or_caller(request, walk);
  bool const again = known && last.site == found;
  if (!again) last.doublings = 0;
  if (again && last.doublings < most_doublings) ++last.doublings;
  unsigned const until_next = walk ? (1u << last.doublings) - 1 : 0;
  remembered const next{tag, static_cast<std::uint16_t>(found), static_cast<std::uint8_t>(until_next),
                        last.doublings};
  place.store(std::bit_cast<std::uint64_t>(next), std::memory_order_relaxed);
  return found;
}

// --- what this thread counts for a site ---

void add_shared(std::uint64_t& counter, std::uint64_t amount) noexcept {
  std::atomic_ref<std::uint64_t>(counter).fetch_add(amount, std::memory_order_relaxed);
}

// A reader that comes between sees it twice.
site_tally& tally_of(page& now, std::uint64_t site) noexcept {
  site_tally& mine = local().sites[site % site_tallies];
  std::uint64_t const before = get(mine.site);
  if (before == site) return mine;
  if (before != no_site) {
    call_site_entry& entry = now.callers.sites[before - 1];
    add_shared(entry.allocations, mine.allocations);
    add_shared(entry.allocated_bytes, mine.allocated_bytes);
    add_shared(entry.frees, mine.frees);
    add_shared(entry.freed_bytes, mine.freed_bytes);
  }
  set(mine.site, no_site);
  set(mine.allocations, 0), set(mine.allocated_bytes, 0), set(mine.frees, 0), set(mine.freed_bytes, 0);
  set(mine.site, site);
  return mine;
}

sample sampled(std::uint64_t every, sampled_request const& request) noexcept {
  if (std::atomic_ref<std::uint32_t>(current_page()->fixed.head.sites_in_use).load() == 0)
    open_caller_tables();
  sample taken;
  taken.bytes = sampled_weight(every, request.bytes) & most_bytes;
  taken.site = static_cast<std::uint16_t>(site_for(request));
  return taken;
}

}  // namespace

void use_samples(std::uint64_t every) noexcept {
  interval.store(every, std::memory_order_relaxed);
  if (page* const now = current_page(); now != nullptr) set(now->fixed.head.sample_every, every);
}

bool prepare_samples() noexcept {
  if (interval.load(std::memory_order_relaxed) == 0 || !open_caller_tables()) return false;
  if (!base::walks_take_no_lock.load(std::memory_order_relaxed)) return true;
  void const* frames[most_frames];
  std::size_t const count = base::walk_stack(__builtin_return_address(0), frames);
  // The files that most requests come from: the program's own, and what sets CUDA up for it.
  for (void const* frame : std::span(frames).first(count)) module_of(frame);
  return true;
}

void forget_sampled_sites() noexcept {
  for (auto& place : last_sites) place.store(0, std::memory_order_relaxed);
}

// Of an exponential distribution: a drawn byte says nothing about the next. The logarithm is that of the
// leading bit and, between two powers of two, a parabola, which makes the mean exact.
std::uint64_t sampling_gap(std::uint64_t every, std::uint64_t seed) noexcept {
  if (every <= 1) return 1;
  std::uint64_t const random = mixed(seed) | 1;
  int const leading = std::countl_zero(random);
  double const fraction = static_cast<double>(random << leading << 1) * 0x1p-64;
  double const logarithm = leading + 1 - fraction - 0.34382 * fraction * (1 - fraction);
  double const gap = logarithm * 0.69314718 * static_cast<double>(every);
  return gap < 1 ? 1 : gap > 0x1p62 ? std::uint64_t{1} << 62 : static_cast<std::uint64_t>(gap);
}

std::uint64_t sampled_weight(std::uint64_t every, std::uint64_t bytes) noexcept {
  double const size = static_cast<double>(bytes);
  double const intervals = size / static_cast<double>(every);
  if (every <= 1 || intervals > 40) return bytes;
  if (intervals < 0.5) {  // the same as below without its loss of digits
    double const part = 1 + intervals / 2 + intervals * intervals / 12;
    return static_cast<std::uint64_t>(part * static_cast<double>(every) + 0.5);
  }
  return static_cast<std::uint64_t>(size / (1 - chance_of_none(intervals)) + 0.5);
}

// --- loops that do nothing but allocate and free ---

// A sample costs as much as a few pairs. Where a thread asks more than once in two microseconds, over a
// row of samples, it does nothing else: there one request in so many is a sample at most, and stands for
// more. Programs that launch a kernel for what they allocate do not ask so often.
constexpr std::uint64_t fast_request_ns = 2'000;
constexpr std::uint64_t thinned = 128;
constexpr std::uint64_t row_length = 32, thinned_row_length = 4;

// After this sample. Reads the clock at the end of each row.
void pace(device_counters& mine, std::uint64_t every) noexcept {
  std::uint64_t const row = get(mine.samples_row) + 1;
  bool const thin = get(mine.samples_interval) != 0;
  if (row < (thin ? thinned_row_length : row_length)) {
    set(mine.samples_row, row);
    return;
  }
  std::uint64_t const now = base::now_ns(), blocks = get(mine.allocated_blocks),
                      bytes = get(mine.allocated_requested);
  std::uint64_t const requests = std::max<std::uint64_t>(blocks - get(mine.samples_blocks), 1);
  std::uint64_t const mean = (bytes - get(mine.samples_bytes)) / requests;
  bool const fast = now - get(mine.samples_since) < fast_request_ns * requests;
  bool const longer = fast && mean > every / thinned;
  set(mine.samples_interval, longer ? thinned * std::min(mean, most_bytes / thinned) : 0);
  set(mine.samples_row, 0);
  set(mine.samples_since, now);
  set(mine.samples_blocks, blocks);
  set(mine.samples_bytes, bytes);
}

std::uint64_t interval_now(device_counters& mine, std::uint64_t every) noexcept {
  std::uint64_t const longer = get(mine.samples_interval);
  return longer != 0 ? longer : every;
}

call_site site_of_refused(std::size_t device_slot, void const* caller) noexcept {
  if (caller == nullptr || !open_caller_tables()) return no_site;
  bool const walk = base::walks_take_no_lock.load(std::memory_order_relaxed);
  return walked_or_caller({.device_slot = device_slot, .caller = caller}, walk);
}

// `due`: what allocated_requested is at the next sampled byte.
[[gnu::always_inline]] static inline sample take_sample_at(std::uint64_t& due, device_counters& mine,
                                                           sampled_request const& request) noexcept {
  std::uint64_t const every = interval.load(std::memory_order_relaxed);
  page* const now = current_page();
  if (now == nullptr) return {};
  if (every == 0) {
    set(due, never);
    return {};
  }
  std::uint64_t const requested = get(mine.allocated_requested);
  // Another one for each thread and device, the same in each run. Wherever the page has its shards: a change
  // of layout is not to draw other samples, which what programs report, and cost, can be compared by.
  constexpr std::uint64_t first_seed = 1'905'672;
  std::uint64_t const seed =
      first_seed + static_cast<std::uint64_t>(reinterpret_cast<char*>(&mine) -
                                              reinterpret_cast<char*>(now->shards[0].counters.devices));
  std::uint64_t at = get(due);
  if (at == 0) {  // the first request of this shard
    std::uint64_t const before = requested - request.bytes;
    at = before + sampling_gap(every, mixed(seed) + before);
    set(due, at);
    if (requested < at) return {};
  }
  // By the interval that this one was drawn with.
  sample const taken = sampled(interval_now(mine, every), request);
  if (every > 1) pace(mine, every);
  set(due, requested + sampling_gap(interval_now(mine, every), mixed(seed) + at));
  count_sampled(taken);
  return taken;
}

sample take_sample(device_counters& mine, sampled_request const& request) noexcept {
  return take_sample_at(mine.samples_at, mine, request);
}

sample take_sample_of_every_request(device_counters& mine, sampled_request const& request) noexcept {
  if (get(mine.samples_due) > get(mine.allocated_requested)) return {};
  return take_sample_at(mine.samples_due, mine, request);
}

sample choose_observed(sampled_request const& request) noexcept {
  static constinit std::atomic<std::uint64_t> drawn{0};
  std::uint64_t const every = interval.load(std::memory_order_relaxed);
  if (every == 0 || current_page() == nullptr || request.bytes == 0) return {};
  std::uint64_t const seed = drawn.fetch_add(1, std::memory_order_relaxed);
  return sampling_gap(every, mixed(~seed)) <= request.bytes ? sampled(every, request) : sample{};
}

void count_sampled(sample const& of) noexcept {
  page* const now = current_page();
  if (of.is_none() || now == nullptr) return;
  site_tally& mine = tally_of(*now, of.site);
  add(mine.allocations, 1);
  add(mine.allocated_bytes, of.bytes);
}

void count_sampled_free(sample const& of) noexcept {
  page* const now = current_page();
  if (of.is_none() || now == nullptr) return;
  site_tally& mine = tally_of(*now, of.site);
  add(mine.frees, 1);
  add(mine.freed_bytes, of.bytes);
}

}  // namespace gpumem::stats
