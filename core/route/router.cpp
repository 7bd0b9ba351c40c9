// See router.hpp and serve.hpp. Here: what few requests and frees come to. What the shim observes is in
// observe.cpp, questions about memory in ask.cpp.
#include "core/route/limits.hpp"
#include "core/route/serve.hpp"
#include "core/stats/state_page.hpp"

namespace gpumem::route {

outcome refuse(driver::request const& request, context_entry& entry, resource::chain& chain,
               driver::allocation_failed const& failed, CUdeviceptr* result) noexcept {
  note_refusal({.bytes = request.bytes,
                .stream = reinterpret_cast<std::uint64_t>(request.stream),
                .hook = request.hook,
                .device = entry.device},
               failed, chain.measure());
  *result = 0;  // as the driver does when it refuses (measured, design.md section 10 notwithstanding)
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

bool others_are_done(state& s, resource::habitat const& home) noexcept {
  bool done = true;
  s.known.each([&](context_entry& e) {
    if (&e.order == &home.when || e.order.broken()) return;
    done = e.order.synchronize() == CUDA_SUCCESS && done;
  });
  return done;
}

}  // namespace gpumem::route
