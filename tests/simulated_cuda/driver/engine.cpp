// Work and time: placing operations, running their effects, waiting, and what captures forbid. See
// machine.hpp. Called under the machine's lock; a host function runs without it, and then no other thread
// moves the clock. Host threads share one clock of what has happened: a completion that any thread has seen
// is physically over for all.
#include <algorithm>
#include <cstdio>
#include <thread>

#include "machine.hpp"

namespace simulated {

void machine::legacy_order(stream& on) {
  if (on.is_legacy) {
    on.tail.join(on.owner->left_over_blocking);
    for (stream* other : on.owner->streams) {
      if (other != &on && other->blocking()) on.tail.join(other->tail);
    }
  } else if (on.blocking()) {
    on.tail.join(on.owner->legacy->tail);
  }
}

namespace {

// Enabled access covers what cuMemAlloc made; a pool and a mapping have to be opened themselves.
bool reaches(context const& from, block const& what) {
  if (what.device == from.device) return true;
  if (what.kind == block_kind::mapping) return (what.open_to >> from.device & 1) != 0;
  if (what.kind == block_kind::pooled) return what.from->open_to(from.device);
  if (what.kind != block_kind::device) return true;
  return std::any_of(from.peers.begin(), from.peers.end(),
                     [&](context const* peer) { return peer->device == what.device; });
}

}  // namespace

void machine::check(stream& on, operation const& work) {
  std::uint64_t const tick = ticks_[on.slot];
  for (simulated_access const& range : work.accesses) {
    if (range.bytes == 0) continue;
    block const* const found = memory_.find(range.address);
    if (found == nullptr && pageable_) {
      checker_.access(range, on.slot, tick, on.tail.after, work.name, false);
      continue;
    }
    if (found == nullptr || range.address + range.bytes > found->base + found->span) {
      // A fill may run over several blocks of the allocator above; a driver block is the limit of what is
      // mapped.
      bool const mapped = found != nullptr && range.address + range.bytes <= memory_.mapped_end(*found);
      if (!mapped) {
        char text[160];
        std::snprintf(text, sizeof text,
                      "not allocated: %s touches [0x%llx, 0x%llx), which no driver allocation holds",
                      work.name, static_cast<unsigned long long>(range.address),
                      static_cast<unsigned long long>(range.address + range.bytes));
        checker_.report(text);
        continue;
      }
    }
    if (work.by_program && !reaches(*on.owner, *found)) {
      checker_.report(std::string("no peer access: ") + work.name + " on device " +
                      std::to_string(on.owner->device) + " touches memory of device " +
                      std::to_string(found->device));
      continue;
    }
    if (found->kind == block_kind::host || found->kind == block_kind::registered) continue;
    bool const ordinary = found->kind == block_kind::device || found->kind == block_kind::pooled;
    checker_.access(range, on.slot, tick, on.tail.after, work.name, work.by_program && ordinary);
  }
}

void machine::schedule(stream& on, operation work) {
  legacy_order(on);
  on.tail.after.join(host_);
  on.tail.after.set(on.slot, ++ticks_[on.slot]);
  on.tail.end = std::max(on.tail.end, now_) + work.duration;
  check(on, work);
  if (work.action && !work.pinned.empty()) {
    work.action = [this, of = on.owner->home(), pinned = work.pinned, effect = std::move(work.action)] {
      bool const there = std::all_of(pinned.begin(), pinned.end(), [this](std::uint64_t address) {
        return memory_.find(address) != nullptr;
      });
      if (there)
        effect();
      else
        of->fault = CUDA_ERROR_ILLEGAL_ADDRESS;  // freed meanwhile, under another context (measured)
    };
  }
  if (work.action || work.host_function) {
    queue_.push({on.tail.end, sequence_++, std::move(work.action), std::move(work.host_function)});
  }
}

CUresult machine::submit(stream& on, operation work) {
  if (!on.capturing) {
    if (on.is_legacy) {
      if (CUresult const code = implicit_sync(*on.owner); code != CUDA_SUCCESS) return code;
    }
    schedule(on, std::move(work));
    return CUDA_SUCCESS;
  }
  if (on.capturing->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  add_node(on, {std::move(work), nullptr, nullptr});
  return CUDA_SUCCESS;
}

void machine::add_node(stream& on, graph_node node) {
  capture& into = *on.capturing;
  if (&on != into.origin) into.joined.insert(&on);
  into.result->nodes.push_back(std::move(node));
}

void machine::wait(stream& on, point const& after) {
  legacy_order(on);
  on.tail.join(after);
}

point machine::all_work(context& of) {
  point all = of.left_over;
  for (stream* each : of.streams) all.join(each->tail);
  for (context* green : of.greens) all.join(all_work(*green));
  return all;
}

void machine::advance(nanoseconds to) {
  while (true) {
    if (host_function_runs_) {
      if (this_thread().in_host_function) return;
      std::unique_lock held(lock_, std::adopt_lock);
      host_function_done_.wait(held, [this] { return !host_function_runs_; });
      held.release();
    }
    if (queue_.empty() || queue_.top().end > to) break;
    pending next = queue_.top();
    queue_.pop();
    if (next.action) next.action();
    if (next.host_function) {
      host_function_runs_ = true;
      lock_.unlock();
      auto const run = [&next] {
        this_thread().in_host_function = true;
        next.host_function();
        this_thread().in_host_function = false;
      };
      host_thread_ ? std::thread(run).join() : run();
      lock_.lock();
      host_function_runs_ = false;
      host_function_done_.notify_all();
    }
    now_ = std::max(now_, next.end);
  }
  now_ = std::max(now_, to);
}

// The real driver's calls do not wait for a host function either, and a library may hold a lock around them
// that the host function needs.
void machine::tick(nanoseconds to) {
  if (!host_function_runs_) advance(to);
}

void machine::run_all() {
  nanoseconds last = now_;
  for (context* each : contexts_) last = std::max(last, each->left_over.end);
  for (stream* each : streams_) last = std::max(last, each->tail.end);
  advance(last);
}

void machine::host_wait(point until) {
  if (until.end > now_) ++this_thread().host_waits;
  advance(std::max(now_, until.end));
  host_.join(until.after);
}

bool machine::host_query(point const& until) {
  if (until.end > now_) return false;
  tick(now_);
  host_.join(until.after);
  return true;
}

void machine::trim_pools() {
  auto const pools = memory_.pools;
  for (pool* each : pools) {
    if (each->destroyed && memory_.drop_if_over(*each, now_, host_)) continue;
    if (each->reserved > each->threshold) memory_.trim(*each, each->threshold, now_, host_);
  }
}

CUresult machine::unsafe_call() {
  thread_state const& mine = this_thread();
  if (mine.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  bool disturbed = false;
  for (auto const& each : captures_) {
    bool const own = each->thread == mine.id && each->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    bool const global = each->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (!own && !(global && mine.mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) continue;
    each->invalidated = true;
    disturbed = true;
  }
  return disturbed ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult machine::disturbs(context& of) {
  bool disturbed = false;
  auto const is_there = [&of](stream const* each) {
    return each->owner == &of || each->owner->home() == &of;
  };
  for (auto const& each : captures_) {
    if (!is_there(each->origin) && std::none_of(each->members.begin(), each->members.end(), is_there))
      continue;
    each->invalidated = true;
    disturbed = true;
  }
  return disturbed ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

CUresult machine::implicit_sync(context& of) {
  bool disturbed = false;
  for (stream* each : of.streams) {
    if (!each->capturing || !each->blocking()) continue;
    each->capturing->invalidated = true;
    disturbed = true;
  }
  return disturbed ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
}

}  // namespace simulated
