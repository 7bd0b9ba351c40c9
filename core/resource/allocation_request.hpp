// A request and a free as the chain sees them: the stream reduced to its slot. Made by the router; live as
// long as the call.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "core/driver/request.hpp"
#include "core/stream_order/streams.hpp"

namespace gpumem::resource {

class in_hand;

struct allocation_request {
  std::uint64_t bytes = 0;
  // no_slot: any stream or the host may touch the memory at once
  stream_order::slot slot = stream_order::no_slot;
  CUstream stream = nullptr;            // of that slot
  unsigned flags = 0;                   // of cuMemAllocManaged, cuMemHostAlloc
  std::uint32_t alignment = 0;          // bytes, a power of two; 0: any block is aligned enough
  driver::request const* by = nullptr;  // null: no call of the program's; valid while the request is served
  // Of a source: takes the memory in as soon as it is there; null: it goes with no context.
  in_hand* hand = nullptr;

  std::uint16_t hook() const noexcept { return by != nullptr ? by->hook : std::uint16_t{0}; }
  void const* caller() const noexcept { return by != nullptr ? by->caller : nullptr; }
};

// A free as the chain sees it: ordered after the stream's work so far, or, with no_slot, after all work of
// the context.
struct free_order {
  stream_order::slot slot = stream_order::no_slot;
  bool settled = false;   // the free was a barrier: nothing uses the memory any more
  bool in_order = false;  // of a stream, maybe of another context's: it waits for nothing
  CUstream stream = nullptr;
  // Of the context, before the block was taken from the program: in another life it went with its context,
  // and its handle may be another's.
  std::uint32_t life = 0;
  std::uint64_t bytes = 0;  // of the block when it was taken from the program; 0: it is still that block
  driver::free_request const* by =
      nullptr;  // null: no call of the program's; valid while the block is taken back

  void const* caller() const noexcept { return by != nullptr ? by->caller : nullptr; }
};

}  // namespace gpumem::resource
