// See returns.hpp.
#include "core/route/returns.hpp"

#include "core/base/clock.hpp"
#include "core/base/mutant.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/resource/free_duties.hpp"
#include "core/route/router_state.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::route {

namespace {

// A context that is ending, or lost, takes its memory along. Beside a capture memory does not go back, and no
// event may be recorded.
bool may_work(stream_order::epochs const& order) noexcept {
  return order.well() && resource::may_give_back();
}

// The one thread of the process that uses CUDA, as far as hooks see, with one context.
bool is_alone(context_entry const& entry) noexcept {
  bool alone = stats::is_one_thread();
  present->known.each([&](context_entry const& e) { alone = alone && &e == &entry; });
  return alone;
}

bool is_set(resource::free_duty duty) noexcept {
  return (resource::free_duties.load(std::memory_order_relaxed) & duty) != 0;
}
void unset(resource::free_duty duty) noexcept {
  resource::free_duties.fetch_and(static_cast<resource::free_duty>(~duty), std::memory_order_relaxed);
}

// The duty is the process's, the pace a context's: it is over when no context keeps one. True: a step ended.
bool keep_pace(resource::chain_context const& home, std::uint64_t bytes) noexcept {
  if (home.kind == driver::memory_kind::host || !may_work(home.epochs)) return false;
  using noted = stream_order::free_pace::noted;
  noted const now = home.epochs.pace.note(bytes);
  if (now != noted::off) return now == noted::step;
  bool any = false;
  present->known.each([&any](context_entry const& e) { any = any || e.order.pace.is_on(); });
  if (!any) unset(resource::paces);
  return false;
}

// Asks again whether it may: a capture may have begun while keep_pace waited.
void give_back_at_free(resource::chain_context const& home, bool at_pace) noexcept {
  unset(resource::gives_back);
  context_entry* const entry = present->known.find_by(home.epochs);
  if (entry == nullptr || !may_work(entry->order)) return;
  resource::moment const at{.now = base::now_ns(), .in_a_free = true, .at_pace = at_pace};
  if (home.kind == driver::memory_kind::host) {
    if (resource::chain* const own = entry->made_chain(home.number); own != nullptr) own->give_back_due(at);
    return;
  }
  entry->each_device_chain([&at](resource::chain& c) { c.give_back_due(at); });
}

}  // namespace

void do_duties(resource::chain_context const& home, driver::free_request const& release,
               std::uint64_t bytes) noexcept {
  // Natively such a free waits for the work before it, and what is submitted after it matters no more.
  if (release.stream_ordered || present == nullptr) return;
  if (bytes >= resource::settled_from && is_set(resource::settles) && may_work(home.epochs)) {
    base::uncancelled const held;
    home.epochs.collect(home.epochs.open());
  }
  bool const paced = is_set(resource::paces) && home.epochs.pace.counts(bytes);
  if (!paced && !is_set(resource::gives_back)) return;
  base::uncancelled const held;
  bool const at_pace = paced && keep_pace(home, bytes);
  if (at_pace || is_set(resource::gives_back)) give_back_at_free(home, at_pace);
}

void give_back_at_synchronisation(context_entry& entry) noexcept {
  if (!may_work(entry.order) || !is_alone(entry)) return;
  resource::moment const at{.now = base::now_ns()};
  entry.each_device_chain([&at](resource::chain& c) { c.give_back_due(at); });
}

}  // namespace gpumem::route
