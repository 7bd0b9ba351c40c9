// See router.hpp and hot_path.hpp. Here: the rare paths of requests and frees. What the shim observes is in
// observe.cpp, questions about memory in queries.cpp.
#include <sched.h>

#include "core/base/mutant.hpp"
#include "core/route/hot_path.hpp"
#include "core/route/limits.hpp"
#include "core/route/met_contexts.hpp"
#include "core/stats/page/state_page.hpp"

namespace gpumem::route {

outcome refuse(driver::request const& request, context_entry& entry, std::size_t number,
               driver::allocation_failed const& failed, CUdeviceptr* result) noexcept {
  if (entry.gone.load(std::memory_order_acquire)) return allocate_elsewhere(entry, request, result);
  // It is the tables that have no room: the driver serves, under the same limits.
  if (failed.kind() == driver::refused_by::tables) return pass;
  note_refusal({.bytes = request.bytes,
                .stream = reinterpret_cast<std::uint64_t>(request.stream),
                .hook = request.hook,
                .device = entry.device},
               failed, entry.chain_of(number, present->factory)->measure());
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

outcome release_carefully(driver::release const& release) noexcept {
  return route::release<true>(release);
}

outcome release_after_end(resource::chain_context const& home, driver::release const& release) noexcept {
  while (home.epochs.ending() && !home.epochs.broken()) sched_yield();
  return release_carefully(release);
}

outcome release_of_none(driver::release const& release) noexcept {
  return unknown_free(*present, release.address) ? outcome{refusal_of_none(release)} : pass;
}

bool made_new(state& s, space::handle h, bool stream_ordered) noexcept {
  base::uncancelled const held;
  space::block& b = s.where.blocks[h];
  if (b.is(space::counted)) count_given(s, resource::owner_of(s.where, h).home().device, b, stream_ordered);
  b.unmark(space::named);
  bool const undone = !b.is(space::altered) || s.set.undo(s, h);
  return undone && !b.is(space::exported);
}

outcome allocate_elsewhere(context_entry& ended, driver::request const& request,
                           CUdeviceptr* result) noexcept {
  present->known.end(ended);
  return allocate_carefully(request, result);
}

bool synchronize_other_contexts(state& s, resource::chain_context const& home) noexcept {
  // Those that never allocated anything are known from now on: a capture may begin in them, too.
  bool done = GPUMEM_MUTANT(unknown_contexts) ||
              each_met_context([](CUcontext context) { present->known.find_or_make(context); });
  s.known.each([&](context_entry& e) {
    if (&e.order == &home.epochs || e.order.broken()) return;
    done = e.order.synchronize() == CUDA_SUCCESS && done;
  });
  return done;
}

}  // namespace gpumem::route
