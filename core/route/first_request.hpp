// Makes what the program's first allocation would wait for and what depends on nothing that it asks: pages of
// memory that appear when they are first written, answers of the system and of the driver. Called once, by
// start(), inside whichever call of the program's set CUDA up, which takes a thousand times as long. Takes no
// device memory, makes no chain, and nothing of it shows in the report.
#pragma once

#include "core/space/block_registry.hpp"

namespace gpumem::route {

void prepare_first_request(space::block_registry& where) noexcept;

}  // namespace gpumem::route
