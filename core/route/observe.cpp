// What the shim sees and core must know: captures, synchronisations, streams and contexts that come and go.
// See router.hpp.
#include "core/base/log/log.hpp"
#include "core/base/mutant.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/driver/question.hpp"
#include "core/resource/adaptors/budget.hpp"
#include "core/resource/free_duties.hpp"
#include "core/resource/in_hand.hpp"
#include "core/resource/pools/cache/thread_slots.hpp"
#include "core/route/default_pools.hpp"
#include "core/route/first_request.hpp"
#include "core/route/returns.hpp"
#include "core/route/router_state.hpp"
#include "core/route/thread_streams.hpp"
#include "core/stream_order/one_stream.hpp"
#include "core/stream_order/relaxed_mode.hpp"
#include "core/stream_order/stream_turn.hpp"
#include "core/stream_order/watched_calls.hpp"

namespace gpumem::route {

namespace {

context_entry* known_entry(CUcontext context) noexcept {
  return present != nullptr ? present->known.find_alive(context) : nullptr;
}

// After the end of a capture, in whatever way.
void captures_over(bool watched = true) noexcept {
  present->known.captures_over(watched);
}

}  // namespace

int device_of(CUcontext context) noexcept {
  stream_order::scoped_context here(context);
  CUdevice device = -1;
  return here.is_there() && driver::asked(driver::real.cuCtxGetDevice, &device) == CUDA_SUCCESS ? device : -1;
}

void start(chain_factory factory, free_mode free, rule_set* rules, bool serves_pools,
           bool builds_ahead) noexcept {
  if (present != nullptr) return;
  auto* made = new (std::nothrow) router_state;
  if (made == nullptr) return;
  made->factory = factory;
  // what a thread remembers of streams must not outlive the router it was of
  static std::uint64_t starts = 0;
  made->streams_changed.store(++starts << 40, std::memory_order_relaxed);
  resource::free_duties.store(free == free_mode::synchronize ? resource::waits : 0,
                              std::memory_order_relaxed);
  stream_order::one_stream.store(free == free_mode::one_stream, std::memory_order_release);
  made->rules = rules != nullptr && rules->has_unnamed() ? rules : nullptr;
  made->every_rule = rules;
  made->serves_pools = serves_pools;
  made->builds_ahead = builds_ahead;
  made->known.use(rules);
  prepare_first_request(made->where);
  present = made;
}

// A capture may begin before any allocation in its context, so this makes the entry.
void capture_begins(CUcontext context, CUstream stream, CUstreamCaptureMode mode) noexcept {
  context_entry* const entry = present != nullptr ? present->known.find_or_make(context) : nullptr;
  if (entry == nullptr) return;
  bool const watches = mode != CU_STREAM_CAPTURE_MODE_RELAXED;
  green_context* const part = entry->handle != context ? present->known.find_green(context) : nullptr;
  entry->order.capture_begins({stream, part, watches});
  if (watches) present->known.watch_captures();
  present->known.each([entry](context_entry& e) {
    if (&e != entry) e.order.capture_began_elsewhere();
  });
}

// Of a stream that is no default one its context is where its begin was written down: the driver need not be
// asked. The own stream of a thread is another one in each context.
void capture_ended(CUcontext context, CUstream stream) noexcept {
  if (present == nullptr || !stream_order::any_captures()) return;
  bool watched = false;
  if (context_entry* const entry = context != nullptr ? known_entry(context) : nullptr; entry != nullptr)
    watched = entry->order.capture_ended(stream);
  else if (context == nullptr)
    present->known.each([&](context_entry& e) { watched = e.order.capture_ended(stream) || watched; });
  captures_over(watched);
}

void thread_ended(CUstream stream) noexcept {
  if (!GPUMEM_MUTANT(ended_thread_missed)) capture_ended(nullptr, stream);
}

// The wait is the only way into a capture that began elsewhere. It may be the first that is seen of the
// context.
void join_begins(CUcontext context) noexcept {
  context_entry* const entry = present != nullptr ? present->known.find_or_make(context) : nullptr;
  if (entry != nullptr && !GPUMEM_MUTANT(joined_context_ignored)) entry->order.join_begins();
}

void join_ended(CUcontext context, bool joined) noexcept {
  context_entry* const entry = known_entry(context);
  if (entry != nullptr && !GPUMEM_MUTANT(joined_context_ignored)) entry->order.join_ended(joined);
}

// A green context's synchronisation waits for its own work only: it completes no epoch.
std::uint64_t synchronize_begins(CUcontext context) noexcept {
  if (present != nullptr && present->known.find_green(context) != nullptr) return 0;
  context_entry* const entry = known_entry(context);
  return entry != nullptr ? entry->serial.load() << 32 | entry->order.synchronize_begins() : 0;
}

void synchronize_done(CUcontext context, std::uint64_t mark) noexcept {
  if (mark == 0) return;
  // The handle may name another context by now.
  if (context_entry* const entry = known_entry(context);
      entry != nullptr && static_cast<std::uint32_t>(entry->serial.load()) == mark >> 32) {
    entry->order.synchronize_done(static_cast<stream_order::epoch_id>(mark));
    entry->each_chain([](resource::chain& c) { c.synchronized(); });
    give_back_at_synchronisation(*entry);
  }
}

void context_lost() noexcept {
  if (present == nullptr) return;
  present->known.each([](context_entry& e) { e.order.look_for_loss(); });
}

// Nothing runs on it yet: the program learns of the stream when this returns.
void stream_created(CUcontext, CUstream) noexcept {
  if (present == nullptr) return;
  present->known.end_one_stream("a stream was created");
  present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
}

bool may_be_spoilt() noexcept {
  return stream_order::any_captures() && !GPUMEM_MUTANT(spoilt_stream_missed);
}

// The driver is not asked: the stream may be one that joined a capture, which the question would invalidate.
void stream_destroyed(CUcontext context, CUstream stream) noexcept {
  if (context == nullptr) {
    if (present == nullptr) return;
    present->known.each([stream](context_entry& e) { drop_slot(e, e.streams.forget(stream)); });
    present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
    return;
  }
  context_entry* const entry = known_entry(context);
  if (entry == nullptr) return;
  unsigned long long id = 0;
  if (GPUMEM_MUTANT(destroyed_stream_asked)) driver::real.cuStreamGetId(stream, &id);
  drop_slot(*entry, entry->streams.forget(stream));
  present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
}

void green_context_made(CUcontext context, CUcontext primary) noexcept {
  if (present == nullptr || context == primary) return;
  stream_order::streams::green_context_made();
  present->known.add_green(context, primary);
  present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
}

CUcontext home_of(CUcontext context) noexcept {
  green_context const* const green = present != nullptr ? present->known.find_green(context) : nullptr;
  return green != nullptr ? green->primary : context;
}

driver::named_context name_of(CUcontext context) noexcept {
  context_entry* const entry = present != nullptr ? present->known.find(context) : nullptr;
  bool const known = entry != nullptr && entry->handle == context && !entry->order.ending();
  std::uint64_t const number = known ? entry->order.id() : 0;
  return number != 0 ? driver::named_context{context, number} : driver::name_of(context);
}

void context_gone(CUcontext context) noexcept {
  if (present != nullptr)
    context_ending(context, stream_order::context_visits::patience::ten_seconds).settle(true);
}

green_context* green_context_of(CUcontext context) noexcept {
  return present != nullptr ? present->known.find_green(context) : nullptr;
}

// What threads remember of its handle is of before: whoever uses it from now on has another context.
void green_context_ends(green_context& may_end) noexcept {
  may_end.endings.fetch_add(1, std::memory_order_acq_rel);
  present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
}

void green_context_survived(green_context& alive) noexcept {
  alive.endings.fetch_sub(1, std::memory_order_acq_rel);
}

// Its memory is the primary context's and stays.
void green_context_gone(green_context& ended) noexcept {
  if (context_entry* const entry = known_entry(ended.primary); entry != nullptr) {
    entry->order.captures_gone(&ended);
    captures_over();
  }
  present->known.end_green(ended);
  present->streams_changed.fetch_add(1, std::memory_order_acq_rel);
}

context_ending::context_ending(CUcontext which, stream_order::context_visits::patience limit) noexcept
    : name_{.handle = which} {
  if (present == nullptr || which == nullptr) return;
  name_ = driver::name_of(which);
  present->known.end_begins(*this);
  stream_order::context_visits::end_begins(which, limit);
  told_ = true;
}

context_ending::~context_ending() {
  if (!told_) return;
  stream_order::context_visits::end_over(name_.handle);
  present->known.end_over(*this);
}

driver::named_context context_ending::name() const noexcept {
  return GPUMEM_MUTANT(known_by_handle) ? driver::named_context{name_.handle} : name_;
}

bool context_ending::settle(bool surely) noexcept {
  // As long as the next context takes to begin, and to give idle memory back, where others run as well.
  bool const held = GPUMEM_MUTANT(namesake_entered) || GPUMEM_MUTANT(asked_while_ending);
  for (int i = 0; held && i < 500; ++i) base::interleave_surely();
  bool const ended = surely || (name_.id != 0 && driver::has_ended(name_.handle, name_.id));
  if (!told_) return ended && name_.handle != nullptr;
  context_entry const* const entry = present->known.find(name_.handle);
  present->known.settle(*this, ended);
  if (!ended) return false;
  resource::free_duties.fetch_or(resource::asks, std::memory_order_relaxed);
  if (entry != nullptr) take_down(entry->device);
  // What devices may touch of a context is kept of those that no chain serves, too.
  present->known.forget_peers_of(name());
  return true;
}

// Requests are the chain's again with the default pool, unless only the driver can grant what that is open
// to.
void pool_chosen(int device, CUmemoryPool pool) noexcept {
  auto const place = static_cast<std::size_t>(device);
  if (present == nullptr || place >= present->pool_uses.size()) return;
  bool const serves = !present->is_shared(place) && pool == default_pool(device);
  present->chosen[place].store(serves ? nullptr : pool, std::memory_order_relaxed);
  auto& use = present->pool_uses[place];
  if (!serves) return use.store(pool_use::drivers);
  use.store(present->is_asked(place) ? pool_use::counted : pool_use::served);
  pool_use expected = pool_use::served;  // asked for the first time meanwhile
  if (present->is_asked(place)) use.compare_exchange_strong(expected, pool_use::counted);
}

void peer_access_enabled(CUcontext user, CUcontext owner) noexcept {
  if (present == nullptr) return;
  if (present->access.enable(
          {driver::name_of(user), driver::name_of(owner), device_of(user), device_of(owner)}))
    present->known.peers_changed();
}

void peer_access_disabled(CUcontext user, CUcontext owner) noexcept {
  if (present != nullptr && present->access.disable(user, owner)) present->known.peers_changed();
}

void pool_shared(CUmemoryPool pool, int device) noexcept {
  if (present == nullptr) return;
  if (auto* const made = present->pools.find(pool); made != nullptr && made->device != device) {
    if (made->live != 0) {
      base::log_line(
          base::log_level::warn,
          "a memory pool was opened to another device after gpumem served from it: that device cannot "
          "touch these blocks; set [route] pools = false for this program");
    }
    present->pools.withdraw(pool);
  }
  auto const ask = driver::real.cuDeviceGetDefaultMemPool;
  CUmemoryPool of_device = nullptr;
  for (int owner = 0; owner < static_cast<int>(peers::max_devices) && ask != nullptr; ++owner) {
    if (driver::asked(ask, &of_device, owner) != CUDA_SUCCESS) return;
    if (of_device != pool || owner == device) continue;
    auto const place = static_cast<std::size_t>(owner);
    present->shared_defaults.fetch_or(std::uint64_t{1} << owner, std::memory_order_relaxed);
    // Only where it is the current one.
    if (present->chosen[place].load(std::memory_order_relaxed) == nullptr) pool_chosen(owner, pool);
  }
}

// Other threads of the parent may have held any lock: nothing of the parent's is touched, all of it is left
// behind.
void forked_child() noexcept {
  present = nullptr;
  stream_order::context_visits::forget();
  stream_order::stream_turn::forget_in_child();
  resource::budget::forget_all();
  resource::in_hand::forget_all();
  resource::drop_thread();
  stream_order::active_captures.store(0, std::memory_order_relaxed);
  stream_order::watching_captures.store(0, std::memory_order_relaxed);
}

}  // namespace gpumem::route
