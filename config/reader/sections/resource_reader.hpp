// [resource.NAME] tables and the names of resources: which type a name means, and which options it has.
// Called by the table reader for tables, chains and bins; one thread, once a load.
#pragma once

#include <string>
#include <string_view>

#include "config/reader/values/draft.hpp"
#include "config/text/diagnostic.hpp"
#include "config/text/node.hpp"

namespace gpumem::config {

// The table [resource.NAME] itself.
void read_resource(node const& table, draft& to, diagnostics& out);

// The options of a table into `to`; `where` is "resource.pool" or "device.1.pool".
void read_options(node const& table, std::string const& where, draft& all, resource_plan& to,
                  diagnostics& out);

// A name in a chain or a bin. Types without a table become resources with default options. False: unknown,
// and said.
bool resolve_name(std::string const& name, file_position at, std::string_view user, draft& to,
                  diagnostics& out);

// Adds defaults, turns exponents into bins, reports required keys that are missing.
void complete(resource_plan& resource, std::string const& where, draft const& all, diagnostics& out);

// "unknown key", with the nearest name and all names.
void unknown_key(node const& key, std::string_view table, std::vector<std::string_view> const& known,
                 diagnostics& out);

}  // namespace gpumem::config
