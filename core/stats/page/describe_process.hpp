// Fills a page header with what a report says about this process: who, where, how started. Called once,
// when the page is opened, before any reader sees it. Reads /proc only; no heap, no network. Cannot fail:
// what is unknown stays empty.
#pragma once

#include "core/base/files/file_pattern.hpp"
#include "core/stats/page/layout.hpp"

namespace gpumem::stats {

void describe_process(page_header& head) noexcept;

// Of the page, for the names of files; this one uses the heap.
base::pattern_values values_of_this_process();

}  // namespace gpumem::stats
