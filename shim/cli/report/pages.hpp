// The state pages in the user's folder: which there are, whose processes live, and which are too old to keep.
// Used by `gpumem run` and `gpumem report`; one thread. Reads only what belongs to this user and is private.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/stats/page/process_life.hpp"
#include "core/stats/snapshot.hpp"

namespace gpumem::cli {

struct found_page {
  std::string path;
  long pid = 0;
  std::uint64_t start_ticks = 0;
  unsigned exec_no = 0;

  stats::process_life life() const noexcept;  // of its process, as seen from here
  // Also where that cannot be seen from here: such a page is not to be touched.
  bool process_lives() const noexcept;
};

struct page_list {
  std::vector<found_page> pages;  // by pid, then number of the image
  std::string directory;
  std::string error;  // why the folder cannot be used; empty: good, maybe empty
};

// All in the state folder that are this user's.
page_list find_pages();

inline constexpr std::uint64_t days_kept = 7;
inline constexpr std::size_t pages_kept = 256;
// Removes pages of ended processes of this user: those older than days_kept, and the oldest beyond
// pages_kept. Returns how many.
unsigned remove_stale(page_list const& list);

// Removes the pages of all ended processes of this user.
struct cleaned {
  unsigned removed = 0;
  unsigned living = 0;  // whose processes live, or lie elsewhere
  std::string refused;  // a page that could not be removed, and why
  std::string reason;
};
cleaned remove_ended(page_list const& list);

// How a page's process ended, as far as its page tells: "running", "killed", "exit 0", "exec",
// "elsewhere" (a container that cannot be looked into).
std::string state_of(found_page const& page, stats::snapshot const& content);

}  // namespace gpumem::cli
