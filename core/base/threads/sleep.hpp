// A sleep between two looks of a wait that must end. By the system call: the program may have a nanosleep of
// its own (libfaketime, simulators) that returns at once, and every bounded wait would be as short; and
// libc's is a point of cancellation. Any thread, in a forked child and in signal handlers; errno is kept.
#pragma once

#include <cstdint>

namespace gpumem::base {

// A signal may end it early. Where a sandbox forbids the call, others run until the time is over.
void sleep_for(std::uint64_t nanoseconds) noexcept;

}  // namespace gpumem::base
