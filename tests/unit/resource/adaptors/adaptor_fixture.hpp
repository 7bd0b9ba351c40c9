// Adaptors above a pool over the scripted driver, with a state page in a folder of the test's own, as call
// sites and misuses are kept there. One page for the whole program: tests look at what is new in it.
#pragma once

#include <gnu/libc-version.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "core/stats/snapshot.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {

// Addresses in libc's code, to play return addresses: of a function that no sanitizer replaces.
inline void const* code(int n) {
  return reinterpret_cast<char const*>(&gnu_get_libc_version) + n * 16;
}

struct adaptor_fixture : resource_fixture {
  inline static std::string folder;

  static void SetUpTestSuite() {
    if (!folder.empty()) return;
    char made[] = "/tmp/gpumem_adaptor_XXXXXX";
    ASSERT_NE(::mkdtemp(made), nullptr);
    folder = made;
    ::setenv("GPUMEM_STATE_DIR", folder.c_str(), 1);
    static stats::hook_description const hooks[] = {{"cuMemAlloc_v2", "device"}, {"cuMemFree_v2", "free"}};
    ASSERT_TRUE(stats::open_page({hooks, "0.1.0", "run-1"}));
    std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(folder, ignored);
    });
  }

  // The adaptors of a test end with it, the pools below still have blocks to forget, which they tell those
  // above.
  void TearDown() override {
    pool& nobody = make_pool();
    for (auto& part : here->parts) {
      if (part.get() != &nobody) part->set_parent(nobody);
    }
    resource_fixture::TearDown();
  }

  // As the program's code `site` would.
  space::handle get_from(resource& from, std::uint64_t bytes, void const* site, stream_order::slot s = 0) {
    driver::request const by{.bytes = bytes, .caller = site};
    space::handle const h =
        from.allocate({.bytes = bytes, .slot = s, .stream = s != 0 ? tests::stream(s) : nullptr, .by = &by});
    block(h).rounding = static_cast<std::uint32_t>(block(h).bytes() - bytes);
    return h;
  }
  void give_from(space::handle h, void const* site, stream_order::slot s = 0) {
    block(h).now = space::state::cached;
    driver::free_request const by{.hook = 1, .caller = site};
    take_back(
        owner_of(here->where, h), h,
        {.slot = s, .stream = s != 0 ? tests::stream(s) : nullptr, .life = here->epochs.life(), .by = &by});
  }
  // A free that is under way until the next context of the device has blocks, of which one has its handle.
  struct late_free {
    std::vector<space::handle> next;
    std::uint64_t live = 0;  // once it is over
  };
  late_free free_late(resource& part) {
    space::handle const h = get_from(part, 3000, code(1));
    driver::free_request const by{.hook = 1, .caller = code(2)};
    free_order begun = order();
    begun.by = &by;
    block(h).now = space::state::cached;
    end_context();
    begin_next_context();
    late_free made;
    while (made.next.size() < 64 && (made.next.empty() || made.next.back() != h))
      made.next.push_back(get_from(part, 3000, code(1)));
    EXPECT_EQ(made.next.back(), h);
    made.live = made.next.size();
    take_back(owner_of(here->where, h), h, begun);
    return made;
  }
  char* bytes_of(space::handle h) { return reinterpret_cast<char*>(block(h).begin()); }

  static stats::snapshot snapshot() {
    auto taken = stats::take_snapshot();
    EXPECT_EQ(taken.error, "");
    return std::move(taken.value);
  }
};

}  // namespace gpumem::resource
