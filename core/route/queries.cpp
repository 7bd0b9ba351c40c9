// Questions of the router about memory: whose is an address, what is idle, what is in use. See router.hpp.

#include <algorithm>
#include <utility>

#include "core/base/clock.hpp"
#include "core/base/mutant.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/base/threads/sleep.hpp"
#include "core/driver/nobodys.hpp"
#include "core/driver/question.hpp"
#include "core/route/default_pools.hpp"
#include "core/route/router_state.hpp"
#include "core/route/thread_streams.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/stream_order/relaxed_mode.hpp"
#include "core/stream_order/watched_calls.hpp"

namespace gpumem::route {

constinit router_state* present = nullptr;

namespace {

stream_place ask_driver(router_state& s, CUstream stream, CUcontext current) noexcept {
  if (current == nullptr && driver::asked(driver::real.cuStreamGetCtx, stream, &current) != CUDA_SUCCESS)
    return {};
  context_entry* const entry = s.known.find_or_make(current);
  if (entry == nullptr) return {};
  if (entry->order.capturing() && captures(stream))
    return {entry, stream_order::no_slot, stream_place::kind::capturing};
  // The legacy stream must not be touched while others capture.
  bool const may_ask =
      driver::real.cuStreamGetId != nullptr && !(stream == CU_STREAM_LEGACY && stream_order::any_captures());
  unsigned long long id = 0;
  if (!may_ask || driver::asked(driver::real.cuStreamGetId, stream, &id) != CUDA_SUCCESS)
    return {entry, stream_order::no_slot, stream_place::kind::without_slot};
  bool const goes_never = stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  stream_order::slot const slot = entry->streams.slot_of(id, goes_never ? nullptr : stream);
  if (stream == CU_STREAM_PER_THREAD) keep_thread_stream(*entry, id);
  if (slot == stream_order::no_slot) return {entry, slot, stream_place::kind::without_slot};
  return {entry, GPUMEM_MUTANT(wrong_slot) ? stream_order::slot{1} : slot};
}

}  // namespace

context_entry* look_up(router_state& s, CUcontext context) noexcept {
  std::uint64_t const now = s.streams_changed.load(std::memory_order_acquire);
  context_entry* const entry = s.known.find_or_make(context);
  if (entry != nullptr) memo.keep(context, entry, now);
  return entry;
}

// Its allocations are graph nodes of the driver's.
bool captures(CUstream stream) noexcept {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (stream == CU_STREAM_LEGACY)
    return false;  // cannot be captured; asking would invalidate a global capture
  return driver::asked(driver::real.cuStreamIsCapturing, stream, &status) != CUDA_SUCCESS ||
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// A capturing stream is not asked who it is: that would invalidate its capture (measured: cuStreamGetId, then
// 901).
stream_place look_up(router_state& s, CUstream stream, CUcontext current) noexcept {
  std::uint64_t const now = s.streams_changed.load(std::memory_order_acquire);
  stream_place const place = ask_driver(s, stream, current);
  memo.renew(now);
  if (place.entry != nullptr && place.slot != stream_order::no_slot) memo.keep(stream, current, place, now);
  return place;
}

// A driver that cannot tell contexts apart is asked about the address. Memory that no context owns is ours
// where ours is such; else it is of a pool or a mapping of the program's, which has got the address since.
static whose ask_whose_by_address(resource::chain_context const& home, CUdeviceptr address) noexcept {
  if (driver::real.cuPointerGetAttribute == nullptr) return whose::ours;
  auto const here = home.epochs.enter();
  CUcontext now = nullptr;
  CUresult const code =
      driver::asked(driver::real.cuPointerGetAttribute, &now, CU_POINTER_ATTRIBUTE_CONTEXT, address);
  switch (code) {
    case CUDA_SUCCESS:
      if (now == nullptr && !present->where.segments.is_contextless(address)) return whose::others;
      return now == home.context() || now == nullptr ? whose::ours : whose::others;
    case CUDA_ERROR_NOT_PERMITTED:
      return whose::untold;
    default:
      return driver::is_of_the_question(code) ? whose::not_found_out : whose::others;
  }
}

whose ask_whose(resource::chain_context const& home, CUdeviceptr address) noexcept {
  context_entry* const entry = present->known.find_by(home.epochs);
  std::uint64_t const serial = entry != nullptr ? entry->serial.load() : 0;
  if (entry == nullptr || entry->order.id() == 0) return ask_whose_by_address(home, address);
  switch (driver::state_of(entry->handle, entry->order.id())) {
    case driver::context_state::not_told:
      return whose::untold;
    case driver::context_state::not_found_out:
      return whose::not_found_out;
    case driver::context_state::same:
      return whose::ours;
    default:
      present->known.end(*entry, serial);
      return whose::others;
  }
}

space::handle live_block_at(router_state& s, CUdeviceptr address) noexcept {
  space::handle const h = s.where.map.find(address);
  if (h == space::none) return h;
  return s.where.blocks[h].now.load(std::memory_order_acquire) == space::state::live ? h : space::none;
}

static CUresult ask_captures(driver::free_request const& release) noexcept {
  if (release.answered_below && stream_order::watching_captures.load(std::memory_order_acquire) > 0)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return stream_order::ask_captures();
}

// A stream that is none, or in a capture, is the first that the driver looks at; in one it is no memory of
// the graph's, unless the capture is lost already.
CUresult refusal_by_driver(driver::free_request const& release) noexcept {
  if (!release.stream_ordered) return ask_captures(release);
  if (release.stream == CU_STREAM_LEGACY) return ask_captures(release);  // it must not be asked
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult const code = driver::asked(driver::real.cuStreamIsCapturing, release.stream, &status);
  if (code != CUDA_SUCCESS) return code;
  if (status == CU_STREAM_CAPTURE_STATUS_NONE) return ask_captures(release);
  bool const lost = status == CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  return lost ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_INVALID_VALUE;
}

CUresult refusal_of_none(driver::free_request const& release) noexcept {
  auto const& real = driver::real;
  using driver::nobodys;
  CUresult code = CUDA_ERROR_INVALID_VALUE;
  if (release.answered_below) return code;
  if (release.stream_ordered) {
    if (real.cuMemFreeAsync != nullptr) code = real.cuMemFreeAsync(nobodys, release.stream);
  } else if (release.kind == driver::memory_kind::host) {
    code = real.cuMemFreeHost(reinterpret_cast<void*>(nobodys));
  } else {
    code = real.cuMemFree_v2(nobodys);
  }
  return driver::refusal(code);
}

bool ask_unknown_free(router_state& s, CUdeviceptr address) noexcept {
  auto const inside = s.where.segments.containing(address);
  if (inside.in == nullptr) return false;
  if (inside.owner == nullptr) return true;
  resource::chain_context const& home = resource::owner_of(inside).home();
  if (home.epochs.ended()) return false;  // it went with its context, and is others' by now
  return !home.epochs.ending() || ask_whose(home, address) == whose::ours;
}

static void tell_refused(driver::free_request const& release, bool is_since) noexcept {
  if (present == nullptr) return;
  block_range block;
  space::handle inside = find(release.address, block) ? present->where.map.find(block.base) : space::none;
  // Of what was freed something may be known, and nothing is wrong with what is there now.
  if (is_since) inside = space::none;
  // Who knows of the address may be any chain of any device: all are asked before one says that nobody does.
  bool reported = false;
  for (bool const if_known : {true, false}) {
    if (!if_known && is_since) break;
    resource::refused_free const what{release.address, inside, release.caller, if_known};
    present->known.each([&](context_entry& e) {
      e.each_chain([&](resource::chain& c) { reported = reported || c.refused(what); });
    });
  }
}

void passing_free::begin(driver::free_request const& release) noexcept {
  // As long as the next context takes to begin and to serve.
  for (int i = 0; (GPUMEM_MUTANT(late_pass) || GPUMEM_MUTANT(passes_unseen)) && i < 100; ++i)
    base::interleave_surely();
  if (present == nullptr || GPUMEM_MUTANT(passes_unseen)) return;
  under_way_.emplace(release.address);
  if (!under_way_->is_in_hand() && !ask_unknown_free(*present, release.address)) return;
  refusal_ = refusal_of_none(release);
  tell_refused(release, true);
}

void refused(driver::free_request const& release) noexcept {
  tell_refused(release, false);
}

void refused_below(driver::free_request const& release) noexcept {
  tell_refused(release, owns(release.address));
}

CUresult refused_since(driver::free_request const& release) noexcept {
  refused_below(release);
  return CUDA_ERROR_INVALID_VALUE;
}

bool owns(CUdeviceptr address) noexcept {
  return present != nullptr && live_block_at(*present, address) != space::none;
}

bool owns_device_memory(CUdeviceptr address) noexcept {
  if (present == nullptr) return false;
  space::handle const h = live_block_at(*present, address);
  return h != space::none && resource::owner_of(present->where, h).home().kind == driver::memory_kind::device;
}

space::handle block_around(router_state& s, CUdeviceptr address, resource::resource*& owner) noexcept {
  auto& where = s.where;
  space::handle h = live_block_at(s, address);
  if (h != space::none) {
    owner = &resource::owner_of(where, h);
  } else {
    auto const inside = where.segments.containing(address);
    if (inside.owner == nullptr) return space::none;
    owner = &resource::owner_of(inside);
    h = owner->block_at(*inside.in, address);
    if (h == space::none || where.blocks[h].now.load(std::memory_order_acquire) != space::state::live)
      return space::none;
  }
  if (ask_whether_of_others(owner->home(), address)) return space::none;
  space::block const& b = where.blocks[h];
  bool const asked_for = address - b.begin() < b.bytes() - b.rounding || address == b.begin();
  return asked_for ? h : space::none;
}

bool find(CUdeviceptr address, block_range& result) noexcept {
  if (present == nullptr) return false;
  resource::resource* owner = nullptr;
  space::handle const h = block_around(*present, address, owner);
  if (h == space::none) return false;
  space::block const& b = present->where.blocks[h];
  result = {b.begin(), b.bytes() - b.rounding};
  return true;
}

std::uint64_t identity_of(CUdeviceptr address) noexcept {
  block_range block;
  if (!find(address, block)) return 0;
  space::handle const h = live_block_at(*present, block.base);
  return h != space::none ? present->numbers.of(present->where.blocks[h], h) : 0;
}

bool is_idle(CUdeviceptr address) noexcept {
  if (present == nullptr || live_block_at(*present, address) != space::none) return false;
  auto const inside = present->where.segments.containing(address);
  if (inside.in == nullptr) return false;
  if (inside.owner == nullptr) return true;  // of a context that ended
  block_range block;
  return !find(address, block) && !ask_whether_of_others(resource::owner_of(inside).home(), address);
}

bool is_in_segment(CUdeviceptr address) noexcept {
  block_range block;
  return present != nullptr && (find(address, block) || is_idle(address));
}

bool exported(CUdeviceptr address) noexcept {
  space::handle const h = present != nullptr ? live_block_at(*present, address) : space::none;
  if (h == space::none) return true;
  auto& where = present->where;
  space::block& b = where.blocks[h];
  if (is_of_pool(b)) return false;
  if (GPUMEM_MUTANT(exported_served)) return true;
  b.mark(space::exported);
  std::atomic_ref<bool>(where.segments[b.segment].pinned).store(true, std::memory_order_relaxed);
  // Its segment may lie in a block of a resource below.
  std::array<space::segment_owner*, 8> owners{};
  std::size_t const count = where.segments.owners_of(address, owners);
  for (std::size_t i = 1; i < count; ++i) static_cast<resource::resource*>(owners[i])->exported(address);
  return true;
}

std::uint64_t idle_bytes(CUcontext context) noexcept {
  if (present == nullptr) return 0;
  context_entry* const asked = present->known.find(context);
  if (asked == nullptr) return 0;
  std::uint64_t idle = 0;
  present->known.each([&](context_entry& e) {
    if (e.device != asked->device) return;
    e.each_device_chain([&](resource::chain& c) { idle += c.idle(); });
  });
  return idle;
}

// What another thread has taken out of its pool for the driver is nobody's until the driver has it: a request
// that is repeated before would be refused. No lock is held while the other one may wait for the GPU, and it
// is not waited for for ever.
static void wait_for_others(std::atomic<int> const& giving_back) noexcept {
  for (int i = 0; i < 20'000 && giving_back.load(std::memory_order_acquire) > 0; ++i) base::sleep_for(50'000);
}

std::uint64_t give_back_on(int device, resource::give_back_scope scope) noexcept {
  if (present == nullptr) return 0;
  auto& under_way = present->giving_back[stats::device_slot(device)];
  std::uint64_t bytes = 0;
  under_way.fetch_add(1, std::memory_order_acq_rel);
  present->known.each([&](context_entry& e) {
    if (e.device == device) e.each_device_chain([&](resource::chain& c) { bytes += c.give_back(scope); });
  });
  under_way.fetch_sub(1, std::memory_order_acq_rel);
  wait_for_others(under_way);
  return bytes;
}

std::uint64_t give_back(CUcontext context, resource::give_back_scope scope) noexcept {
  if (present == nullptr) return 0;
  context_entry* const asked = present->known.find(context);
  return asked != nullptr ? give_back_on(asked->device, scope) : 0;
}

bool give_back_if_idle(int device) noexcept {
  if (present == nullptr || stream_order::any_captures()) return false;
  bool const gave = give_back_on(device, resource::give_back_scope::done) != 0;
  std::uint64_t const until = base::now_ns() + 100'000'000;
  bool idle = true;
  present->known.each([&](context_entry& e) {
    if (e.device != device || e.gone.load(std::memory_order_acquire)) return;
    space::epoch_id const mark = e.order.open();
    while (idle && !e.order.collect(mark)) {
      base::sleep_for(50'000);
      idle = base::now_ns() < until;
    }
  });
  if (idle) give_back_on(device, resource::give_back_scope::all);
  return idle || gave;
}

bool give_back_if_idle(CUcontext context) noexcept {
  context_entry* const asked = present != nullptr ? present->known.find(context) : nullptr;
  return asked != nullptr && give_back_if_idle(asked->device);
}

std::uint64_t rules_named(char const* name) noexcept {
  return present != nullptr && present->every_rule != nullptr ? present->every_rule->named(name) : 0;
}

void measure() noexcept {
  if (present == nullptr) return;
  std::array<std::uint64_t, stats::max_devices> pending{};
  std::array<bool, stats::max_devices> seen{};
  present->known.each([&](context_entry& e) {
    seen[stats::device_slot(e.device)] = true;
    e.each_device_chain(
        [&](resource::chain& c) { pending[stats::device_slot(e.device)] += c.measure().pending; });
  });
  for (std::size_t d = 0; d < pending.size(); ++d) {
    if (!seen[d]) continue;
    stats::set(stats::gauges(static_cast<int>(d)).pending, pending[d]);
    stats::sample_device(static_cast<int>(d));
  }
}

void settle(context_entry& entry) noexcept {
  if (!std::exchange(resource::reserved_changed, false)) return stats::renew_share(entry.device);
  if (!looked_first_in_this_call(entry.device)) look_at_use(entry.order.enter(), entry.device);
  take_down(entry.device);
}

void take_down(int device) noexcept {
  std::uint64_t pending = 0;
  present->known.each([&](context_entry& e) {
    if (e.device == device) e.each_device_chain([&](resource::chain& c) { pending += c.measure().pending; });
  });
  stats::set(stats::gauges(device).pending, pending);
  stats::sample_device(device);
}

}  // namespace gpumem::route
