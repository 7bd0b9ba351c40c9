// What other threads do while a backing has given the pool's mutex up, at each call of the source in turn:
// how much is taken, and how much goes back, is told by what is there then, not by what was before.
#include <memory>

#include "core/resource/pools/backing/page_backing.hpp"
#include "core/resource/pools/backing/segment_backing.hpp"
#include "tests/unit/resource/pools/backing/backing_fixture.hpp"

namespace gpumem::resource {
namespace {

struct meanwhile_test : backing_fixture {
  std::unique_ptr<backing> by;

  void begin(bool pages, suballocator_options const& options) {
    pool->options = options;
    pool->options.name = "mine";
    if (pages)
      by = std::make_unique<page_backing>(made_of(), pool->source);
    else
      by = std::make_unique<segment_backing>(made_of());
  }
  // As a request: idle memory, else more.
  space::handle get(pool_lock& lock, std::uint64_t bytes) {
    space::handle const h = pool->region.take(space::done, units(bytes), true, false, 0);
    if (h != space::none) return h;
    try {
      space::handle const grown = by->grow(lock, {.units = units(bytes)});
      return grown != space::none ? grown : pool->region.take(space::done, units(bytes), true, false, 0);
    } catch (driver::allocation_failed const&) {
      return space::none;
    }
  }
  // Idle segments, or pieces, of 2 MiB; and as much that is in use, so that none lie together, if `apart`.
  void fill(std::uint64_t bytes, bool apart) {
    std::vector<space::handle> all;
    for (std::uint64_t had = 0; had < (apart ? 2 : 1) * bytes; had += 2 * mib)
      all.push_back(get(held, 2 * mib));
    for (std::size_t i = 0; i < all.size(); i += apart ? 2 : 1) pool->region.put(all[i], space::done);
    ASSERT_EQ(pool->region.idle_bytes(), bytes);
  }
  static constexpr std::pair<bool, bool> kinds[] = {{false, false}, {true, false}, {true, true}};
  // `others` runs at the call of this number, with a lock of its own; whether there was such a call.
  template <typename Own, typename Others>
  bool run(int at, Own own, Others others) {
    int calls = 0;
    bool came = false;
    pool->source.meanwhile = [&] {
      if (calls++ != at) return;
      came = true;
      pool_lock lock(pool->mutex);
      others(lock);
    };
    own();
    pool->source.meanwhile = nullptr;
    EXPECT_EQ(pool->source.held(), pool->region.reserved_bytes()) << "call " << at;
    return came;
  }
  // Of 32 MiB that are idle the half goes back while `others` come in, at each call; they say what is to
  // stay.
  template <typename Others>
  void give_half_back(Others others) {
    for (auto const& [pages, apart] : kinds) {
      bool more = true;
      for (int at = 0; more; ++at) {
        fresh();
        begin(pages, {.growth = 2 * mib});
        fill(32 * mib, apart);
        std::uint64_t stays = 16 * mib;
        more = run(
            at, [&] { by->release_empty(held, 16 * mib, true); },
            [&](pool_lock& lock) { stays = others(lock); });
        EXPECT_EQ(pool->region.idle_bytes(), stays) << (pages ? "pages" : "segments") << ", call " << at;
      }
    }
  }
  // A pool as before for each call.
  void fresh() {
    held.unlock();
    pool = new parts(*here);
    held = pool_lock(pool->mutex);
  }
};

TEST_F(meanwhile_test, requests_together_never_pass_the_maximum) {
  for (bool const pages : {false, true}) {
    for (std::uint64_t const bytes : {8 * mib, 40 * mib, 64 * mib}) {
      for (std::uint64_t const others : {2 * mib, 40 * mib, 64 * mib}) {
        bool more = true;
        for (int at = 0; more; ++at) {
          fresh();
          begin(pages, {.maximum = 96 * mib});
          more = run(
              at, [&] { get(held, bytes); }, [&](pool_lock& lock) { get(lock, others); });
          EXPECT_LE(pool->source.most_held, 96 * mib)
              << (pages ? "pages" : "segments") << ", " << bytes / mib << " MiB beside " << others / mib
              << " MiB, call " << at;
          while (get(held, 2 * mib) != space::none) {
          }
          EXPECT_EQ(pool->source.held(), 96 * mib) << "what was on its way counts no more";
        }
      }
    }
  }
}

TEST_F(meanwhile_test, what_stays_idle_stays_beside_others_that_give_back) {
  give_half_back([&](pool_lock& lock) {
    by->release_empty(lock, 16 * mib, true);
    return 16 * mib;
  });
}

TEST_F(meanwhile_test, nor_goes_what_is_needed_by_then) {
  give_half_back([&](pool_lock& lock) {
    for (int i = 0; i < 4; ++i) get(lock, 2 * mib);
    return std::min<std::uint64_t>(pool->region.idle_bytes(), 16 * mib);
  });
}

TEST_F(meanwhile_test, what_is_due_leaves_what_is_to_be_kept) {
  going_back age(1'000'000'000);
  for (auto const& [pages, apart] : kinds) {
    if (!pages) continue;
    std::uint64_t const initial = (apart ? 40 : 8) * mib;
    bool more = true;
    for (int at = 0; more; ++at) {
      fresh();
      begin(true,
            {.initial = initial, .growth = 2 * mib, .release_after = 1'000'000'000, .kept_idle = 4 * mib});
      fill(32 * mib, apart);
      due_memory const due{.old_enough = {}, .idle_throughout = 32 * mib, .until = ~std::uint64_t{0}};
      more = run(
          at, [&] { by->release_due(held, due, age); },
          [&](pool_lock& lock) { by->release_due(lock, due, age); });
      EXPECT_EQ(pool->region.reserved_bytes(), initial) << "call " << at;
    }
  }
}

TEST_F(meanwhile_test, what_is_given_ahead_is_given_once) {
  for (auto const& [pages, apart] : kinds) {
    bool more = true;
    for (int at = 0; more; ++at) {
      fresh();
      begin(pages, {.initial = (apart ? 128 : 32) * mib, .growth = 2 * mib});
      fill(96 * mib, apart);
      by->ahead.note_late(96 * mib, 96 * mib);
      more = run(
          at, [&] { by->release_ahead(held); }, [&](pool_lock& lock) { by->release_ahead(lock); });
      EXPECT_GE(pool->region.reserved_bytes(), pool->options.initial)
          << "initial; " << (pages ? "pages" : "segments") << ", call " << at;
    }
  }
}

}  // namespace
}  // namespace gpumem::resource
