// Fills a page header with what a report says about this process: who, where, started how. Called once, when
// the page is opened, before any reader sees it. Reads /proc only; no heap, no network, never fails (unknown
// stays empty).
#pragma once

#include "core/stats/layout.hpp"

namespace gpumem::stats {

void describe_process(page_header& head) noexcept;

}  // namespace gpumem::stats
