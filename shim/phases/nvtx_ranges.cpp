// See nvtx_ranges.hpp. Each function has two forms: alone, and with a tool behind it. All copies of NVTX in a
// process get the same functions from a tool; one that got others keeps them, and its ranges are the tool's
// alone.
#include "shim/phases/nvtx_ranges.hpp"

#include <algorithm>
#include <atomic>

#include "shim/phases/nvtx_names.hpp"

namespace gpumem::shim::nvtx {
namespace {

// The tool's, by module (1 for core, 2 for core2) and place; null: it has none there.
constinit std::array<std::array<std::atomic<function>, most_functions>, 3> theirs{};
// It has functions that get handles, and of which we do not hear.
constinit std::atomic<bool> tool_meets_handles{false};
constexpr unsigned unseen_with_handles[] = {1, 6, 7,
                                            8, 9, 14};  // of core2: marks, resources, categories, destroy

std::atomic<function>& theirs_at(module of, unsigned which) noexcept {
  return theirs[of == core ? 1 : 2][which];
}

// A thread may be cancelled in there, and the C library then unwinds it through us.
template <bool with_tool, typename Result, typename... Arguments>
Result ask_tool(module of, unsigned which, Result otherwise, Arguments... arguments) {
  if constexpr (with_tool) {
    function const found = theirs_at(of, which).load(std::memory_order_acquire);
    if (found != nullptr) return reinterpret_cast<Result (*)(Arguments...)>(found)(arguments...);
  }
  return otherwise;
}
template <bool with_tool, typename... Arguments>
void tell_tool(module of, unsigned which, Arguments... arguments) {
  if constexpr (with_tool) {
    function const found = theirs_at(of, which).load(std::memory_order_acquire);
    if (found != nullptr) reinterpret_cast<void (*)(Arguments...)>(found)(arguments...);
  }
}

// --- what phases hear ---

int push_phase(domain of, phases::phase_name const& name) noexcept {
  if (phases_are_off()) return 0;
  phase_scope const scope;
  if (!scope) {
    phases::pass_over();
    return 0;
  }
  phases::stack_of const which = stack_of_domain(of);
  phases::begin(name, which);
  return phases::depth(which) - 1;
}

int pop_phase(domain of) noexcept {
  if (phases_are_off()) return 0;
  phase_scope const scope;
  if (!scope) {
    phases::was_passed_over();
    return 0;
  }
  phases::stack_of const which = stack_of_domain(of);
  return phases::end(which) ? phases::depth(which) : -1;
}

// Numbers of ours have this in front, so that they are told from a tool's.
constexpr range_id mark = range_id{0x6770} << 48, all_of_mark = range_id{0xffff} << 48;

range_id start_phase(phases::phase_name const& name, range_id of_tool) noexcept {
  if (phases_are_off()) return of_tool;
  phase_scope const scope;
  std::uint64_t const made = scope ? phases::start(name, of_tool) : 0;
  return made == 0 ? of_tool : mark | made;
}

// The tool's number of it.
range_id end_phase(range_id range) noexcept {
  if ((range & all_of_mark) != mark) return range;
  phase_scope const scope;
  std::uint64_t of_tool = 0;
  return scope && phases::stop(range & ~all_of_mark, of_tool) ? of_tool : range;
}

// What a tool is given in place of handles of ours, which it does not know: none, as without us.
class for_tool {
 public:
  for_tool(domain given, attributes const* event) noexcept
      : of(is_own_domain(given) ? nullptr : given), event_(event), copy_() {
    if (event == nullptr || event->size != sizeof copy_ || event->message_type != registered_message) return;
    if (!is_own_string(event->message.string)) return;
    copy_ = *event;
    copy_.message.string = nullptr;
    event_ = nullptr;
  }
  attributes const* event() const noexcept { return event_ == nullptr && copy_.size != 0 ? &copy_ : event_; }

  domain const of;

 private:
  attributes const* event_;
  attributes copy_;
};

// --- the functions: X is whether a tool is behind us ---

template <bool X>
range_id start_ex(attributes const* event) {
  for_tool const its(nullptr, event);
  range_id const of_tool = ask_tool<X, range_id>(core, in_core::start_ex, 0, its.event());
  return start_phase(name_of(nullptr, event), of_tool);
}
template <bool X>
range_id start_a(char const* message) {
  range_id const of_tool = ask_tool<X, range_id>(core, in_core::start_a, 0, message);
  return start_phase(name_of(nullptr, message), of_tool);
}
template <bool X>
range_id start_w(wchar_t const* message) {
  range_id const of_tool = ask_tool<X, range_id>(core, in_core::start_w, 0, message);
  return start_phase(name_of(nullptr, message), of_tool);
}
template <bool X>
void range_end(range_id range) {
  tell_tool<X>(core, in_core::end, end_phase(range));
}
template <bool X>
int push_ex(attributes const* event) {
  int const level = push_phase(nullptr, name_of(nullptr, event));
  return ask_tool<X>(core, in_core::push_ex, level, for_tool(nullptr, event).event());
}
template <bool X>
int push_a(char const* message) {
  int const level = push_phase(nullptr, name_of(nullptr, message));
  return ask_tool<X>(core, in_core::push_a, level, message);
}
template <bool X>
int push_w(wchar_t const* message) {
  int const level = push_phase(nullptr, name_of(nullptr, message));
  return ask_tool<X>(core, in_core::push_w, level, message);
}
template <bool X>
int range_pop() {
  return ask_tool<X>(core, in_core::pop, pop_phase(nullptr));
}

template <bool X>
range_id domain_start_ex(domain of, attributes const* event) {
  for_tool const its(of, event);
  range_id const of_tool = ask_tool<X, range_id>(core2, in_core2::start_ex, 0, its.of, its.event());
  return start_phase(name_of(of, event), of_tool);
}
template <bool X>
void domain_end(domain of, range_id range) {
  tell_tool<X>(core2, in_core2::end, for_tool(of, nullptr).of, end_phase(range));
}
template <bool X>
int domain_push_ex(domain of, attributes const* event) {
  int const level = push_phase(of, name_of(of, event));
  for_tool const its(of, event);
  return ask_tool<X>(core2, in_core2::push_ex, level, its.of, its.event());
}
template <bool X>
int domain_pop(domain of) {
  int const level = pop_phase(of);
  return ask_tool<X>(core2, in_core2::pop, level, for_tool(of, nullptr).of);
}

// A tool's answer is the program's, also none. A handle of ours only where the tool has no function that
// could be given it unseen.
template <bool X>
bool is_tools(unsigned which) noexcept {
  return X && (theirs_at(core2, which).load(std::memory_order_acquire) != nullptr ||
               tool_meets_handles.load(std::memory_order_relaxed));
}

template <bool X>
registered register_a(domain of, char const* text) {
  domain const its = for_tool(of, nullptr).of;
  registered const of_tool = ask_tool<X, registered>(core2, in_core2::register_a, nullptr, its, text);
  return of_tool == nullptr && is_tools<X>(in_core2::register_a) ? nullptr : add_string(text, of_tool);
}
template <bool X>
registered register_w(domain of, wchar_t const* text) {
  domain const its = for_tool(of, nullptr).of;
  registered const of_tool = ask_tool<X, registered>(core2, in_core2::register_w, nullptr, its, text);
  if (of_tool == nullptr && is_tools<X>(in_core2::register_w)) return nullptr;
  return add_string(text == nullptr ? nullptr : narrow(text).text, of_tool);
}
template <bool X>
domain create_a(char const* name) {
  domain const of_tool = ask_tool<X, domain>(core2, in_core2::create_a, nullptr, name);
  return of_tool == nullptr && is_tools<X>(in_core2::create_a) ? nullptr : add_domain(name, of_tool);
}
template <bool X>
domain create_w(wchar_t const* name) {
  domain const of_tool = ask_tool<X, domain>(core2, in_core2::create_w, nullptr, name);
  if (of_tool == nullptr && is_tools<X>(in_core2::create_w)) return nullptr;
  return add_domain(name == nullptr ? nullptr : narrow(name).text, of_tool);
}

template <typename Function>
function erased(Function* of) noexcept {
  return reinterpret_cast<function>(of);
}

}  // namespace

functions_of::functions_of(export_table from) noexcept {
  auto const* const callbacks =
      from == nullptr ? nullptr : static_cast<export_callbacks const*>(from(callbacks_id));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks) return;
  for (int m = 1; m < modules; ++m) {
    known& of = modules_[static_cast<std::size_t>(m)];
    if (callbacks->get_table(m, &of.slots, &of.size) == 0) of = {};
    of.size = std::min<unsigned>(of.size, most_functions);
    for (unsigned i = 1; i < of.size; ++i) of.before[i] = of.slots[i] != nullptr ? *of.slots[i] : nullptr;
  }
}

void functions_of::restore() noexcept {
  for (known& of : modules_) {
    for (unsigned i = 1; i < of.size; ++i) {
      if (of.slots[i] != nullptr) *of.slots[i] = of.before[i];
    }
  }
}

void functions_of::replace(module of, unsigned which, function alone, function with_tool,
                           bool behind_us_is_a_tool) noexcept {
  known const& here = modules_[static_cast<std::size_t>(of)];
  if (which >= here.size || here.slots[which] == nullptr) return;
  function& slot = *here.slots[which];
  function const put = slot != here.before[which] ? slot : nullptr;
  if (!behind_us_is_a_tool || put == nullptr) {
    // What comes after a first copy with functions of the tool's, and has none, is ours alone.
    slot = alone;
    return;
  }
  function none = nullptr;
  auto& kept = theirs_at(of, which);
  if (kept.compare_exchange_strong(none, put, std::memory_order_acq_rel) || none == put) slot = with_tool;
}

bool functions_of::attach(bool behind_us_is_a_tool) noexcept {
  if (modules_[core].size <= in_core::pop) return false;
  known const& second = modules_[core2];
  for (unsigned const i : unseen_with_handles) {
    bool const has = i < second.size && second.slots[i] != nullptr && *second.slots[i] != second.before[i];
    if (has && behind_us_is_a_tool) tool_meets_handles.store(true, std::memory_order_relaxed);
  }
  auto const in = [&](module of, unsigned which, auto* alone, auto* with_tool) {
    replace(of, which, erased(alone), erased(with_tool), behind_us_is_a_tool);
  };
  in(core, in_core::start_ex, &start_ex<false>, &start_ex<true>);
  in(core, in_core::start_a, &start_a<false>, &start_a<true>);
  in(core, in_core::start_w, &start_w<false>, &start_w<true>);
  in(core, in_core::end, &range_end<false>, &range_end<true>);
  in(core, in_core::push_ex, &push_ex<false>, &push_ex<true>);
  in(core, in_core::push_a, &push_a<false>, &push_a<true>);
  in(core, in_core::push_w, &push_w<false>, &push_w<true>);
  in(core, in_core::pop, &range_pop<false>, &range_pop<true>);
  in(core2, in_core2::start_ex, &domain_start_ex<false>, &domain_start_ex<true>);
  in(core2, in_core2::end, &domain_end<false>, &domain_end<true>);
  in(core2, in_core2::push_ex, &domain_push_ex<false>, &domain_push_ex<true>);
  in(core2, in_core2::pop, &domain_pop<false>, &domain_pop<true>);
  in(core2, in_core2::register_a, &register_a<false>, &register_a<true>);
  in(core2, in_core2::register_w, &register_w<false>, &register_w<true>);
  in(core2, in_core2::create_a, &create_a<false>, &create_a<true>);
  in(core2, in_core2::create_w, &create_w<false>, &create_w<true>);
  return true;
}

}  // namespace gpumem::shim::nvtx
