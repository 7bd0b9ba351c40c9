// Rules: who is matched, which comes first, what libraries are told by, and what the router does with it.
#include "core/route/rules/rules.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <thread>

#include "tests/unit/route/fixture.hpp"

namespace gpumem::route {
namespace {

using driver::memory_kind;

constexpr std::string_view calls[] = {"cuMemAlloc_v2",  "cuMemAllocAsync_ptsz", "cuMemAllocManaged",
                                      "cuMemHostAlloc", "cudaMalloc",           "cudaMallocHost"};
enum : std::uint16_t {
  mem_alloc,
  mem_alloc_async,
  mem_alloc_managed,
  mem_host_alloc,
  cuda_malloc,
  cuda_malloc_host
};

void const* code_of_libc() {
  return reinterpret_cast<void const*>(&std::getenv);
}
void const* own_code() {
  return reinterpret_cast<void const*>(&code_of_libc);
}

std::size_t match(rule_set& rules, driver::request request, int device = 0) {
  if (request.called == 0) request.called = request.hook;
  return rules.match(request, device);
}

TEST(rules, the_first_that_matches_wins) {
  rule_set rules({{.min_size = 100}, {.min_size = 10}, {.max_size = 5}}, calls);
  EXPECT_EQ(match(rules, {.bytes = 1000}), 0u);
  EXPECT_EQ(match(rules, {.bytes = 100}), 0u);
  EXPECT_EQ(match(rules, {.bytes = 99}), 1u);
  EXPECT_EQ(match(rules, {.bytes = 7}), rule_set::none);
  EXPECT_EQ(match(rules, {.bytes = 5}), 2u);
}

TEST(rules, every_condition_must_hold) {
  rule_set rules({{.min_size = 10, .max_size = 20, .device = 1, .kind = memory_kind::device}}, calls);
  EXPECT_EQ(match(rules, {.bytes = 10}, 1), 0u);
  EXPECT_EQ(match(rules, {.bytes = 20}, 1), 0u);
  EXPECT_EQ(match(rules, {.bytes = 21}, 1), rule_set::none);
  EXPECT_EQ(match(rules, {.bytes = 9}, 1), rule_set::none);
  EXPECT_EQ(match(rules, {.bytes = 10}, 0), rule_set::none);
  EXPECT_EQ(match(rules, {.bytes = 10, .kind = memory_kind::managed, .hook = mem_alloc_managed}, 1),
            rule_set::none);
}

TEST(rules, a_call_goes_by_the_names_of_driver_and_runtime) {
  for (char const* name : {"cuMemAlloc_v2", "cuMemAlloc", "cudaMalloc", "cudaMall?c", "cu*"}) {
    rule_set rules({{.api = name}}, calls);
    EXPECT_EQ(match(rules, {.bytes = 1, .hook = mem_alloc}), 0u) << name;
  }
  rule_set rules({{.api = "cudaMalloc"}}, calls);
  EXPECT_EQ(match(rules, {.bytes = 1, .hook = mem_alloc_async}), rule_set::none);
  rule_set async({{.api = "cudaMallocAsync"}}, calls);
  EXPECT_EQ(match(async, {.bytes = 1, .hook = mem_alloc_async}), 0u);
  EXPECT_EQ(match(async, {.bytes = 1, .hook = mem_alloc}), rule_set::none);
}

TEST(rules, a_name_is_asked_for_and_nothing_else) {
  rule_set rules(
      {{.name = "scratch", .max_size = 10}, {.max_size = 1000}, {.name = "other"}, {.name = "scratch"}},
      calls);
  EXPECT_TRUE(rules.has_unnamed());
  EXPECT_FALSE(rule_set({{.name = "scratch"}}, calls).has_unnamed());
  EXPECT_EQ(rules.named("scratch"), 0b1001u);
  EXPECT_EQ(rules.named("other"), 0b100u);
  EXPECT_EQ(rules.named("scratc"), 0u);
  EXPECT_EQ(rules.named(""), 0u) << "of rules without a name";
  EXPECT_EQ(match(rules, {.bytes = 10, .named = rules.named("scratch")}), 0u);
  EXPECT_EQ(match(rules, {.bytes = 11, .named = rules.named("scratch")}), 3u);
  EXPECT_EQ(match(rules, {.bytes = 10, .named = rules.named("other")}), 2u);
  EXPECT_EQ(match(rules, {.bytes = 10}), 1u);
  EXPECT_EQ(match(rules, {.bytes = 1001}), rule_set::none);
}

// A shared runtime is seen itself: cudaMallocHost may end in cuMemHostAlloc, which is not its name.
TEST(rules, a_call_of_a_shared_runtime_goes_by_its_own_name) {
  rule_set rules({{.api = "cudaMallocHost", .kind = memory_kind::host}}, calls);
  driver::request request{
      .bytes = 1, .kind = memory_kind::host, .hook = mem_host_alloc, .called = mem_host_alloc};
  EXPECT_EQ(rules.match(request, 0), rule_set::none);
  request.called = cuda_malloc_host;
  EXPECT_EQ(rules.match(request, 0), 0u);
}

TEST(rules, a_library_is_told_by_its_file_name_or_its_path) {
  rule_set rules({{.library = "libc.so*"}, {.library = "*/route_test?"}}, calls);
  EXPECT_EQ(match(rules, {.bytes = 1, .caller = code_of_libc()}), 0u);
  EXPECT_EQ(match(rules, {.bytes = 1, .caller = code_of_libc()}), 0u);  // remembered now
  EXPECT_EQ(match(rules, {.bytes = 1, .caller = own_code()}), 1u);
  calling_objects const known({"libfoo*", "*/lib/*", "/usr/lib/libfoo.so", ""});
  EXPECT_EQ(known.rules_of_path("/usr/lib/libfoo.so"), 0b1111u);
  EXPECT_EQ(known.rules_of_path("/usr/libfoo.so"), 0b1001u);
  EXPECT_EQ(known.rules_of_path("/usr/lib/libbar.so"), 0b1010u);
}

TEST(rules, code_of_no_library_is_under_rules_that_ask_for_none) {
  rule_set rules({{.library = "*"}, {.min_size = 1}}, calls);
  int nowhere = 0;
  EXPECT_EQ(match(rules, {.bytes = 1, .caller = nullptr}), 0u);
  rule_set named({{.library = "lib*"}, {.min_size = 1}}, calls);
  EXPECT_EQ(match(named, {.bytes = 1, .caller = &nowhere}), 1u);
}

TEST(rules, sixty_four_rules_and_many_callers_on_many_threads) {
  std::vector<rule> list;
  for (std::size_t i = 0; i < max_rules; ++i) list.push_back({.library = "libnone*", .min_size = i});
  list.back().library = "libc.so*";
  rule_set rules(std::move(list), calls);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      auto const* libc = static_cast<char const*>(code_of_libc());
      for (int i = 0; i < 2000; ++i) {
        if (i % 100 == 0) stats::libraries_changed.fetch_add(1);
        if (match(rules, {.bytes = 1000, .caller = libc + i % 64}) != max_rules - 1) wrong.fetch_add(1);
        if (match(rules, {.bytes = 1000, .caller = own_code()}) != rule_set::none) wrong.fetch_add(1);
      }
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

struct ruled_router : route_fixture {
  std::unique_ptr<resource::chain> static make_by_number(resource::chain_context const& home) {
    made.push_back(home.number);
    return make_pools(home);
  }
  void use(std::vector<rule> list) {
    left_behind.push_back(present);
    present = nullptr;
    made.clear();
    auto* rules = new rule_set(std::move(list), calls);
    left_behind.push_back(rules);
    start(make_by_number, free_mode::deferred, rules);
  }
  static inline std::vector<std::size_t> made;
};

TEST_F(ruled_router, a_rule_leaves_its_requests_to_the_driver) {
  use({{.min_size = 1 << 20, .chain = passthrough}});
  CUdeviceptr address = 0;
  EXPECT_PASS(get(1 << 20, &address));
  EXPECT_SERVED(get(4096, &address), CUDA_SUCCESS);
  EXPECT_SERVED(give(address), CUDA_SUCCESS);
  EXPECT_EQ(made, std::vector<std::size_t>{0});
}

TEST_F(ruled_router, a_rule_has_a_chain_of_its_own_and_frees_find_it) {
  use({{.min_size = 1 << 20, .chain = kinds}});
  CUdeviceptr const small = must_get(4096);
  CUdeviceptr const large = must_get(1 << 20);
  EXPECT_EQ(made, (std::vector<std::size_t>{0, kinds}));
  auto const owner = [](CUdeviceptr address) {
    return &resource::owner_of(present->where, present->where.map.find(address));
  };
  EXPECT_NE(owner(small), owner(large));
  EXPECT_SERVED(give(large), CUDA_SUCCESS);
  EXPECT_SERVED(give(small), CUDA_SUCCESS);
  done();
  EXPECT_GT(idle_bytes(tests::first_context), std::uint64_t{1} << 20);  // both chains are asked
  EXPECT_NE(give_back(tests::first_context, resource::give_back_scope::all), 0u);
  EXPECT_EQ(idle_bytes(tests::first_context), 0u);
}

TEST_F(ruled_router, rules_of_a_device_and_of_a_kind) {
  use({{.device = 1, .chain = passthrough},
       {.kind = memory_kind::managed, .chain = kinds + 1},
       {.kind = memory_kind::host, .chain = passthrough}});
  CUdeviceptr address = 0;
  EXPECT_PASS(get(4096, &address, nullptr, tests::second_context));
  EXPECT_SERVED(get(4096, &address), CUDA_SUCCESS);
  EXPECT_PASS(get(4096, &address, nullptr, tests::first_context, memory_kind::managed));  // no factory for it
  EXPECT_PASS(get(4096, &address, nullptr, tests::first_context, memory_kind::host));
  EXPECT_EQ(made, (std::vector<std::size_t>{0, kinds + 1}));
}

// Without a state page all nodes are one; which rule counts what is seen in the integration tests.
TEST_F(ruled_router, what_a_rule_takes_is_counted) {
  use({{.min_size = 1 << 20, .chain = passthrough}, {.min_size = 1 << 10, .chain = 0}});
  auto const& node = stats::local().nodes[stats::max_nodes - 1];
  auto const before = node;
  CUdeviceptr address = 0;
  get(1 << 20, &address);
  get(2 << 20, &address);
  must_get(1 << 10);
  must_get(16);
  EXPECT_EQ(node.requests - before.requests, 3u);
  EXPECT_EQ(node.bytes_in - before.bytes_in, (3u << 20) + (1u << 10));
}

}  // namespace
}  // namespace gpumem::route
