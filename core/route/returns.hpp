// Where memory that is due may go back to the driver: at the end of a free without a stream, which natively
// waits for the GPU while launches of other threads wait, and of a synchronisation of the context. Called by
// the hot path's rare side and by the shim's hooks, on the program's threads, with no lock held. Never beside
// a capture, and never for another context than the call's.
#pragma once

#include "core/driver/request.hpp"
#include "core/resource/resource.hpp"

namespace gpumem::route {

struct context_entry;

// What a free without a stream has to do at its end (free_duties), after `bytes` were freed: it may wait for
// the GPU, and memory of the same kind may go back.
[[gnu::noinline, gnu::cold]] void do_duties(resource::chain_context const& home,
                                            driver::free_request const& release,
                                            std::uint64_t bytes) noexcept;
// A synchronisation stops no launch of other threads: only where there are none.
void give_back_at_synchronisation(context_entry& entry) noexcept;

}  // namespace gpumem::route
