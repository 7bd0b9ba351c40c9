// Reads chains: an array of names, and the array of chains of a fallback. Called by the readers of tables
// and resources; one thread, once a load. Names are resolved to resources only where the chain is used.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/reader/values/draft.hpp"
#include "config/text/diagnostic.hpp"
#include "config/text/node.hpp"

namespace gpumem::config {

// The names in `value`, which is an array; the file_position of name i is noted as `where`.i. What is no name
// is reported and left out.
std::vector<std::string> read_names(node const& value, std::string const& where, draft& all,
                                    diagnostics& out);

// `shown` is "fallback.chains", `where` "resource.fallback.chains"; name j of chain i stands at `where`.i.j.
std::optional<option> read_chains(node const& value, std::string const& where, std::string const& shown,
                                  draft& all, diagnostics& out);

}  // namespace gpumem::config
