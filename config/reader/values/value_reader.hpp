// Reads one value of the file and checks it against its line of schema.def. Called for every key by the
// table reader; one thread. A wrong value is reported and returns nothing: it never turns into a default.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/plan/plan.hpp"
#include "config/schema/schema.hpp"
#include "config/text/diagnostic.hpp"
#include "config/text/node.hpp"

namespace gpumem::config {

// "a string", for messages.
std::string_view kind_name(node::kind kind) noexcept;

// Every kind but chain, chains and bins. `shown` names the key in messages: "behavior.free".
std::optional<option> read_value(key_info const& key, node const& value, std::string_view shown,
                                 diagnostics& out);

// Of the schema itself: "0 B", "max", "deferred". Empty where the key has no default.
std::optional<option> preset_value(key_info const& key);

// The pattern of a file name, from the file or the environment, or one of `words`; the problem, or empty.
std::string pattern_problem(std::string_view pattern, std::string_view words);
// The same for the log's, which goes to stderr or into a file.
std::string log_file_problem(std::string_view pattern);

}  // namespace gpumem::config
