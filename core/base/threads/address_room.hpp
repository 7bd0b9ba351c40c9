// How many addresses a table may reserve. Only few of its pages will ever be touched, but under `ulimit -v`
// addresses are taken from the program: its own malloc must not fail where it would not without us. Slow
// paths, any thread.
#pragma once

#include <cstdint>

namespace gpumem::base {

// `wanted`, or a 64th of the addresses that the limit leaves.
std::uint64_t address_room(std::uint64_t wanted) noexcept;

}  // namespace gpumem::base
