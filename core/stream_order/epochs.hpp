// When the memory of one context may serve again. A free carries the number of the open epoch. Closing an
// epoch records one context event (cuCtxRecordEvent) that covers all earlier work on all streams, so one
// event settles the frees of all threads since the last one. A free is done once the event of its epoch or
// a later one is done, or once the program has synchronised the context after it. open() and is_done() are
// wait-free, for hot paths; the rest takes a mutex, never held across a call that blocks, as a capture that
// begins waits for it. While a stream of the context captures (it began a capture, or joined one of another
// context) no event is recorded: it would invalidate the capture. The mutex makes "no capture" and "record"
// one step against capture_begins, and so "nothing ends it" and a call with its events against end_begins.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "core/base/mutant.hpp"
#include "core/base/threads/fixed_stack.hpp"
#include "core/base/threads/mutex.hpp"
#include "core/base/threads/sure_allocator.hpp"
#include "core/driver/sticky_error.hpp"
#include "core/driver/table.hpp"
#include "core/stream_order/foreign_work.hpp"
#include "core/stream_order/free_pace.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::stream_order {

// wraps; compared by its distance from what is done
using epoch_id = std::uint32_t;

class epochs {
 public:
  // `id`: the context's number, where the driver says it.
  epochs(CUcontext context, int device, epoch_id first = 1, std::uint64_t id = 0) noexcept
      : context_(context), id_(id), device_(device), open_(first), done_(first - 1) {}
  epochs(epochs const&) = delete;

  // A plain load is enough: a free that reads number n ran before the increment that closes n, so the driver
  // calls that it follows took the driver's locks before the event's record takes them.
  epoch_id open() const noexcept { return open_.load(std::memory_order_acquire); }
  epoch_id last_done() const noexcept { return done_.load(std::memory_order_acquire); }
  bool is_done(epoch_id s) const noexcept {
    if (GPUMEM_MUTANT(always_done)) return true;
    // Not done is what was closed since, or is open: never more than `window` numbers. An epoch may be older
    // than half of all numbers, in a magazine that nobody visits.
    return done_.load(std::memory_order_acquire) - s < epoch_id{0} - window;
  }

  // Asks the driver which epochs are done; if `wanted` is in the open one, closes that first. True if
  // `wanted` is done. Threads that come at once share one event: whoever comes second finds its epoch closed,
  // or done.
  // The lock is tried in a loop, which clang's analysis cannot follow.
  bool collect(epoch_id wanted) noexcept GPUMEM_ANNOTATE(no_thread_safety_analysis);
  // The same without closing: only looks. True if any epoch became done.
  bool poll_now() noexcept;
  // Blocks the calling host thread until `s` is done, for `most_ns` at most: a kernel that runs may be
  // waiting for what this thread does next, and natively a request waits for none. False when that cannot be
  // had now (so too where a capture runs and the epoch was never closed, or the context is dead); the caller
  // must then take other memory. Once the longest wait was in vain there is none until some epoch is done.
  static constexpr std::uint64_t longest_wait_ns = 60'000'000'000;
  bool wait(epoch_id s, std::uint64_t most_ns = longest_wait_ns) noexcept;
  // The same for all that was submitted, before the driver is given memory back, which it waits for. True
  // also where nobody can be asked, as beside a capture.
  bool wait_for_all() noexcept { return wait(open()) || broken() || capturing(); }
  // Makes later work of `stream` wait for `s` on the device. False when that cannot be had now.
  bool wait_on_device(CUstream stream, epoch_id s) noexcept;
  // The same for what was freed in the order of `freed_on` alone, up to `s`: an epoch's event would wait for
  // all streams, of which one may be waiting for this very request.
  bool wait_on_device(CUstream stream, epoch_id s, CUstream freed_on) noexcept;
  // The stream has no work, nor has one that it waits for by itself, so that what was freed in its order is
  // done. False also when that is not known.
  bool is_idle(CUstream stream) noexcept;
  // It waits for no other stream by itself, as blocking ones do for the legacy stream, of whose work a
  // question about them tells nothing. Null, or a default stream: no.
  static bool stands_alone(CUstream stream) noexcept;

  // A free in the order of a stream of another context, before it is given a number: epochs from the open one
  // on are done no sooner than the work of `stream` so far, which no event of this context covers. False
  // where that cannot be had now: the host has to wait. `other` lives as long as this.
  bool await(epochs const& other, CUstream stream) noexcept;
  // Some of that is under way: who waits for this context alone waits for too little.
  bool awaits_others() const noexcept { return elsewhere_.any(); }

  // Waits for all work of the context, with nothing held. CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and no call
  // made, while a stream captures.
  CUresult synchronize() noexcept;

  // Ends the open epoch without an event of its own: frees from now on have a later number than is returned.
  epoch_id move_on() noexcept;

  // The program's own synchronisation of this context: mark before the call, complete after its success.
  epoch_id synchronize_begins() noexcept;
  void synchronize_done(epoch_id mark) noexcept;

  // Never waits for the GPU.
  struct origin {
    CUstream stream = nullptr;
    void const* of = nullptr;  // which green context the stream belongs to; null: none. Only compared
    bool watches = false;      // not in relaxed mode: see watched_calls.hpp
  };
  void capture_begins(origin const& begun) noexcept;  // before the call; a failed one is ended again
  // Also for a failed begin, for a stream that is destroyed while it captures, and for a per-thread one whose
  // thread ends. True if that capture watched.
  bool capture_ended(CUstream stream) noexcept;
  // A green context is gone, and with it the captures that its streams began.
  void captures_gone(void const* of) noexcept;
  // A stream of this context may join a capture that began elsewhere: before the wait that does it, and
  // after, when it is known. What joined stays until no capture is left in the process.
  void join_begins() noexcept;
  void join_ended(bool joined) noexcept;
  void joins_over() noexcept;
  // A capture began in another context: driver calls made here in the belief that nothing captures are over
  // when this returns.
  void capture_began_elsewhere() noexcept { base::lock_guard lock(mutex_); }
  // A stream of this context captures.
  bool capturing() const noexcept { return captures_.load(std::memory_order_acquire) > 0; }

  // A sticky error was seen: the context is lost, and serves nobody. loss() is what the driver says of it;
  // success: that is not known, or the context is gone.
  bool broken() const noexcept { return (trouble_.load(std::memory_order_acquire) & lost) != 0; }
  CUresult loss() const noexcept { return loss_.load(std::memory_order_acquire); }
  // What the driver said of a call in this context.
  void hear(CUresult code) noexcept {
    if (!driver::is_sticky(code)) [[likely]]
      return;
    loss_.store(code, std::memory_order_release);
    trouble_.fetch_or(lost, std::memory_order_acq_rel);
  }
  // The same of a call that was made in that life.
  void hear(CUresult code, std::uint32_t of) noexcept;
  // Some context was lost, by what a call of the program's was told: asks the driver whether it is this one.
  // Not while a stream captures.
  void look_for_loss() noexcept;
  // The context is gone: forget its captures and events.
  void abandon() noexcept;
  // After that, and with nobody served: this is `next`'s from now on, of the same device. Numbers go on, so
  // that what anybody still has of the context before is of an epoch that is done, and of another life.
  void begin_again(CUcontext next) noexcept;
  // The driver may be ending the context right now, and hand its addresses out for others' memory before it
  // says so.
  bool ending() const noexcept { return (trouble_.load(std::memory_order_acquire) & ~(lost | watched)) != 0; }
  // A call that may end the context begins: driver calls made here in the belief that nothing ends it are
  // over when this returns. end_failed(): it did not end it.
  void end_begins() noexcept;
  void end_failed() noexcept { trouble_.fetch_sub(1, std::memory_order_acq_rel); }
  // Neither: what nearly every call asks.
  bool well() const noexcept { return trouble_.load(std::memory_order_acquire) == 0; }
  // Captures of any context watch what threads do: well() is false meanwhile.
  void watch(bool on) noexcept;

  // Moves on when the context is gone, and when the next one begins: what was asked of the driver in one life
  // and comes back in another belongs to nobody.
  std::uint32_t life() const noexcept { return life_.load(std::memory_order_acquire); }
  bool ended() const noexcept { return is_over(life()); }
  // The life that was there then is over.
  bool ended_since(std::uint32_t then) const noexcept { return is_over(then) || life() != then; }
  // Makes the context current for the life of the guard, unless it has ended.
  [[nodiscard]] scoped_context enter(
      context_visits::if_ending then = context_visits::if_ending::refuse) const noexcept {
    std::uint32_t const now = life();  // before the handle, which is the next one's in the next life
    std::uint64_t const id = ending() ? this->id() : 0;
    return scoped_context(context(), then, {&life_, now, is_over(now), id});
  }

  CUcontext context() const noexcept { return context_.load(std::memory_order_acquire); }
  // Which of the contexts that had its handle it is; 0: the driver does not say.
  std::uint64_t id() const noexcept { return id_.load(std::memory_order_acquire); }
  int device() const noexcept { return device_; }

  free_pace pace{*this};

 private:
  // An epoch with the event that settles it.
  struct closed_epoch {
    epoch_id last;  // covers every free with this epoch or an earlier one
    CUevent event;
  };
  // Oldest first, each later than the one before.
  class closed_queue {
   public:
    bool empty() const noexcept { return count_ == 0; }
    bool full() const noexcept { return count_ == most; }
    closed_epoch const& oldest() const noexcept { return ring_[first_]; }
    void push(closed_epoch const& e) noexcept { ring_[(first_ + count_++) % most] = e; }
    void pop() noexcept {
      first_ = (first_ + 1) % most;
      --count_;
    }
    void clear() noexcept { count_ = 0; }
    // The oldest that covers `wanted`; null: none does.
    closed_epoch const* covering(epoch_id wanted) const noexcept {
      for (std::size_t i = 0; i < count_; ++i) {
        closed_epoch const& e = ring_[(first_ + i) % most];
        if (static_cast<std::int32_t>(e.last - wanted) >= 0) return &e;
      }
      return nullptr;
    }

   private:
    static constexpr std::size_t most = 64;
    std::array<closed_epoch, most> ring_{};
    std::size_t first_ = 0, count_ = 0;
  };

  // The context's events and streams are its own until the mutex is given up: nothing ends it now, or not
  // before this thread is through, which is inside. Else their handles may be others' by now.
  bool may_ask() const noexcept GPUMEM_REQUIRES(mutex_);
  // False: the driver does not answer here, as in a host function.
  bool poll() noexcept GPUMEM_REQUIRES(mutex_);
  void close() noexcept GPUMEM_REQUIRES(mutex_);
  // Null: the driver has none.
  CUevent take_event() noexcept GPUMEM_REQUIRES(mutex_);
  CUresult synchronize_context() noexcept;
  void let_synchronizations_enter() noexcept;
  void count_captures(int more) noexcept GPUMEM_REQUIRES(mutex_);
  // True: one of them watched.
  template <typename Gone>
  bool remove_origins(Gone gone, std::size_t most) noexcept GPUMEM_REQUIRES(mutex_);
  [[gnu::cold, gnu::noinline]] epoch_id before_foreign_work(epoch_id s) noexcept GPUMEM_REQUIRES(mutex_);
  // Epochs up to `s` are done.
  void complete(epoch_id s) noexcept GPUMEM_REQUIRES(mutex_);
  // The oldest closed epoch is done; its event is spare.
  void retire_oldest() noexcept GPUMEM_REQUIRES(mutex_);

  static constexpr epoch_id window = 1u << 16;
  // There is room to close another epoch; far from the limit, as threads close epochs at once.
  bool may_close() const noexcept { return open() - last_done() < window / 2; }

  static bool is_over(std::uint32_t life) noexcept { return life % 2 != 0; }

  std::atomic<CUcontext> context_;
  std::atomic<std::uint64_t> id_;
  int device_;
  alignas(64) std::atomic<epoch_id> open_;
  std::atomic<epoch_id> done_;
  std::atomic<int> captures_{0};
  static constexpr std::uint32_t lost = 1u << 31;
  static constexpr std::uint32_t watched = 1u << 30;
  std::atomic<CUresult> loss_{CUDA_SUCCESS};
  std::atomic<std::uint32_t> trouble_{0};  // calls under way that may end the context, `lost`, `watched`
  std::atomic<std::uint32_t> life_{0};     // odd: over; beside what a free looks at anyway
  alignas(64) base::mutex mutex_;
  int synchronizing_ GPUMEM_GUARDED_BY(mutex_) = 0;  // threads in synchronize_context
  epoch_id in_vain_ GPUMEM_GUARDED_BY(mutex_) = 0;   // last_done() + 1 of the longest wait; 0: none was
  bool unasked_ GPUMEM_GUARDED_BY(mutex_) = false;   // the last answer about an event was of the question
  std::atomic<bool> joined_{false};                  // written under mutex_
  closed_queue closed_ GPUMEM_GUARDED_BY(mutex_);
  // As many as can be closed, and some that are being recorded.
  base::fixed_stack<CUevent, 128> spare_ GPUMEM_GUARDED_BY(mutex_);
  std::vector<origin, base::sure_allocator<origin>> origins_ GPUMEM_GUARDED_BY(mutex_);
  foreign_work elsewhere_;  // under mutex_
};

}  // namespace gpumem::stream_order
