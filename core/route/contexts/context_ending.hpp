// A call that may end a context, while it runs: until it is over nobody is served from the context without a
// question to the driver. Made by the hooks of such calls, on any thread; one may run inside another.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "core/driver/context_id.hpp"
#include "core/stream_order/context_visits.hpp"

namespace gpumem::route {

// Lives around a call that may end a context: the driver may hand the context's handle and addresses to
// others long before the call returns.
class context_ending {
 public:
  // `limit`: how long the call waits for threads of other contexts that are at work in this one.
  context_ending(CUcontext which, stream_order::context_visits::patience limit) noexcept;
  ~context_ending();
  context_ending(context_ending const&) = delete;
  // The call succeeded. `surely`: what the handle named before it has ended; otherwise that is found out, as
  // somebody else may hold the context, or may have got another one by this handle meanwhile. True: it has
  // ended, its blocks are dead.
  bool settle(bool surely) noexcept;
  // What the handle named before.
  driver::named_context name() const noexcept;

 private:
  friend class contexts;
  driver::named_context name_;
  std::uint64_t since_ = 0;  // contexts known by then
  context_ending* next_ = nullptr;
  bool told_ = false;
};

}  // namespace gpumem::route
