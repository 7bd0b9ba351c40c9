// The bins of a binning resource: an array of { max, to }, or a range of exponents that becomes such an
// array. Called by the resource reader; one thread, once a load. The plan has bins only, sorted and without
// doubles.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/reader/values/draft.hpp"
#include "config/text/diagnostic.hpp"
#include "config/text/node.hpp"

namespace gpumem::config {

// `where` is "resource.binning.bins"; the places of bins are noted below it.
std::optional<option> read_bins(node const& value, std::string const& where, draft& all, diagnostics& out);

// Replaces the exponents of a binning resource by the bins they mean; reports when there are neither, or
// both.
void expand_exponents(resource_plan& resource, std::string const& where, draft const& all, diagnostics& out);

// A device that sets bins means them instead of inherited exponents, and the other way round.
void forget_other_form(std::string_view key, resource_plan& resource);

}  // namespace gpumem::config
