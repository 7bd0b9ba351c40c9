// The nearest known name to a misspelt one. Pure functions; called only when there is an error to explain.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpumem::config {

// Empty when nothing is near: a far-fetched guess is worse than none.
std::string_view nearest(std::string_view word, std::vector<std::string_view> const& names);

// "did you mean "pool"?", or empty.
std::string did_you_mean(std::string_view word, std::vector<std::string_view> const& names);

// "a, b, c"
std::string joined(std::vector<std::string_view> const& names);

}  // namespace gpumem::config
