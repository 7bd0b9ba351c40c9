// See router.hpp. Here: requests and frees. What the shim observes is in observe.cpp, questions about memory
// in ask.cpp.
#include "core/route/router.hpp"

#include "core/base/mutant.hpp"
#include "core/route/limits.hpp"
#include "core/route/state.hpp"
#include "core/stats/state_page.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::route {

namespace {

bool counts_as_device(driver::memory_kind kind) noexcept {
  return kind != driver::memory_kind::host;
}

outcome refuse(driver::request const& request, context_entry& entry, resource::chain& chain,
               driver::allocation_failed const& failed, CUdeviceptr* result) noexcept {
  note_refusal({.bytes = request.bytes,
                .stream = reinterpret_cast<std::uint64_t>(request.stream),
                .hook = request.hook,
                .device = entry.device},
               failed, chain.measure());
  *result = 0;  // as the driver does when it refuses (measured, design.md section 10 notwithstanding)
  return {true, failed.code()};
}

// The first rule that matches names the chain; false: the driver must answer.
bool take_rule(rule_set& rules, context_entry const& entry, driver::request const& request,
               std::size_t& number) noexcept {
  std::size_t const taken = rules.match(request, entry.device);
  if (taken == rule_set::none) return true;
  entry.count_rule(taken, request.bytes);
  number = rules[taken].chain;
  return number != passthrough;
}

// Host memory is every device's: natively its free waits for the work of all contexts. The epochs of its own
// context cover that one's; the host waits for the others. False where that cannot be had now.
bool others_are_done(state& s, resource::habitat const& home) noexcept {
  bool done = true;
  s.known.each([&](context_entry& e) {
    if (&e.order == &home.when || e.order.broken()) return;
    done = e.order.synchronize() == CUDA_SUCCESS && done;
  });
  return done;
}

}  // namespace

outcome allocate(driver::request const& request, CUdeviceptr* result) noexcept {
  state* const s = present;
  if (s == nullptr) return pass;
  stream_place const place = request.stream_ordered ? place_of(*s, request.stream, request.context)
                                                    : stream_place{.entry = entry_of(*s, request.context)};
  context_entry* const entry = place.entry;
  if (entry == nullptr || entry->order.broken()) return pass;
  std::size_t number = static_cast<std::size_t>(request.kind);
  if (s->rules != nullptr && !take_rule(*s->rules, *entry, request, number)) return pass;
  resource::chain* const chain = entry->chain_of(number, s->factory);
  if (chain == nullptr) return pass;
  resource::demand wish{
      .bytes = request.bytes, .flags = request.flags, .hook = request.hook, .caller = request.caller};
  if (request.stream_ordered) {
    if (s->has_own_pool(entry->device) || place.capturing) return pass;
    wish.stream = request.stream;
    wish.slot = GPUMEM_MUTANT(wrong_slot) ? stream_order::slot{1} : place.slot;
  }
  space::handle h = space::none;
  try {
    h = chain->top().allocate(wish);
  } catch (driver::allocation_failed const& failed) {
    return refuse(request, *entry, *chain, failed, result);
  }
  space::block& b = s->where.blocks[h];
  std::uint64_t const handed = b.bytes();
  b.slack = static_cast<std::uint32_t>(handed - request.bytes);
  b.where = wish.slot;
  b.exported = 0;
  *result = b.begin();
  stats::shard& mine = stats::local();
  stats::size_bucket& bucket = mine.sizes[stats::bucket_of(request.bytes)];
  stats::add(bucket.count, 1);
  stats::add(bucket.bytes, request.bytes);
  if (counts_as_device(request.kind)) {
    auto& counters = mine.devices[stats::device_slot(entry->device)];
    stats::add(counters.allocated_blocks, 1);
    stats::add(counters.allocated_requested, request.bytes);
    stats::add(counters.allocated_handed, handed);
  }
  if (resource::reserved_changed) sample(*entry);
  return {true, CUDA_SUCCESS};
}

outcome release(driver::release const& release) noexcept {
  state* const s = present;
  if (s == nullptr) return pass;
  space::handle const h = s->where.map.find(release.address);
  if (h == space::none) return unknown_free(*s, release.address);
  space::block& b = s->where.blocks[h];
  if (b.now.load(std::memory_order_acquire) != space::state::live) return unknown_free(*s, release.address);
  resource::resource& owner = resource::owner_of(s->where, h);
  resource::habitat const& home = owner.home();
  if (home.when.broken()) return pass;  // the driver tells the program that its context is lost
  if (!still_of(home, release.address)) return pass;
  if ((home.kind == driver::memory_kind::host) != (release.kind == driver::memory_kind::host)) {
    return {true, CUDA_ERROR_INVALID_VALUE};
  }
  resource::order when{.by = &release};
  if (release.stream_ordered) {
    stream_place const place = place_of(*s, release.stream, release.context);
    if (place.entry == nullptr) return pass;
    // Memory that was not made in a capture cannot be freed in it.
    if (place.capturing) return {true, CUDA_ERROR_INVALID_VALUE};
    if (place.entry->handle == home.context) {
      when.slot = place.slot;
      when.stream = release.stream;
    } else {
      // The work of another context is no part of this one's epochs: the host waits for it.
      stream_order::relaxed_mode relaxed(true);
      driver::real.cuStreamSynchronize(release.stream);
    }
  } else if (s->synchronize_on_free) {
    // While a stream captures the barrier cannot be had: this free waits for its epoch like any other.
    CUresult const code = home.when.synchronize();
    if (code != CUDA_SUCCESS && code != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED) return {true, code};
    when.settled = code == CUDA_SUCCESS;
  }
  // Of two threads that free one block at once, one gets the driver's answer for a second free.
  space::state expected = space::state::live;
  if (!b.now.compare_exchange_strong(expected, space::state::cached, std::memory_order_acq_rel)) {
    return {true, CUDA_ERROR_INVALID_VALUE};
  }
  if (counts_as_device(home.kind)) {
    auto& counters = stats::local().devices[stats::device_slot(home.device)];
    stats::add(counters.freed_blocks, 1);
    stats::add(counters.freed_requested, b.bytes() - b.slack);
    stats::add(counters.freed_handed, b.bytes());
    if (release.stream_ordered && b.where != when.slot) stats::add(counters.cross_stream_frees, 1);
  }
  bool const may_serve =
      home.kind != driver::memory_kind::host || !owner.keeps_freed() || others_are_done(*s, home);
  // A block that another process may have open, or work that nobody can wait for, serves nobody again; it
  // stays as it is until its context ends.
  if (!may_serve || (b.exported == 1 && !GPUMEM_MUTANT(exported_served))) {
    resource::tell_above(owner, h, when);
    return {true, CUDA_SUCCESS};
  }
  resource::take_back(owner, h, when);
  return {true, CUDA_SUCCESS};
}

}  // namespace gpumem::route
