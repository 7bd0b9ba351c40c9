// A stand-in for libgpumem.so: in a process that COUNTING_PRELOAD asks for, opens a state page at load,
// counts 1000 calls, and reports at a normal exit, as the real library does.
#include <cstdlib>
#include <string_view>

#include "core/report/output/write_reports.hpp"
#include "core/stats/page/state_page.hpp"

namespace {

using namespace gpumem;

bool wanted() {
  return std::getenv("COUNTING_PRELOAD") != nullptr;
}

[[gnu::constructor]] void load() {
  if (!wanted()) return;
  ::unsetenv("COUNTING_PRELOAD");  // this image of this process only
  char const* const run_id = std::getenv("GPUMEM_RUN_ID");
  stats::hook_description const hooks[] = {{"cuMemAlloc_v2", "device"}};
  stats::open_page({hooks, "0.1.0", run_id == nullptr ? "" : run_id});
  for (int i = 0; i < 1000; ++i) stats::add(stats::local().hooks[0].calls, 1);
}

[[gnu::destructor]] void unload() {
  if (stats::current_page() == nullptr) return;
  stats::close_page({.kind = stats::end_kind::exit, .clean = 1});
  if (report::write_reports(stats::current_page(), {})) stats::remove_page_file();
}

}  // namespace
