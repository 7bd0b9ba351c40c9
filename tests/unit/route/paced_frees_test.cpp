// Which frees keep the GPU's pace, and when they begin to: as soon as a request would wait for what was freed
// far ahead of the GPU, natively what those frees would have done.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "core/resource/free_duties.hpp"
#include "tests/unit/route/fixture.hpp"

namespace gpumem::route {
namespace {

using tests::first_context;
using tests::second_context;
using tests::stream;

struct paced_frees : route_fixture {
  static constexpr std::uint64_t mib = 1ull << 20;

  static bool are_told() { return (resource::free_duties.load() & resource::paces) != 0; }
  static std::vector<CUdeviceptr> get_blocks(int count, std::uint64_t bytes, CUstream on = nullptr) {
    std::vector<CUdeviceptr> blocks;
    for (int i = 0; i < count; ++i) blocks.push_back(must_get(bytes + i * 2 * mib, on));
    return blocks;
  }
  static void give_blocks(std::vector<CUdeviceptr> const& blocks, CUstream on = nullptr) {
    for (CUdeviceptr const each : blocks) EXPECT_SERVED(give(each, on), CUDA_SUCCESS);
  }
  // Frees of so much that the GPU has not done, and a request that none of it can serve.
  void run_ahead() {
    driver.manual_events(true);
    give_blocks(get_blocks(16, 30 * mib));
    EXPECT_FALSE(are_told());
    give_blocks({must_get(600 * mib)});
  }
  void SetUp() override {
    route_fixture::SetUp();
    driver.at_query([this] { ++questions; });
  }
  int questions = 0;
};

TEST_F(paced_frees, begin_when_a_request_waits_for_frees_far_ahead_of_the_gpu) {
  run_ahead();
  EXPECT_TRUE(are_told());
  std::vector<CUdeviceptr> const first = get_blocks(8, 40 * mib), second = get_blocks(8, 60 * mib);
  give_blocks(first);
  questions = 0;
  give_blocks(second);
  EXPECT_GT(questions, 10) << "waited for the first eight";
}

// A pool of at most 4 GiB.
std::unique_ptr<resource::chain> make_bounded(resource::chain_context const& home) {
  if (home.kind != driver::memory_kind::device) return nullptr;
  auto built = std::make_unique<resource::chain>();
  resource::source& below = built->add_source(std::make_unique<upstream::cuda>(home, 1));
  built->add(std::make_unique<resource::pool>(
      home, 2, resource::pool_options{.maximum_pool_size = 4096ull << 20}, below));
  return built;
}

// Else the first request that finds it full waits for all that was freed until then.
TEST_F(paced_frees, begin_with_the_growth_that_nears_the_bound_of_a_pool) {
  restart(free_mode::deferred, make_bounded);
  driver.manual_events(true);
  std::vector<CUdeviceptr> const first = get_blocks(8, 256 * mib);
  EXPECT_FALSE(are_told());
  std::vector<CUdeviceptr> const second = get_blocks(7, 256 * mib);
  EXPECT_TRUE(are_told());
  give_blocks(first);
  questions = 0;
  give_blocks(second);
  EXPECT_GT(questions, 10) << "waited for the first eight";
}

// Memory that a request has to give back first is what it waits for; the next time frees have given it back.
TEST_F(paced_frees, give_back_what_requests_had_to_give_back) {
  restart(free_mode::deferred, make_bounded);
  driver.manual_events(true);
  int slow = 0;
  driver.at_query([&] {
    if (++slow % 8 == 0) usleep(200);  // a GPU that is behind
    if (slow % 8 == 0) driver.finish_all();
  });
  auto const fill = [&](std::uint64_t bytes) {
    std::vector<CUdeviceptr> blocks;
    for (std::uint64_t sum = 0; sum + bytes <= 4096 * mib; sum += bytes) blocks.push_back(must_get(bytes));
    return blocks;
  };
  give_blocks(fill(300 * mib));
  int const before = driver.frees();
  std::vector<CUdeviceptr> const other = fill(500 * mib);
  int const filled = driver.frees();
  EXPECT_GT(filled, before) << "by requests";
  give_blocks(other);
  EXPECT_GT(driver.frees(), filled) << "by frees";
}

// Another thread begins it while a free waits for the GPU, 10 ms at most: on a busy machine that may be over
// before, and it is tried again.
struct beside_a_capture : paced_frees {
  // Frees when the first one saw the capture, and in the end; none: it began too late.
  struct seen {
    int when_it_began = -1, frees = -1;
  };
  seen give_blocks_while_one_begins() {
    restart(free_mode::deferred, make_bounded);
    driver.manual_events(true);
    bool is_slow = true;
    std::atomic<bool> waits{false}, captures{false};
    int slow = 0;
    seen found;
    driver.at_query([&] {
      if (is_slow) {
        if (++slow % 8 != 0) return;
        usleep(200);  // a GPU that is behind
      } else {
        waits = true;
        if (!captures) return;
        if (found.when_it_began < 0) found.when_it_began = driver.frees();
      }
      driver.finish_all();
    });
    give_blocks(get_blocks(12, 300 * mib));
    std::vector<CUdeviceptr> const blocks = get_blocks(7, 520 * mib);
    is_slow = false;
    {
      std::jthread const other([&] {
        while (!waits) std::this_thread::yield();
        capture_begins(first_context, stream(3), CU_STREAM_CAPTURE_MODE_RELAXED);
        captures = true;
      });
      give_blocks(blocks);
    }
    driver.at_query({});
    found.frees = driver.frees();
    capture_ended(first_context, stream(3));
    return found;
  }
};

TEST_F(beside_a_capture, that_began_meanwhile_nothing_goes_back) {
  seen found;
  for (int tries = 0; tries < 50 && found.when_it_began < 0; ++tries) found = give_blocks_while_one_begins();
  ASSERT_GE(found.when_it_began, 0);
  EXPECT_EQ(found.frees, found.when_it_began);
}

TEST_F(paced_frees, not_where_little_waits_for_the_gpu) {
  driver.manual_events(true);
  give_blocks(get_blocks(6, 30 * mib));
  give_blocks({must_get(600 * mib)});
  EXPECT_FALSE(are_told());
}

// A kernel with a temporary each, of one size: how many are ahead is a rule of its own (pools/ahead.cpp).
TEST_F(paced_frees, not_where_blocks_of_one_size_take_turns) {
  driver.manual_events(true);
  int recorded = 0;
  driver.at_record([&] { ++recorded; });
  for (int i = 0; i < 400; ++i) {
    for (; recorded > 4; --recorded) driver.finish_oldest();
    EXPECT_SERVED(give(must_get(64 * mib)), CUDA_SUCCESS);
  }
  EXPECT_FALSE(are_told());
}

TEST_F(paced_frees, not_in_stream_order_which_natively_waits_for_nothing) {
  driver.manual_events(true);
  give_blocks(get_blocks(16, 30 * mib, stream(1)), stream(1));
  must_get(600 * mib, stream(2));
  EXPECT_FALSE(are_told());
  driver.finish_all();
  done();
  run_ahead();
  EXPECT_TRUE(are_told());
  std::vector<CUdeviceptr> const blocks = get_blocks(32, 40 * mib, stream(1));
  questions = 0;
  give_blocks(blocks, stream(1));
  EXPECT_EQ(questions, 0);
}

TEST_F(paced_frees, not_of_the_hosts_memory_nor_beside_a_capture) {
  run_ahead();
  std::vector<CUdeviceptr> const blocks = get_blocks(32, 40 * mib);
  CUdeviceptr const host = must_get(600 * mib, nullptr, first_context, driver::memory_kind::host);
  questions = 0;
  EXPECT_SERVED(give(host, nullptr, first_context, driver::memory_kind::host), CUDA_SUCCESS);
  EXPECT_EQ(questions, 0);
  capture_begins(first_context, stream(3), CU_STREAM_CAPTURE_MODE_RELAXED);
  driver.capture(stream(3));
  give_blocks(blocks);
  EXPECT_EQ(questions, 0);
  driver.end_capture(stream(3));
  capture_ended(first_context, stream(3));
}

// Cancelled inside the driver, it would leave the mutex of the epochs held.
TEST_F(paced_frees, ask_the_driver_without_cancellation) {
  run_ahead();
  std::vector<CUdeviceptr> const blocks = get_blocks(16, 40 * mib);
  int asked = 0, cancellable = 0;
  driver.at_query([&] {
    int state = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    pthread_setcancelstate(state, nullptr);
    ++asked;
    cancellable += state == PTHREAD_CANCEL_ENABLE;
  });
  give_blocks(blocks);
  EXPECT_GT(asked, 0);
  EXPECT_EQ(cancellable, 0);
}

TEST_F(paced_frees, of_another_context_do_not_end_it) {
  run_ahead();
  CUdeviceptr const other = must_get(mib, nullptr, second_context);
  EXPECT_SERVED(give(other, nullptr, second_context), CUDA_SUCCESS);
  EXPECT_TRUE(are_told());
}

TEST_F(paced_frees, end_with_their_context) {
  run_ahead();
  CUdeviceptr const other = must_get(mib, nullptr, second_context);
  context_gone(first_context);
  EXPECT_SERVED(give(other, nullptr, second_context), CUDA_SUCCESS);
  EXPECT_FALSE(are_told());
}

TEST_F(paced_frees, end_where_the_gpu_keeps_up) {
  run_ahead();
  driver.finish_all();
  driver.manual_events(false);
  for (int i = 0; i < 40 && are_told(); ++i) give_blocks(get_blocks(8, 40 * mib));
  EXPECT_FALSE(are_told());
}

}  // namespace
}  // namespace gpumem::route
