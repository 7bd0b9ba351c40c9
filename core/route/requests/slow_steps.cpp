// See slow_steps.hpp.
#include "core/route/requests/slow_steps.hpp"

#include <atomic>
#include <cstdio>

#include "core/base/log/log.hpp"
#include "core/base/mutant.hpp"
#include "core/base/threads/backoff.hpp"
#include "core/base/threads/heap.hpp"
#include "core/base/threads/kept_heap.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/driver/question.hpp"
#include "core/recording/writer/record.hpp"
#include "core/route/limits.hpp"
#include "core/route/requests/hot_path.hpp"
#include "core/route/returns.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::route {

namespace {

// The context of this serial is gone, though nobody has said so: the same again, of what its handle names
// now.
outcome allocate_elsewhere(context_entry& ended, std::uint64_t serial, driver::request const& request,
                           CUdeviceptr* result) noexcept {
  present->known.end(ended, serial);
  return allocate_carefully(request, result);
}

// Of a context that is gone: the address is the driver's now, or a block of another one. It is looked up
// again once the call that ended the context has taken its blocks off the map, and waits for nothing any
// more.
outcome release_after_end(resource::chain_context const& home, driver::free_request const& release) noexcept {
  base::wait_until([&home] { return !home.epochs.ending() || home.epochs.broken(); });
  return release_carefully(release);
}

// The driver is never given the address of a block of ours: at the first of a segment it would take the whole
// segment, from under all the others.
outcome answer_without_address(driver::free_request const& release) noexcept {
  return GPUMEM_MUTANT(own_block_given_to_driver) ? pass : outcome{refusal_of_none(release)};
}

// A live block of a context that a kernel's fault has lost: what the driver says of every block there. Of the
// block itself it need not know anything, as where its segment is a mapping.
// Where nobody knows of such a fault, and the context is there, a free is a free, of memory that serves
// nobody any more.
std::optional<outcome> answer_of_lost(resource::chain_context const& home,
                                      driver::free_request const& release) noexcept {
  whose const found = ask_whose(home, release.address);
  if (found == whose::others || found == whose::untold) return pass;
  if (CUresult const code = home.epochs.loss(); code != CUDA_SUCCESS) return outcome{code};
  bool const is_there = found == whose::ours && !home.epochs.ended();
  if (is_there && !GPUMEM_MUTANT(any_code_is_loss)) return std::nullopt;
  return answer_without_address(release);
}

// The host waits for all work of a stream, which no epoch covers. A lost context has none left.
std::optional<outcome> wait_for_stream(CUstream stream) noexcept {
  base::uncancelled const held;
  stream_order::relaxed_mode relaxed(true);
  CUresult const code = driver::asked(driver::real.cuStreamSynchronize, stream);
  return driver::is_of_the_question(code) ? std::optional(outcome{code}) : std::nullopt;
}

// In the order of a stream of which nobody could say whose it is. That it is none, or captures, is the
// driver's to say.
std::optional<outcome> order_without_place(driver::free_request const& release) noexcept {
  if (GPUMEM_MUTANT(own_block_given_to_driver)) return pass;
  if (captures(release.stream)) return outcome{refusal_by_driver(release)};
  CUresult const code = refusal_of_none(release);
  return code == CUDA_ERROR_INVALID_VALUE ? wait_for_stream(release.stream) : outcome{code};
}

// The chain's own calls fail, of which the program knows nothing: the driver serves here as well.
bool is_left_to_driver(context_entry const& entry, driver::allocation_failed const& failed) noexcept {
  static constinit std::atomic_flag told;
  if (!driver::is_of_the_chain(failed.code()) || GPUMEM_MUTANT(code_of_the_chain_told)) return false;
  if (told.test_and_set(std::memory_order_relaxed)) return true;
  char text[320];
  std::snprintf(text, sizeof text,
                "device %d: a call of its chain failed with code %d (%.200s); such requests go to the driver",
                entry.device, static_cast<int>(failed.code()), failed.what());
  base::log_line(base::log_level::warn, text);
  return true;
}

}  // namespace

outcome refuse(driver::request const& request, context_entry& entry, std::uint32_t life, std::size_t number,
               driver::allocation_failed const& failed, CUdeviceptr* result) noexcept {
  resource::chain* const made = entry.made_chain(number);
  if (made == nullptr || entry.order.ended_since(life)) return allocate_carefully(request, result);
  entry.order.hear(failed.code(), life);
  // It is the tables that have no room: the driver serves, under the same limits.
  if (failed.kind() == driver::refused_by::tables) return pass;
  if (is_left_to_driver(entry, failed)) return pass;
  resource::chain& chain = *made;
  bool const is_kept = is_refusal_kept();
  stats::free_blocks free;
  if (is_kept) chain.count_free(free);
  note_refusal({.bytes = request.bytes,
                .stream = reinterpret_cast<std::uint64_t>(request.stream),
                .hook = request.hook,
                .device = entry.device,
                .caller = request.caller,
                .kind = request.kind},
               failed, is_kept ? chain.measure() : resource::idle_usage{}, free);
  *result = 0;  // as the driver does when it refuses (measured)
  return {failed.code()};
}

bool take_rule(rule_set& rules, context_entry const& entry, driver::request const& request,
               std::size_t& number) noexcept {
  std::size_t const taken = rules.match(request, entry.device);
  if (taken == rule_set::none) return true;
  entry.count_rule(taken, request.bytes);
  number = rules[taken].chain;
  return number != passthrough;
}

outcome allocate_carefully(driver::request const& request, CUdeviceptr* result) noexcept {
  return allocate<true>(request, result);
}

outcome release_carefully(driver::free_request const& release) noexcept {
  return route::release<true>(release);
}

stream_place find_place_slow(router_state& s, driver::request const& request) noexcept {
  return request.stream_ordered ? place_of(s, request.stream, request.context)
                                : stream_place{.entry = entry_of(s, request.context)};
}

std::optional<outcome> answer_request_slow(router_state& s, stream_place const& place,
                                           driver::request const& request, CUdeviceptr* result,
                                           bool& counts) noexcept {
  context_entry* const entry = place.entry;
  if (entry == nullptr || entry->order.broken()) return pass;
  if (!entry->order.well()) {
    std::uint64_t const ended = entry->order.ending() ? entry->ended_serial() : 0;
    if (ended != 0) return allocate_elsewhere(*entry, ended, request, result);
    CUresult const refusal = place.capturing() ? CUDA_SUCCESS : stream_order::ask_captures();
    if (refusal != CUDA_SUCCESS) {
      *result = 0;
      return outcome{refusal};
    }
  }
  // It may be another context's since it was found.
  if (!memo.is_of(s.streams_changed.load(std::memory_order_acquire)))
    return allocate_carefully(request, result);
  if (!request.stream_ordered) return std::nullopt;
  pool_use const use = s.pool_use_of(entry->device);
  if (place.capturing()) return pass;
  if (request.of_pool || request.named != 0) return std::nullopt;
  if (use == pool_use::drivers)
    return allocate_from_pool(s.chosen[static_cast<std::size_t>(entry->device)].load(), request, result);
  counts = use == pool_use::counted;
  return std::nullopt;
}

taken take_slow(supply from, context_entry& entry, std::size_t number, driver::request const& request,
                stream_order::slot slot, resource::cache_look look, CUdeviceptr* result) noexcept {
  resource::allocation_request const wanted{.bytes = request.bytes,
                                            .slot = slot,
                                            .stream = request.stream,
                                            .flags = request.flags,
                                            .alignment = request.alignment,
                                            .by = &request};
  base::uncancelled const held(base::heap::may_cancel());
  std::uint32_t const life = entry.order.life();
  // What this thread remembers of the way may be of an earlier context.
  if (entry.made_chain(number) == nullptr && entry.chain_of(number, present->factory) == nullptr)
    return {.refusal = pass};
  if (from.own == nullptr) base::give_up_kept_heap();  // for the thread's or stream's magazine
  try {
    return {from.quick->allocate_slow(wanted, from.own, look)};
  } catch (driver::allocation_failed const& failed) {
    return {.refusal = refuse(request, entry, life, number, failed, result)};
  }
}

[[gnu::noinline]] static void record_slow(context_entry& entry, space::block& b, space::handle h,
                                          driver::request const& request, void const* stack) noexcept {
  stats::sample const taken = stats::take_sample_of_every_request(
      stats::local().devices[entry.device_slot], {entry.device_slot, request.bytes, request.caller, stack});
  auto* const kept = present->where.sampled_ones.took_recorded(b, h, taken);
  std::uint64_t none = 0;
  recording::note_block(
      kept != nullptr ? kept->last_event : none, b.begin(), request.bytes,
      reinterpret_cast<std::uint64_t>(request.stream), recording::sizes_word(b.rounding),
      recording::kinds_word(recording::action::allocate, static_cast<unsigned>(entry.device),
                            b.holder % stats::max_libraries, static_cast<unsigned>(taken.site)));
}

void look_closer_slow(context_entry& entry, space::block& b, space::handle h,
                      driver::request const& request) noexcept {
  if (recording::is_on()) [[unlikely]]
    return record_slow(entry, b, h, request, __builtin_frame_address(0));
  stats::sample const taken =
      stats::take_sample(stats::local().devices[entry.device_slot],
                         {entry.device_slot, request.bytes, request.caller, __builtin_frame_address(0)});
  present->where.sampled_ones.took(b, h, taken);
}

// Measured of managed memory, of null and of what is no block: 580.159.
std::optional<outcome> answer_under_ended(driver::free_request const& release) noexcept {
  bool const asks = (resource::free_duties.load(std::memory_order_relaxed) & resource::asks) != 0;
  if (!asks || release.stream_ordered || GPUMEM_MUTANT(freed_under_ended)) return std::nullopt;
  CUcontext current = nullptr;
  if (driver::asked(driver::real.cuCtxGetCurrent, &current) != CUDA_SUCCESS || current == nullptr ||
      present->known.find_alive(current) != nullptr || !driver::is_over(current))
    return std::nullopt;
  CUresult const code = refusal_of_none(release);
  return code == CUDA_ERROR_CONTEXT_IS_DESTROYED ? std::optional(outcome{code}) : std::nullopt;
}

std::optional<outcome> answer_free_slow(resource::chain_context const& home,
                                        driver::free_request const& release) noexcept {
  if (home.epochs.well()) return std::nullopt;
  if (home.epochs.broken()) return answer_of_lost(home, release);
  if (home.epochs.ending()) {
    whose const found = ask_whose(home, release.address);
    if (found == whose::untold) return pass;  // which refuses all
    if (found == whose::not_found_out) return answer_without_address(release);
    if (found == whose::others) return release_after_end(home, release);
  }
  CUresult const refusal = refusal_by_driver(release);
  return refusal != CUDA_SUCCESS ? std::optional(outcome{refusal}) : std::nullopt;
}

std::optional<outcome> order_slow(router_state& s, resource::chain_context const& home,
                                  driver::free_request const& release, freed_after& when) noexcept {
  if (release.stream_ordered) {
    stream_place const place = place_of(s, release.stream, release.context);
    if (place.entry == nullptr) return order_without_place(release);
    if (place.capturing()) return outcome{refusal_by_driver(release)};
    if (&place.entry->order == &home.epochs) {
      when.slot = place.slot;
      when.stream = release.stream;
      return std::nullopt;
    }
    // The work of another context is no part of this one's epochs, which wait for it as well.
    if (home.epochs.await(place.entry->order, release.stream)) return std::nullopt;
    return wait_for_stream(release.stream);
  }
  if ((resource::free_duties.load(std::memory_order_relaxed) & resource::waits) == 0) return std::nullopt;
  // While a stream captures the barrier cannot be had: this free waits for its epoch like any other.
  CUresult const code = home.epochs.synchronize();
  if (home.epochs.broken()) return answer_of_lost(home, release);
  // So it does where the driver could not wait just then.
  bool const waited_for_nothing =
      code == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED || driver::is_of_the_question(code);
  if (code != CUDA_SUCCESS && !waited_for_nothing) return outcome{code};
  when.settled = code == CUDA_SUCCESS;
  return std::nullopt;
}

static resource::free_order order_of(freed_after const& when, driver::free_request const& release) noexcept {
  return {.slot = when.slot,
          .settled = when.settled,
          .in_order = release.stream_ordered,
          .stream = when.stream,
          .life = when.life,
          .bytes = when.bytes,
          .by = &release};
}

void withhold_slow(resource::resource& owner, space::handle h, freed_after when,
                   driver::free_request const& release) noexcept {
  resource::free_order const order = order_of(when, release);
  resource::tell_parents(owner, h, order);
  owner.withhold(h, order);
}

outcome release_of_none(driver::free_request const& release) noexcept {
  if (!ask_unknown_free(*present, release.address)) return pass;
  CUresult const code = refusal_of_none(release);
  return {code == CUDA_ERROR_INVALID_VALUE ? outcome::refused_since : code};
}

[[gnu::noinline]] static void record_free(router_state& s, space::handle h, CUstream stream) noexcept {
  auto* const kept = s.where.sampled_ones.gave_recorded(h);
  std::uint64_t none = 0;
  auto const device = static_cast<unsigned>(resource::owner_of(s.where, h).home().device);
  recording::note_block(kept != nullptr ? kept->last_event : none, s.where.blocks[h].begin(), 0,
                        reinterpret_cast<std::uint64_t>(stream), 0,
                        recording::kinds_word(recording::action::free, device, 0, 0));
}

outcome not_taken() noexcept {
  recording::free_over();
  return {outcome::refused_since};
}

outcome leave_to_program(space::block& b) noexcept {
  auto taken = space::state::cached;
  b.now.compare_exchange_strong(taken, space::state::live, std::memory_order_acq_rel);
  return not_taken();
}

renewed make_new(router_state& s, space::handle h, bool stream_ordered, CUstream stream,
                 bool ended) noexcept {
  space::block& b = s.where.blocks[h];
  if (b.is(space::sampled)) {
    bool const is_its_own = !ended || recording::is_awaited() || GPUMEM_MUTANT(free_told_too_late);
    if (recording::is_on() && is_its_own) [[unlikely]]
      record_free(s, h, stream);
    else if (!ended)
      s.where.sampled_ones.gave(b, h);
  }
  recording::free_over();
  if (ended || !b.is(space::to_be_undone)) return {};
  base::uncancelled const held;
  // A free in stream order is no moment at which memory may go back.
  bool const unproven = (b.unmark(space::unproven) & space::unproven) != 0 && !stream_ordered;
  if (b.is(space::counted)) count_given(s, resource::owner_of(s.where, h).home().device, b, stream_ordered);
  if (b.is(space::pooled)) s.pools.gave(b, h, stream_ordered);
  b.unmark(space::named);
  bool const undone = !b.is(space::altered) || s.set.undo(s, h);
  return {undone && !b.is(space::exported), unproven};
}

void take_back_unproven(resource::resource& owner, space::handle h, freed_after when,
                        driver::free_request const& release) noexcept {
  resource::free_order const order = order_of(when, release);
  resource::tell_parents(owner, h, order);
  owner.deallocate_unproven(h, order);
  do_duties(owner.home(), release, when.bytes);
}

}  // namespace gpumem::route
