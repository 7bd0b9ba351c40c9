// One resource below several: who hears of a block that came through one of them, when it is freed and when
// its context takes it along.
#include "core/resource/selectors/crossing.hpp"

#include "core/resource/adaptors/limiting.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {
namespace {

struct crossing_test : resource_fixture {
  void TearDown() override {
    resource_fixture::TearDown();
    budget::forget_all();
  }
  template <typename Part>
  Part& keep(std::unique_ptr<Part> part) {
    Part& kept = *part;
    here->parts.push_back(std::move(part));
    return kept;
  }
};

// A binning over a pool, whose small bin is an adaptor over the same pool.
TEST_F(crossing_test, a_context_that_goes_tells_those_whom_a_block_came_through) {
  budget& b = *budget::find_or_make({.name = "small", .limit = 8 * mib});
  crossing& ways = keep(std::make_unique<crossing>(here->home, make_pool()));
  crossing::door& rest = keep(ways.make_door());
  crossing::door& among = keep(ways.make_door());
  auto const& counters = stats::local().nodes[1 + here->parts.size()];  // of the next part
  stats::node_counters const before = counters;
  limiting& small = make<limiting>(among, b);
  binning& top = make<binning>(std::vector<binning::bin>{{2 * mib, &small}}, rest);
  give(top, get(top, 2 * mib));
  EXPECT_EQ(b.left(), 8 * mib);
  get(top, 2 * mib);
  get(top, 4 * mib);
  EXPECT_EQ(b.left(), 6 * mib) << "the larger one came another way";
  end_context();
  EXPECT_EQ(b.left(), 8 * mib);
  EXPECT_EQ(counters.bytes_in - before.bytes_in, 4 * mib);
  EXPECT_EQ(counters.bytes_out - before.bytes_out, 4 * mib);
}

}  // namespace
}  // namespace gpumem::resource
