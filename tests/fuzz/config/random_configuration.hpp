// Configurations from nothing but a seed: the types, keys, words and bounds of schema.def, put together at
// random into chains, bins, fallbacks, rules and values for single devices. Most are files that a person
// could have meant; every rule of config/ is left to be broken, as the generator knows none of them. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace gpumem::tests {

// `log_folder`: where resources that write files may write.
std::string random_configuration(std::uint64_t seed, std::string const& log_folder);

}  // namespace gpumem::tests
