// See logging.hpp. Lines are ordered by the events' numbers. An allocation takes its number when it has the
// block and the program does not yet; a free, before the block's owner has it back.
#include "core/resource/adaptors/logging.hpp"

namespace gpumem::resource {

namespace {

using action = stats::event::action;

char const* name_of(driver::memory_kind kind) noexcept {
  return kind == driver::memory_kind::host      ? "host"
         : kind == driver::memory_kind::managed ? "managed"
                                                : "device";
}

stats::event event_of(chain_context const& home, action what, std::uint64_t address, std::uint64_t bytes,
                      CUstream stream) noexcept {
  return {.address = address,
          .bytes = bytes,
          .stream = reinterpret_cast<std::uint64_t>(stream),
          .device = static_cast<std::int16_t>(home.device),
          .what = what,
          .kind = name_of(home.kind)};
}

}  // namespace

space::handle logging::serve(allocation_request const& request) {
  stats::event e = event_of(home_, action::allocate, 0, request.bytes, request.stream);
  e.hook = request.hook();
  e.caller = request.caller();
  space::handle h = space::none;
  try {
    h = pass_down(request);
  } catch (driver::allocation_failed const&) {
    e.what = action::allocate_failure;
    log_.add(e);
    throw;
  }
  if (logged* const of = logged_.make(h); of != nullptr) {
    log_free(*of, {});  // one that went with an earlier context, and whose free is under way
    *of = {blocks()[h].begin(), request.bytes, home_.epochs.life()};
    e.address = of->address;
    log_.add(e);
  }
  return h;
}

void logging::given_back(space::handle h, free_order const& order) noexcept {
  logged* const of = logged_.find(h);
  if (of != nullptr && of->life == order.life) log_free(*of, order);
}

void logging::lost(space::handle h) noexcept {
  count_back(h);
  if (logged* const of = logged_.find(h); of != nullptr) log_free(*of, {});
}

void logging::log_free(logged& of, free_order const& order) noexcept {
  if (of.bytes == 0) return;
  stats::event e = event_of(home_, action::free, of.address, of.bytes, order.stream);
  if (order.by != nullptr) e.hook = order.by->hook;
  e.caller = order.caller();
  of.bytes = 0;
  log_.add(e);
}

extent segment_logging::serve(allocation_request const& request) {
  try {
    extent const memory = pass_down(request);
    log_.add(event_of(home_, action::allocate, memory.address, memory.bytes, request.stream));
    return memory;
  } catch (driver::allocation_failed const&) {
    log_.add(event_of(home_, action::allocate_failure, 0, request.bytes, request.stream));
    throw;
  }
}

void segment_logging::leaving(extent const& memory, CUstream order) noexcept {
  log_.add(event_of(home_, action::free, memory.address, memory.bytes, order));
}

}  // namespace gpumem::resource
