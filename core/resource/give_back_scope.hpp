// How much goes back to the driver where it refused a request, or the program trims its pool: what is known
// to be done, which waits for no work, or also what was freed and has to be waited for. Asked of chains by
// the router and by resources whose upstream refused; any thread. Memory that is done must never wait for
// work that was submitted since: that may be a kernel that does not end before the request is served.
#pragma once

namespace gpumem::resource {

enum class give_back_scope { done, all };

}  // namespace gpumem::resource
