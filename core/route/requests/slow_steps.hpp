// The steps of requests and frees that are rare or cost much anyway: calls of hot_path.hpp, which says in
// what order they are taken. Any thread; nothing here throws. A step that gives an outcome gives the
// program's answer, and ends the request or the free; without one it goes on.
#pragma once

#include <optional>

#include "core/resource/pools/cache/magazine.hpp"
#include "core/route/default_pools.hpp"
#include "core/route/router_state.hpp"
#include "core/stream_order/watched_calls.hpp"

namespace gpumem::route {

// Who serves a request. One of `quick` and `chain` is null, or both: passthrough.
struct supply {
  resource::suballocator* quick = nullptr;  // its hits need no virtual call
  resource::chain* chain = nullptr;
  resource::magazine* own = nullptr;  // of `quick`, of this thread or the stream; null: none is known
  bool remembered = false;            // from this thread's last request
};

// What a request got: a block, or with `none` the program's answer.
struct taken {
  space::handle h = space::none;
  outcome refusal = pass;
};

// After which work a freed block may serve again; see resource::free_order.
struct freed_after {
  stream_order::slot slot = stream_order::no_slot;
  CUstream stream = nullptr;
  bool settled = false;
  std::uint32_t life = 0;   // of the block's context, before the block was taken from the program
  std::uint64_t bytes = 0;  // of the block, as it was taken
};

// --- of requests ---

// The first rule that matches names the chain; false: the driver must answer.
bool take_rule(rule_set& rules, context_entry const& entry, driver::request const& request,
               std::size_t& number) noexcept;

// The driver's answer where the context, a capture or the program's own pool asks for it. `counts`: the block
// belongs to the figures of a pool that the program asked for.
std::optional<outcome> answer_request_slow(router_state& s, stream_place const& place,
                                           driver::request const& request, CUdeviceptr* result,
                                           bool& counts) noexcept;
// As find_place_fast, of what has not changed since.
stream_place find_place_slow(router_state& s, driver::request const& request) noexcept;

// What a chain refused in that `life` of the context: the program hears of it, unless the context is gone.
[[gnu::noinline, gnu::cold]] outcome refuse(driver::request const& request, context_entry& entry,
                                            std::uint32_t life, std::size_t number,
                                            driver::allocation_failed const& failed,
                                            CUdeviceptr* result) noexcept;
// A block that no magazine had; `look`: what the magazine was found to hold.
[[gnu::noinline]] taken take_slow(supply from, context_entry& entry, std::size_t number,
                                  driver::request const& request, stream_order::slot slot,
                                  resource::cache_look look, CUdeviceptr* result) noexcept;

// This thread has requested a sampled byte: the block stands for others. Or the request is recorded, as all
// are. Called by the hook's own frame, as samples of one caller are told apart by where the stack is then.
[[gnu::noinline]] void look_closer_slow(context_entry& entry, space::block& b, space::handle h,
                                        driver::request const& request) noexcept;

// --- of frees ---

// The address is no live block's.
[[gnu::noinline]] outcome release_of_none(driver::free_request const& release) noexcept;
// The driver's answer where the current context has ended: there it frees nothing, whatever context it is of.
[[gnu::noinline]] std::optional<outcome> answer_under_ended(driver::free_request const& release) noexcept;
// The driver's answer where the context of the block asks for it.
std::optional<outcome> answer_free_slow(resource::chain_context const& home,
                                        driver::free_request const& release) noexcept;
// After which work the memory is free, also where the host has to wait for that work now.
std::optional<outcome> order_slow(router_state& s, resource::chain_context const& home,
                                  driver::free_request const& release, freed_after& when) noexcept;
// A freed block of which something rare holds: what the program set on it is undone, and what counts it hears
// of its end.
struct renewed {
  bool as_new = true;     // false: it must not serve again
  bool unproven = false;  // it was (space::unproven), and its memory may go back at once
};
// Its free is not done: another thread has freed it, or it is not what the free names.
[[gnu::noinline, gnu::cold]] outcome not_taken() noexcept;
[[gnu::noinline, gnu::cold]] outcome leave_to_program(space::block& b) noexcept;
// `ended`: with its context, so that its marks may be another block's.
renewed make_new(router_state& s, space::handle h, bool stream_ordered, CUstream stream, bool ended) noexcept;
[[gnu::noinline]] void take_back_unproven(resource::resource& owner, space::handle h, freed_after when,
                                          driver::free_request const& release) noexcept;
// Of a block that another process may have open, so that it serves nobody again: what it passed through hears
// of the free, and its owner withholds it.
[[gnu::noinline]] void withhold_slow(resource::resource& owner, space::handle h, freed_after when,
                                     driver::free_request const& release) noexcept;

// What the driver would say to a free of a block that no capture made: its refusal for the sake of the stream
// or of captures, or CUDA_SUCCESS.
CUresult refusal_by_driver(driver::free_request const& release) noexcept;
// What it says to a free of no block, asked with an address that is nobody's: of the context, the stream and
// captures it knows more than is known here. Never CUDA_SUCCESS.
CUresult refusal_of_none(driver::free_request const& release) noexcept;

}  // namespace gpumem::route
