// All that the shim asks of core: request -> chain, pointer -> owner, and what it observes. One router a
// process, never destroyed. Called from every hook on every thread. `pass` means: not ours, call the real
// function and return its answer. Nothing here throws; a driver error keeps its code.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "core/driver/context_id.hpp"
#include "core/driver/request.hpp"
#include "core/resource/free_duties.hpp"
#include "core/resource/give_back_scope.hpp"
#include "core/resource/in_hand.hpp"
#include "core/route/contexts/chain_factory.hpp"
#include "core/route/contexts/context_ending.hpp"
#include "core/route/rules/free_mode.hpp"

namespace gpumem::route {

// Either an answer for the program, or "the real function must answer".
struct outcome {
  CUresult code;
  constexpr bool served() const noexcept { return code != unanswered; }
  static constexpr auto unanswered = static_cast<CUresult>(1023);  // no code of the driver: 999 is the last
  // CUDA_ERROR_INVALID_VALUE of a free that names no block, or none any longer: what is there came since.
  static constexpr auto refused_since = static_cast<CUresult>(1022);
};
inline constexpr outcome pass{outcome::unanswered};

// The block that holds an address.
struct block_range {
  CUdeviceptr base = 0;
  std::uint64_t bytes = 0;  // as the program asked
};

class rule_set;

// Call once, before the first request. `rules` may be null; it outlives the router.
// `serves_pools`: chains also serve in the place of memory pools that the program makes. `builds_ahead`: the
// chain of device memory takes nothing when it is made, so that it may be there before it is used.
void start(chain_factory factory, free_mode free, rule_set* rules = nullptr, bool serves_pools = false,
           bool builds_ahead = false) noexcept;

// Requests and frees themselves are requests/hot_path.hpp. The same where something rare holds, from the
// beginning: a context that is not well, a pool whose figures are kept, work of another context. What asks
// for it was only looked at so far.
[[gnu::noinline]] outcome allocate_carefully(driver::request const& request, CUdeviceptr* result) noexcept;
[[gnu::noinline]] outcome release_carefully(driver::free_request const& release) noexcept;

// The device of a context that need not be known here; -1 where the driver does not say.
int device_of(CUcontext context) noexcept;

// The rules of this name, for driver::request::named; 0: there are none.
std::uint64_t rules_named(char const* name) noexcept;

// A call of the program's was told that a context is lost, it does not say which: those that are serve nobody
// any more, and every call about them is the driver's to answer.
void context_lost() noexcept;

// A free that was answered with an error, by a chain or by the driver: for those resources that report
// faults.
void refused(driver::free_request const& release) noexcept;
// The same of one that passed, by the driver: a block that begins there now came since.
void refused_below(driver::free_request const& release) noexcept;
// The same of one that was answered with outcome::refused_since; the program's answer.
CUresult refused_since(driver::free_request const& release) noexcept;
// Around the driver's answer to a free that passes. Nobody is late before a context has ended.
class passing_free {
 public:
  explicit passing_free(driver::free_request const& release) noexcept {
    if ((resource::free_duties.load(std::memory_order_relaxed) & resource::asks) != 0) [[unlikely]]
      begin(release);
  }
  passing_free(passing_free const&) = delete;

  // None: the driver is to be asked. Else it is memory of a chain by now, of which the program knows nothing.
  std::optional<CUresult> refusal() const noexcept { return refusal_; }

 private:
  void begin(driver::free_request const& release) noexcept;

  std::optional<resource::passing_free> under_way_;
  std::optional<CUresult> refusal_;
};

// True if `address` is the base of a live block of ours.
bool owns(CUdeviceptr address) noexcept;
bool owns_device_memory(CUdeviceptr address) noexcept;
// The live block that contains `address` (interior too); false if it is not ours.
bool find(CUdeviceptr address, block_range& result) noexcept;
// Memory of a segment of ours that no block of the program's has: to the program it is freed, or never was
// there.
bool is_idle(CUdeviceptr address) noexcept;
// The same, or of a block that the program has.
bool is_in_segment(CUdeviceptr address) noexcept;

// The number of the live block around the address, which no other block has or had; 0: it is not ours.
std::uint64_t identity_of(CUdeviceptr address) noexcept;

// Memory that the pools of the current context's device hold and could give: cudaMemGetInfo adds it to
// `free`.
std::uint64_t idle_bytes(CUcontext context) noexcept;
// Gives every empty segment of the device back to the driver, and waits until other threads that do so are
// done; call when a call that we only observe ran out of memory, then repeat it: what others gave back is not
// in the answer, the bytes given back.
std::uint64_t give_back(CUcontext context, resource::give_back_scope scope) noexcept;
// The same for a call that natively waits for nothing: what is done, and the rest only if what was submitted
// so far is done soon (0.1 s); nothing while a stream captures. False: nothing was given back.
bool give_back_if_idle(int device) noexcept;
bool give_back_if_idle(CUcontext context) noexcept;

// --- what the shim observes ---

// Before the real begin-capture call, and after the call that ended the capture (or the failed begin).
void capture_begins(CUcontext context, CUstream stream, CUstreamCaptureMode mode) noexcept;
void capture_ended(CUcontext context, CUstream stream) noexcept;  // null: of whatever context it is
// The thread whose default stream goes by this name has ended: the capture of such a stream goes with it.
void thread_ended(CUstream stream) noexcept;
// A stream waits for an event while a capture runs anywhere: it may join it, and its context captures then as
// well. Before the real call, and after it, when it is known.
void join_begins(CUcontext context) noexcept;
void join_ended(CUcontext context, bool joined) noexcept;

// A synchronisation by the program itself: take the mark before the real cuCtxSynchronize, complete it after
// success.
std::uint64_t synchronize_begins(CUcontext context) noexcept;
void synchronize_done(CUcontext context, std::uint64_t mark) noexcept;

void stream_created(CUcontext context, CUstream stream) noexcept;  // after success
// A stream whose context the driver does not tell may be one whose capture was spoilt.
bool may_be_spoilt() noexcept;
// Before the real call; null: of whatever context it is.
void stream_destroyed(CUcontext context, CUstream stream) noexcept;
// `context` is a part of `primary`: the same memory, and events of `primary` cover its work.
void green_context_made(CUcontext context, CUcontext primary) noexcept;
// The one of this handle, before the call that ends it: afterwards the handle may name another. Null: none is
// known.
struct green_context;
green_context* green_context_of(CUcontext context) noexcept;
// Around the call that may end it, after which its handle may be another context's.
void green_context_ends(green_context& may_end) noexcept;
void green_context_gone(green_context& ended) noexcept;
void green_context_survived(green_context& alive) noexcept;
// The context that memory made in this one belongs to: of a part of a primary context, that one.
CUcontext home_of(CUcontext context) noexcept;
// The context with its number; the driver is asked where that is not known.
driver::named_context name_of(CUcontext context) noexcept;
void context_gone(CUcontext context) noexcept;  // it has ended: its blocks are dead
// An IPC handle names this block: its memory serves nobody else. False, and nothing done: natively it is in a
// pool, whose memory legacy IPC does not share.
bool exported(CUdeviceptr address) noexcept;
// The program set a memory pool of its own: stream-ordered calls on the device go to the driver.
void pool_chosen(int device, CUmemoryPool pool) noexcept;

// After success: `user` may touch the memory of `owner`, or may no longer.
void peer_access_enabled(CUcontext user, CUcontext owner) noexcept;
void peer_access_disabled(CUcontext user, CUcontext owner) noexcept;
// After success: the program gave `device` access to a pool. If that is a device's default pool, its
// stream-ordered calls go to the driver from now on, which alone can grant what was asked for.
void pool_shared(CUmemoryPool pool, int device) noexcept;

// Bytes from row to row of pitched memory, as the driver answered for this shape before; 0: it has to be
// asked. And its answer. The device is that of the current `context`.
struct rows {
  std::uint64_t width = 0;
  std::uint64_t height = 0;
  unsigned element = 0;
};
std::uint64_t known_pitch(CUcontext context, rows const& wanted) noexcept;
void pitch_learnt(CUcontext context, rows const& wanted, std::uint64_t pitch) noexcept;

// Writes the pending bytes of every device to the gauges: before a report. No driver call.
void measure() noexcept;

// --- process life ---
void forked_child() noexcept;  // forget everything; CUDA is dead here until the child starts its own

}  // namespace gpumem::route
