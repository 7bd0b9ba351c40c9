// REFERENCE.md, made from schema.def. Used by the generator and by the test that finds a stale file; pure.
#pragma once

#include <string>

namespace gpumem::config {

std::string reference_text();

}  // namespace gpumem::config
