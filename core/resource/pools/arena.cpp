// See arena.hpp.
#include "core/resource/pools/arena.hpp"

#include <cstdio>
#include <new>

#include "core/base/log/log.hpp"
#include "core/resource/pools/cache/thread_slots.hpp"

namespace gpumem::resource {

namespace {

// A part keeps this much that is idle; above it whole superblocks go back. So no part would keep a larger
// block: the superblocks themselves serve it.
constexpr std::uint64_t kept_idle = 64ull << 20;

double in_mib(std::uint64_t bytes) noexcept {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

arena::part& arena::part_of(allocation_request const& request) noexcept {
  if (options_.per_stream && request.slot != stream_order::no_slot)
    return of_streams_[request.slot % most_parts];
  thread_slots const* const slots = attach_thread();
  return of_threads_[slots != nullptr ? slots->number % most_parts : 0];
}

suballocator& arena::make(part& place) {
  base::lock_guard lock(making_);
  if (suballocator* const made = place.load(std::memory_order_acquire); made != nullptr) return *made;
  try {
    suballocator_options const o{.release_threshold = kept_idle,
                                 .release_after = options_.release_after,
                                 .earned_from = options_.earned_from,
                                 .one_magazine = true};
    made_.push_back(std::make_unique<suballocator>(home_, node_, o, superblocks_, "arena"));
  } catch (std::bad_alloc const&) {
    throw driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "arena", "no host memory for its tables",
                                    driver::refused_by::tables);
  }
  made_.back()->set_parent(*this);
  place.store(made_.back().get(), std::memory_order_release);
  superblocks_.count_part();
  return *made_.back();
}

// As allocate().
[[gnu::always_inline]] inline space::handle arena::serve(allocation_request const& request) {
  if (request.bytes > kept_idle) [[unlikely]]
    return large_.allocate(request);
  part& place = part_of(request);
  suballocator* const made = place.load(std::memory_order_acquire);
  suballocator& own = made != nullptr ? *made : make(place);
  return own.allocate(request);
}

space::handle arena::serve_and_log(allocation_request const& request) {
  try {
    return serve(request);
  } catch (driver::allocation_failed const& failed) {
    log_state(failed.what());
    throw;
  }
}

space::handle arena::allocate(allocation_request const& request) {
  if (options_.dump_log_on_failure) [[unlikely]]
    return serve_and_log(request);
  return serve(request);
}

std::uint64_t arena::spare(std::uint64_t bytes, bool is_short, std::size_t& asked) noexcept {
  std::size_t const parts = superblocks_.parts();
  // What few have idle they need again soon: they are better off with it while there is plenty.
  if (!superblocks_.is_of_many() && !is_short) return 0;
  std::uint64_t given = 0;
  for (std::size_t i = 0; i < 2 * most_parts && given < bytes && asked < parts; ++i) {
    std::size_t const n = next_spare_.fetch_add(1, std::memory_order_relaxed) % (2 * most_parts);
    part const& p = n < most_parts ? of_streams_[n] : of_threads_[n - most_parts];
    suballocator* const made = p.load(std::memory_order_acquire);
    if (made == nullptr) continue;
    ++asked;
    given += made->give_back_idle();
  }
  return given;
}

void arena::log_state(char const* reason) noexcept {
  char line[200];
  idle_usage const below = superblocks_.measure();
  std::snprintf(line, sizeof line, "arena: out of memory (%.90s); superblocks: %.1f MiB, %.1f MiB idle",
                reason, in_mib(superblocks_.reserved()), in_mib(below.idle));
  base::log_line(base::log_level::warn, line);
  auto const say = [&](char const* whose, std::array<part, most_parts> const& group) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      suballocator* const p = group[i].load(std::memory_order_acquire);
      if (p == nullptr) continue;
      idle_usage const l = p->measure();
      std::snprintf(line, sizeof line,
                    "arena: part of %s %zu: %.1f MiB, %.1f MiB idle (%.1f MiB not done), largest %.1f MiB",
                    whose, i, in_mib(p->reserved()), in_mib(l.idle), in_mib(l.pending), in_mib(l.largest));
      base::log_line(base::log_level::warn, line);
    }
  };
  say("stream", of_streams_);
  say("thread", of_threads_);
}

void arena::count_free(stats::free_blocks& to) noexcept {
  each([&](suballocator& p) { p.count_free(to); });
}

idle_usage arena::measure() noexcept {
  idle_usage sum;
  each([&](suballocator& p) {
    idle_usage const l = p.measure();
    sum.idle += l.idle;
    sum.pending += l.pending;
    sum.largest = sum.largest > l.largest ? sum.largest : l.largest;
  });
  return sum;
}

std::uint64_t arena::idle() noexcept {
  std::uint64_t bytes = 0;
  each([&](suballocator& p) { bytes += p.idle(); });
  return bytes;
}

std::uint64_t arena::give_back(give_back_scope scope) noexcept {
  std::uint64_t bytes = 0;
  each([&](suballocator& p) { bytes += p.give_back(scope); });
  return bytes;
}

void arena::give_back_due(moment const& at) noexcept {
  each([&at](suballocator& p) { p.give_back_due(at); });
}

void arena::stream_gone(stream_order::slot s) noexcept {
  each([&](suballocator& p) { p.stream_gone(s); });
}

void arena::forget() noexcept {
  each([&](suballocator& p) { p.forget(); });
}

void arena::begin_again() {
  each([&](suballocator& p) { p.begin_again(); });
}

}  // namespace gpumem::resource
