// One context's resources over the scripted driver, for the tests of this folder. What a test makes is
// leaked, as in the library: threads remember their magazines by the address of the suballocator. `kept`
// keeps it reachable.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "core/resource/chain.hpp"
#include "core/resource/pools/cache/cache_set.hpp"
#include "core/resource/pools/direct.hpp"
#include "core/resource/pools/fixed_size.hpp"
#include "core/resource/pools/pool.hpp"
#include "core/resource/selectors/binning.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/stream_order/relaxed_mode.hpp"
#include "core/upstream/cuda.hpp"
#include "core/upstream/cuda_async.hpp"
#include "core/upstream/known_refusals.hpp"
#include "tests/unit/fake_driver/fake_driver.hpp"

namespace gpumem::resource {

constexpr std::uint64_t kib = 1ull << 10, mib = 1ull << 20, gib = 1ull << 30;

struct world {
  space::block_registry where;
  stream_order::epochs epochs{tests::first_context, 0};
  chain_context home{where, epochs, 0, driver::memory_kind::device};
  upstream::cuda cuda{home, 0};
  std::vector<std::unique_ptr<source>> sources;
  std::vector<std::unique_ptr<resource>> parts;
};
inline std::vector<world*> kept;

struct resource_fixture : testing::Test {
  tests::fake_driver& driver = tests::fake_driver::instance();
  world* here = nullptr;
  stats::device_counters at_start{};

  void SetUp() override {
    driver.reset();
    driver.manual_events(true);
    stream_order::active_captures = 0;
    upstream::driver_keeps_memory = false;  // of a process for good; other tests made pools of the driver
    here = kept.emplace_back(new world);
    at_start = device();
  }
  void TearDown() override {
    EXPECT_FALSE(driver.capture_hurt());
    here->epochs.abandon();
    for (auto part = here->parts.rbegin(); part != here->parts.rend(); ++part) (*part)->forget();
    cache_set::forget_all();  // nobody uses these again
  }

  template <typename Part, typename... Arguments>
  Part& make(Arguments&&... arguments) {
    std::size_t const node = std::min<std::size_t>(1 + here->parts.size(), stats::max_nodes - 1);
    auto made = std::make_unique<Part>(here->home, node, std::forward<Arguments>(arguments)...);
    Part& part = *made;
    here->parts.push_back(std::move(made));
    return part;
  }
  // A source that stands between a pool and the driver; kept until the parts are gone.
  template <typename Source, typename... Arguments>
  Source& below(Arguments&&... arguments) {
    auto made = std::make_unique<Source>(std::forward<Arguments>(arguments)...);
    Source& part = *made;
    here->sources.push_back(std::move(made));
    return part;
  }
  pool& make_pool(pool_options const& o = {}) { return make<pool>(o, here->cuda); }

  static stats::device_counters& device() { return stats::local().devices[0]; }
  space::block& block(space::handle h) { return here->where.blocks[h]; }
  // As the router does.
  space::handle get(resource& from, std::uint64_t bytes, stream_order::slot s = 0) {
    return from.allocate({.bytes = bytes, .slot = s, .stream = s != 0 ? tests::stream(s) : nullptr});
  }
  void give(resource&, space::handle h, stream_order::slot s = 0) {
    block(h).now = space::state::cached;
    take_back(owner_of(here->where, h), h, order(s));
  }
  // Of a free that begins now.
  free_order order(stream_order::slot s = 0) const {
    return {.slot = s, .stream = s != 0 ? tests::stream(s) : nullptr, .life = here->epochs.life()};
  }
  // The context ends, and all parts hear of it as those of a chain do; the next one of the device begins.
  void end_context() {
    here->epochs.abandon();
    for (auto part = here->parts.rbegin(); part != here->parts.rend(); ++part) (*part)->forget();
    here->cuda.forget();
    driver.end_context(tests::first_context, false);
  }
  void begin_next_context() {
    driver.set_context(tests::second_context, 0);
    here->epochs.begin_again(tests::second_context);
    here->cuda.begin_again();
    for (auto const& part : here->parts) part->begin_again();
  }
  // A thread that frees has taken the block from the program, and goes on once the context has ended.
  void free_beside_the_end(resource& owner, space::handle h) {
    free_order const begun = order();
    block(h).now = space::state::cached;
    end_context();
    take_back(owner, h, begun);
  }
  // So many streams have a magazine there: what eight share is a pool of many.
  void share(resource& from, stream_order::slot streams = 8) {
    for (stream_order::slot s = 1; s <= streams; ++s) give(from, get(from, 4 * kib, s), s);
  }
  CUresult refusal(resource& from, std::uint64_t bytes, stream_order::slot s = 0) {
    try {
      get(from, bytes, s);
      return CUDA_SUCCESS;
    } catch (driver::allocation_failed const& failed) {
      return failed.code();
    }
  }
  std::uint64_t rung(std::uint64_t stats::device_counters::*field) {
    return device().*field - at_start.*field;
  }
};

#define EXPECT_RUNG(field, count) \
  EXPECT_EQ(rung(&stats::device_counters::field), static_cast<std::uint64_t>(count))

}  // namespace gpumem::resource
