// What every resource promises, as one suite; the chains come from the files beside it (resource_suite.hpp).
// The memory of the scripted driver is host memory, so blocks are written and read in full. Events are done
// when asked for, unless a test scripts them.
#include "tests/conformance/resource_suite.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "core/stats/page/ledger.hpp"
#include "tests/unit/route/fixture.hpp"

namespace gpumem::conformance {

using route::give_back;

void PrintTo(chain_case const& which, std::ostream* out) {
  *out << which.name;
}

namespace {

void* bytes_at(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}
bool holds(CUdeviceptr address, std::uint64_t bytes, unsigned char pattern) {
  auto const* p = static_cast<unsigned char const*>(bytes_at(address));
  return p[0] == pattern && std::memcmp(p, p + 1, bytes - 1) == 0;
}

class resource_suite : public testing::TestWithParam<chain_case> {
 protected:
  CUcontext const context = tests::first_context;
  std::uint64_t const most = GetParam().largest;
  tests::fake_driver& driver = tests::fake_driver::instance();
  stats::device_counters at_start{};

  void SetUp() override {
    driver.reset();
    route::start(GetParam().build, route::free_mode::deferred);
    at_start = stats::local().devices[0];
  }
  void TearDown() override {
    EXPECT_FALSE(driver.capture_hurt());
    route::context_gone(context);
    EXPECT_EQ(stats::get(stats::gauges(0).reserved), 0u);
    route::left_behind.push_back(route::present);
    route::left_behind.push_back(resource::own_slots);
    route::forked_child();
  }
  CUresult get(std::uint64_t bytes, CUdeviceptr* address, CUstream on = nullptr) {
    auto const o = route::allocate(
        {.bytes = bytes, .stream_ordered = on != nullptr, .context = context, .stream = on}, address);
    return o.served() ? o.code : CUDA_ERROR_UNKNOWN;
  }
  CUresult give(CUdeviceptr address, CUstream on = nullptr) {
    auto const o = route::release(
        {.address = address, .stream_ordered = on != nullptr, .context = context, .stream = on});
    return o.served() ? o.code : CUDA_ERROR_UNKNOWN;
  }
  void check_ledger() {
    auto const& now = stats::local().devices[0];
    std::uint64_t const handed =
        now.allocated_handed - at_start.allocated_handed - (now.freed_handed - at_start.freed_handed);
    std::uint64_t const reserved = stats::get(stats::gauges(0).reserved);
    EXPECT_EQ(reserved, driver.used());
    EXPECT_EQ(handed + route::idle_bytes(context), reserved) << "requested + rounding + pending + cached";
  }
};

#define GPUMEM_CONFORMANCE(name) \
  INSTANTIATE_TEST_SUITE_P(name, resource_suite, testing::ValuesIn(name##_chains()));
#include "conformance_list.hpp"
#undef GPUMEM_CONFORMANCE

TEST_P(resource_suite, every_size_is_aligned_and_apart) {
  std::map<CUdeviceptr, std::uint64_t> live;
  std::vector<std::uint64_t> sizes{1u << 20, (4u << 20) + 1, 64u << 20};
  for (std::uint64_t bytes = 1; bytes <= 4097; bytes += bytes < 1030 ? 1 : 61) sizes.push_back(bytes);
  for (std::uint64_t const bytes : sizes) {
    if (bytes > most) continue;
    CUdeviceptr address = 0;
    ASSERT_EQ(get(bytes, &address), CUDA_SUCCESS) << bytes;
    ASSERT_EQ(address % 512, 0u);
    auto const after = live.lower_bound(address);
    if (after != live.end()) {
      ASSERT_LE(address + bytes, after->first);
    }
    if (after != live.begin()) {
      ASSERT_LE(std::prev(after)->first + std::prev(after)->second, address);
    }
    live[address] = bytes;
    route::block_range r;
    ASSERT_TRUE(route::find(address + bytes - 1, r));
    ASSERT_EQ(r.base, address);
    ASSERT_EQ(r.bytes, bytes);
  }
  check_ledger();
  for (auto const& [address, bytes] : live) ASSERT_EQ(give(address), CUDA_SUCCESS);
  check_ledger();
}

TEST_P(resource_suite, neighbours_keep_their_content) {
  struct piece {
    CUdeviceptr address;
    std::uint64_t bytes;
    unsigned char pattern;
    CUstream on;
  };
  std::mt19937 random(11);
  std::vector<piece> live;
  for (int step = 0; step < 6000; ++step) {
    if (live.size() < 200 && random() % 2 == 0) {
      piece p{0, 1 + random() % std::min<std::uint64_t>(most, 1u << (random() % 18)),
              static_cast<unsigned char>(random()),
              random() % 2 == 0 ? tests::stream(random() % 3) : nullptr};
      ASSERT_EQ(get(p.bytes, &p.address, p.on), CUDA_SUCCESS);
      std::memset(bytes_at(p.address), p.pattern, p.bytes);
      live.push_back(p);
    } else if (!live.empty()) {
      std::swap(live[random() % live.size()], live.back());
      piece const p = live.back();
      live.pop_back();
      ASSERT_TRUE(holds(p.address, p.bytes, p.pattern)) << p.bytes;
      ASSERT_EQ(give(p.address, random() % 2 == 0 ? p.on : nullptr), CUDA_SUCCESS);
    }
  }
  for (piece const& p : live) ASSERT_TRUE(holds(p.address, p.bytes, p.pattern));
  check_ledger();
}

TEST_P(resource_suite, a_second_free_is_refused) {
  CUdeviceptr first = 0, second = 0;
  ASSERT_EQ(get(100, &first), CUDA_SUCCESS);
  ASSERT_EQ(get(100, &second), CUDA_SUCCESS);
  ASSERT_EQ(give(first), CUDA_SUCCESS);
  EXPECT_NE(give(first), CUDA_SUCCESS);
  EXPECT_TRUE(route::owns(second));
}

TEST_P(resource_suite, memory_is_not_served_before_it_is_done) {
  driver.manual_events(true);
  CUdeviceptr freed = 0, next = 0;
  ASSERT_EQ(get(4096, &freed), CUDA_SUCCESS);
  ASSERT_EQ(give(freed), CUDA_SUCCESS);
  ASSERT_EQ(get(4096, &next), CUDA_SUCCESS);
  // A resource without blocks of its own gives memory back by a call that waits; then the address may come
  // again.
  if (GetParam().keeps_blocks) {
    EXPECT_NE(next, freed);
  }
  driver.manual_events(false);
  driver.finish_all();
}

TEST_P(resource_suite, out_of_memory_is_code_2_and_passes) {
  driver.set_capacity(96u << 20);
  std::uint64_t const bytes = std::min<std::uint64_t>(most, 8u << 20);
  std::vector<CUdeviceptr> live;
  CUdeviceptr address = 77;
  CUresult code = CUDA_SUCCESS;
  while ((code = get(bytes, &address)) == CUDA_SUCCESS) live.push_back(address);
  EXPECT_EQ(code, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_GE(live.size() * bytes, 80u << 20) << "memory that was there was refused";
  check_ledger();
  ASSERT_EQ(give(live.back()), CUDA_SUCCESS);
  EXPECT_EQ(get(bytes, &address), CUDA_SUCCESS);
}

TEST_P(resource_suite, gives_everything_back) {
  std::vector<CUdeviceptr> live(300);
  for (CUdeviceptr& a : live) ASSERT_EQ(get(3000, &a), CUDA_SUCCESS);
  for (CUdeviceptr const a : live) ASSERT_EQ(give(a), CUDA_SUCCESS);
  give_back(context, resource::give_back_scope::all);
  EXPECT_EQ(driver.used(), 0u);
  EXPECT_EQ(stats::get(stats::gauges(0).reserved), 0u);
  EXPECT_EQ(route::idle_bytes(context), 0u);
}

// In a host function of a stream the driver takes nothing back: it goes with a later call, and is held until
// then.
TEST_P(resource_suite, what_the_driver_takes_back_later_stays_in_the_ledger) {
  char const* const calls[] = {"cuMemFree_v2", "cuMemFreeAsync", "cuMemFreeHost", "cuMemUnmap"};
  CUdeviceptr blocks[3] = {};
  for (CUdeviceptr& block : blocks) {
    ASSERT_EQ(get(std::min<std::uint64_t>(most, 4u << 20), &block), CUDA_SUCCESS);
  }
  for (char const* call : calls) {
    driver.fail(call, CUDA_ERROR_NOT_PERMITTED, 1000);
  }
  ASSERT_EQ(give(blocks[0]), CUDA_SUCCESS);
  ASSERT_EQ(give(blocks[1]), CUDA_SUCCESS);
  route::give_back(context, resource::give_back_scope::all);
  EXPECT_EQ(stats::get(stats::gauges(0).reserved), driver.used());
  for (char const* call : calls) {
    driver.fail(call, CUDA_SUCCESS, 0);
  }
  ASSERT_EQ(give(blocks[2]), CUDA_SUCCESS);
  route::give_back(context, resource::give_back_scope::all);
  check_ledger();
  EXPECT_EQ(driver.used(), 0u);
}

TEST_P(resource_suite, forgets_with_its_context) {
  CUdeviceptr kept = 0, freed = 0;
  ASSERT_EQ(get(3000, &kept), CUDA_SUCCESS);
  ASSERT_EQ(get(5000, &freed), CUDA_SUCCESS);
  ASSERT_EQ(give(freed), CUDA_SUCCESS);
  // Plain memory went with its context; memory of a driver's pool outlives it and must be given back.
  int const calls = driver.calls("cuMemFree_v2");
  route::context_gone(context);
  if (GetParam().outlives_context) {
    EXPECT_EQ(driver.used(), 0u);
  } else {
    EXPECT_EQ(driver.calls("cuMemFree_v2"), calls);
  }
  EXPECT_FALSE(route::owns(kept));
  EXPECT_EQ(stats::get(stats::gauges(0).reserved), 0u);
  EXPECT_EQ(get(3000, &kept), CUDA_SUCCESS);
}

TEST_P(resource_suite, threads_share_it) {
  std::atomic<int> wrong{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 8; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        std::vector<std::pair<CUdeviceptr, std::uint64_t>> live;
        CUstream const on = t % 2 == 0 ? nullptr : tests::stream(t / 4);
        for (int step = 0; step < 1500; ++step) {
          if (live.size() < 20 && random() % 2 == 0) {
            std::uint64_t const bytes = 1 + random() % std::min<std::uint64_t>(most, 20'000);
            CUdeviceptr address = 0;
            if (get(bytes, &address, on) != CUDA_SUCCESS) {
              ++wrong;
              continue;
            }
            std::memset(bytes_at(address), static_cast<int>(t + 1), bytes);
            live.emplace_back(address, bytes);
          } else if (!live.empty()) {
            auto const [address, bytes] = live.back();
            live.pop_back();
            if (!holds(address, bytes, static_cast<unsigned char>(t + 1))) ++wrong;
            if (give(address, on) != CUDA_SUCCESS) ++wrong;
          }
        }
        for (auto const& [address, bytes] : live) {
          if (give(address, on) != CUDA_SUCCESS) ++wrong;
        }
      });
    }
  }
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(stats::get(stats::gauges(0).reserved), driver.used());
  EXPECT_EQ(route::idle_bytes(context), GetParam().keeps_blocks ? driver.used() : 0u);
}

}  // namespace
}  // namespace gpumem::conformance
