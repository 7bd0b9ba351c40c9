// See contexts.hpp.
#include "core/route/contexts/contexts.hpp"

#include <cstdio>
#include <new>
#include <string>
#include <utility>

#include "core/base/log/log.hpp"
#include "core/base/mutant.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/base/threads/kept_heap.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/driver/question.hpp"
#include "core/resource/free_duties.hpp"
#include "core/route/contexts/device_facts.hpp"
#include "core/stats/page/in_use.hpp"
#include "core/stream_order/one_stream.hpp"
#include "core/stream_order/relaxed_mode.hpp"
#include "core/stream_order/watched_calls.hpp"

namespace gpumem::route {

void register_device(int device) noexcept {
  device_facts const facts = facts_of(device);
  stats::register_device(device, facts.name, facts.uuid, facts.total);
}

bool look_at_use(stream_order::scoped_context const& here, int device) noexcept {
  if (stream_order::any_captures() || !here.is_there()) return false;
  bool noted = false;
  for (int attempt = 0; attempt < 3 && !noted; ++attempt) {
    stats::in_use_question question(device);
    std::size_t free_bytes = 0;
    std::size_t total = 0;
    if (driver::asked(driver::real.cuMemGetInfo_v2, &free_bytes, &total) != CUDA_SUCCESS) return false;
    noted = question.answered(total - free_bytes);
  }
  return noted;
}

namespace {

// Which thread looked at a device first, and in which of its calls; null: not yet, or it was asked again.
struct first_look {
  std::atomic<stats::shard const*> by{nullptr};
  std::atomic<std::uint64_t> calls_before{0};
};
constinit std::array<first_look, stats::max_devices> first_looks{};

// What is in use before this process took anything through a hook: its context, and other processes. Later
// growth of what is unseen is told from it.
void look_first(CUcontext context, int device) noexcept {
  if (stats::get(stats::gauges(device).first_looked) != 0 ||
      !look_at_use(stream_order::scoped_context(context), device))
    return;
  stats::note_first_unseen(device);
  first_look& look = first_looks[stats::device_slot(device)];
  look.calls_before.store(stats::calls_of_this_thread(), std::memory_order_relaxed);
  look.by.store(&stats::local(), std::memory_order_release);
}

void log_passthrough(int device, char const* why) noexcept {
  char text[256];
  std::snprintf(text, sizeof text, "device %d: %.200s", device, why);
  stats::note_unbuilt(text);
  std::snprintf(text, sizeof text,
                "device %d: its chain could not be built (%s); memory goes straight to the driver", device,
                why);
  base::log_line(base::log_level::warn, text);
}

template <std::size_t... numbers>
std::array<resource::chain_context, max_chains> homes(space::block_registry& where, peers const& access,
                                                      stream_order::epochs& order, int device,
                                                      rule_set const* rules, calls_of_chains const& calls,
                                                      stream_order::streams& streams,
                                                      std::index_sequence<numbers...>) noexcept {
  auto const kind = [rules](std::size_t number) {
    if (number < kinds) return static_cast<driver::memory_kind>(number);
    return rules != nullptr ? rules->kind_of(number) : driver::memory_kind::device;
  };
  auto const reach = [&](std::size_t number) {
    return kind(number) == driver::memory_kind::device ? access.mask_of(device) : nullptr;
  };
  return {{{where, order, device, kind(numbers), calls.relieve, reach(numbers), numbers, &streams,
            calls.lost_to_pool}...}};
}

}  // namespace

// A driver takes whole pages of this size: of a growth by them it has taken as much as the ledger says
// (measured up to 10 GiB), so that nothing has become unseen since.
bool looked_first_in_this_call(int device) noexcept {
  constexpr std::uint64_t driver_page = 2 << 20;
  first_look& look = first_looks[stats::device_slot(device)];
  if (look.by.load(std::memory_order_relaxed) == nullptr) return false;
  if (look.by.exchange(nullptr, std::memory_order_acquire) != &stats::local() ||
      look.calls_before.load(std::memory_order_relaxed) != stats::calls_of_this_thread())
    return false;
  auto& gauges = stats::gauges(device);
  std::uint64_t const known = stats::get(gauges.reserved) + stats::get(gauges.observed);
  return (known - stats::get(gauges.used_known)) % driver_page == 0;
}

context_entry::context_entry(space::block_registry& where, peers const& access, CUcontext context,
                             int device_number, rule_set const* rules, std::uint64_t order_of_making,
                             calls_of_chains const& calls)
    : handle(context),
      serial(order_of_making),
      known_as(context),
      device(device_number),
      order(context, device_number, 1, driver::id_of(context)),
      homes_(homes(where, access, order, device_number, rules, calls, streams,
                   std::make_index_sequence<max_chains>())) {
  for (std::size_t i = 0; rules != nullptr && i < rules->size(); ++i) {
    rule const& r = (*rules)[i];
    bool const here = r.device < 0 || r.device == device;
    rule_nodes_.push_back(here ? stats::register_node("rule " + std::to_string(i + 1), "rule", 0, device,
                                                      "rules", r.label + ": " + r.serves)
                               : stats::max_nodes - 1);
  }
}

resource::chain* context_entry::make_chain(std::size_t k, chain_factory factory) noexcept {
  if (made_[k].load(std::memory_order_acquire)) return chains_[k].load(std::memory_order_acquire);
  base::uncancelled const held;
  base::lock_guard lock(mutex_);
  if (made_[k].load(std::memory_order_relaxed)) return chains_[k].load(std::memory_order_relaxed);
  if (gone.load(std::memory_order_relaxed)) return nullptr;
  try {
    stream_order::relaxed_mode relaxed(true);
    auto const here = order.enter();
    if (!here.is_there()) return nullptr;
    if (kept_[k] != nullptr) kept_[k]->begin_again();
    resource::chain* const made = kept_[k] != nullptr ? kept_[k] : factory(homes_[k]).release();
    chains_[k].exchange(made, std::memory_order_seq_cst);
    // Whoever gave access to peers since the last context told the chains that it found.
    if (made != nullptr && !GPUMEM_MUTANT(peers_of_the_last_context)) made->peers_changed();
    if (made != nullptr) quick_[k].store(made->top().quick(), std::memory_order_release);
  } catch (driver::allocation_failed const& failed) {
    log_passthrough(device, failed.what());
  } catch (std::bad_alloc const&) {
    log_passthrough(device, "no host memory");
  }
  made_[k].store(true, std::memory_order_release);
  resource::chain* const published = chains_[k].load(std::memory_order_relaxed);
  if (published == nullptr && kept_[k] != nullptr) kept_[k]->forget();  // what it reserved so far
  return published;
}

// The serial first: of another context's handle and number nobody can say that the one of this serial ended.
std::uint64_t context_entry::ended_serial() const noexcept {
  std::uint64_t const of = serial.load(std::memory_order_acquire);
  std::uint64_t const number = order.id();
  bool const lives = number == 0 || GPUMEM_MUTANT(ended_served) || !driver::has_ended(handle, number);
  return lives ? 0 : of;
}

bool context_entry::forget(std::uint64_t ended) noexcept {
  {
    base::lock_guard lock(mutex_);  // a chain that is being made is there, or is never made
    if (serial.load(std::memory_order_relaxed) != ended || gone.exchange(true, std::memory_order_acq_rel))
      return false;
    known_as.store(no_handle(), std::memory_order_release);
    order.abandon();
  }
  base::interleave();
  each_chain([](resource::chain& c) { c.forget(); });
  return true;
}

// Each chain begins again at its first request: until then it reserves nothing.
void context_entry::begin_again(CUcontext context) noexcept {
  base::lock_guard lock(mutex_);
  is_free.store(false, std::memory_order_relaxed);
  for (std::size_t k = 0; k < chains_.size(); ++k) {
    quick_[k].store(nullptr, std::memory_order_relaxed);
    if (auto* const chain = chains_[k].exchange(nullptr, std::memory_order_relaxed); chain != nullptr)
      kept_[k] = chain;
    made_[k].store(false, std::memory_order_relaxed);
  }
  streams.begin_again();
  handle.store(context, std::memory_order_release);
  order.begin_again(context);
}

// Found from here on, with all that is written above.
void context_entry::begun(std::uint64_t order_of_making) noexcept {
  base::lock_guard lock(mutex_);
  serial.store(order_of_making, std::memory_order_release);
  gone.store(false, std::memory_order_release);
  known_as.store(handle, std::memory_order_release);
}

context_entry* contexts::find_alive(CUcontext context) noexcept {
  for (;;) {
    context_entry* const found = find(context);
    if (found == nullptr) return found;
    std::uint64_t const ended = found->order.ending() ? found->ended_serial() : 0;
    if (ended != 0 && !GPUMEM_MUTANT(stale_context)) {
      end(*found, ended);
      continue;
    }
    // Since it was found its context may have ended, and another one of another handle be served by it. Of a
    // green context it is the primary one's.
    if (find(context) == found) return found;
  }
}

green_context* contexts::find_among_greens(CUcontext context) const noexcept {
  for (auto* g = greens_.load(std::memory_order_acquire); g != nullptr; g = g->next) {
    if (g->name.handle == context && g->is_there()) return g;
  }
  return nullptr;
}

context_entry* contexts::find_free(int device) const noexcept {
  if (GPUMEM_MUTANT(entries_not_used_again)) return nullptr;
  for (auto* e = first_.load(std::memory_order_acquire); e != nullptr; e = e->next) {
    if (e->device == device && e->is_free.load(std::memory_order_acquire)) return e;
  }
  return nullptr;
}

void contexts::end_begins(context_ending& call) noexcept {
  base::lock_guard lock(mutex_);
  call.since_ = made_;
  call.next_ = endings_;
  endings_ = &call;
  each([&](context_entry& e) {
    if (e.handle == call.name_.handle) e.order.end_begins();
  });
}

void contexts::settle(context_ending const& call, bool ended) noexcept {
  base::lock_guard lock(mutex_);
  each([&](context_entry& e) {
    if (e.handle != call.name_.handle) return;
    std::uint64_t const serial = e.serial;
    if ((ended && serial <= call.since_) || e.ended_serial() != 0) end(e, serial);
  });
}

void contexts::end_over(context_ending const& call) noexcept {
  base::lock_guard lock(mutex_);
  context_ending** at = &endings_;
  while (*at != &call) at = &(*at)->next_;
  *at = call.next_;
  each([&](context_entry& e) {
    if (e.handle == call.name_.handle) e.order.end_failed();
  });
}

void contexts::end(context_entry& gone, std::uint64_t serial) noexcept {
  if (GPUMEM_MUTANT(stale_context)) return;
  // Before tables forget: a free that finds nothing there is to see it (route::passing_free).
  resource::free_duties.fetch_or(resource::asks, std::memory_order_relaxed);
  if (!gone.forget(serial)) return;
  captures_over();
  changes_.fetch_add(1, std::memory_order_acq_rel);
  forget_peers_of({gone.handle, gone.order.id()});
  gone.is_free.store(true, std::memory_order_release);
}

void contexts::peers_changed() noexcept {
  each([](context_entry& e) { e.each_chain([](resource::chain& c) { c.peers_changed(); }); });
}

void contexts::forget_peers_of(driver::named_context const& gone) noexcept {
  if (access_.forget(gone)) peers_changed();
}

void contexts::add_green(CUcontext context, CUcontext primary) noexcept {
  auto* made = new (std::nothrow) green_context{driver::name_of(context), primary};
  if (made == nullptr) return;
  green_context* ended = nullptr;
  {
    base::lock_guard lock(mutex_);
    ended = find_green(context);
    made->next = greens_.load(std::memory_order_relaxed);
    greens_.store(made, std::memory_order_release);
  }
  // Of two with one handle the older has ended, and the thread that ended it is about to say so.
  if (ended != nullptr) end_green(*ended);
}

void contexts::end_green(green_context& ended) noexcept {
  if (!ended.gone.exchange(true, std::memory_order_acq_rel)) forget_peers_of(ended.name);
}

void contexts::watch_captures() noexcept {
  base::lock_guard lock(watching_);
  bool const on = stream_order::watching_captures.load(std::memory_order_acquire) > 0 &&
                  !GPUMEM_MUTANT(served_in_watched_capture);
  each([on](context_entry& e) { e.order.watch(on); });
}

void contexts::captures_over(bool watched) noexcept {
  if (watched) watch_captures();
  if (stream_order::any_captures()) return;
  each([](context_entry& e) { e.order.joins_over(); });
}

// What was handed out while one order was promised may still be in use by work from before: that ends here.
void contexts::end_one_stream(char const* why) noexcept {
  if (!stream_order::one_stream.load(std::memory_order_relaxed) || !stream_order::one_stream.exchange(false))
    return;
  each([](context_entry& e) {
    if (e.order.synchronize() != CUDA_SUCCESS) e.order.wait_for_all();
  });
  char text[160];
  std::snprintf(text, sizeof text, "%s: from now on free = \"one_stream\" is as \"deferred\"", why);
  base::log_line(base::log_level::warn, text);
}

context_entry* contexts::find_or_make(CUcontext context) noexcept {
  if (auto* found = find_alive(context); found != nullptr) return found;
  base::uncancelled const held;
  if (auto const* green = find_green(context); green != nullptr) return find_or_make(green->primary);
  base::lock_guard lock(mutex_);
  if (auto* found = find_alive(context); found != nullptr) return found;
  if (first_.load(std::memory_order_relaxed) != nullptr) end_one_stream("a second context is used");
  CUdevice device = 0;
  {
    stream_order::scoped_context here(context);
    if (!here.is_there() || driver::asked(driver::real.cuCtxGetDevice, &device) != CUDA_SUCCESS)
      return nullptr;
    if (driver::is_over(context) && !GPUMEM_MUTANT(begun_when_over)) return nullptr;  // the driver says why
  }
  base::give_up_kept_heap();  // for what is made of the context and its chain
  register_device(device);
  look_first(context, device);
  context_entry* const again = find_free(device);
  context_entry* made = again;
  if (again != nullptr) {
    again->begin_again(context);
  } else {
    try {
      made = new context_entry(where_, access_, context, device, rules_, made_ + 1, calls_);
    } catch (std::bad_alloc const&) {
      return nullptr;
    }
  }
  ++made_;
  for (context_ending const* call = endings_; call != nullptr; call = call->next_) {
    if (call->name_.handle == context) made->order.end_begins();
  }
  if (again != nullptr) {
    again->begun(made_);
  } else {
    made->next = first_.load(std::memory_order_relaxed);
    first_.store(made, std::memory_order_release);
  }
  watch_captures();
  return made;
}

}  // namespace gpumem::route
