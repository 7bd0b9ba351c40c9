// The state page in every way a process can live with it: threads, fork, exec numbers, SIGKILL, no space, no
// folder.
#include "core/stats/page/state_page.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/log/log.hpp"
#include "tests/unit/stats/page_fixture.hpp"

namespace gpumem::stats {
namespace {

using state_page = page_fixture;

TEST_F(state_page, a_killed_process_loses_no_counter) {
  int const status = in_child([] {
    open_test_page();
    for (int i = 0; i < 1000; ++i) {
      add(local().hooks[0].calls, 1);
      add(local().hooks[0].bytes, 512);
    }
    ::kill(::getpid(), SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(status));
  ASSERT_EQ(files().size(), 1u);
  auto const result = read_snapshot(files().front());
  ASSERT_EQ(result.error, "");
  EXPECT_FALSE(result.value.closed);
  EXPECT_EQ(result.value.run_id, "run-1");
  ASSERT_EQ(result.value.hooks.size(), 1u);
  EXPECT_EQ(result.value.hooks[0].symbol, "cuMemAlloc_v2");
  EXPECT_EQ(result.value.hooks[0].counters.calls, 1000u);
  EXPECT_EQ(result.value.hooks[0].counters.bytes, 512'000u);
}

TEST_F(state_page, the_file_is_private_and_sparse) {
  expect_good_child([] {
    EXPECT_TRUE(open_test_page());
    EXPECT_TRUE(open_test_page());
  });
  ASSERT_EQ(files().size(), 1u);
  struct stat there {};
  ASSERT_EQ(::stat(files().front().c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 07777, 0600u);
  EXPECT_EQ(static_cast<std::size_t>(there.st_size), sizeof(page));
  EXPECT_LT(there.st_blocks * 512, 512 * 1024);
}

TEST_F(state_page, counts_from_before_the_page_are_taken_over) {
  expect_good_child([] {
    add(local().hooks[1].calls, 7);
    add(local().sizes[3].count, 2);
    EXPECT_EQ(current_page(), nullptr);
    EXPECT_EQ(own_shard, nullptr);
    open_test_page();
    add(local().hooks[1].calls, 1);
    auto const now = take_snapshot();
    ASSERT_EQ(now.error, "");
    ASSERT_EQ(now.value.hooks.size(), 1u);
    EXPECT_EQ(now.value.hooks[0].counters.calls, 8u);
    EXPECT_EQ(now.value.sizes[3].count, 2u);
  });
}

TEST_F(state_page, ended_threads_keep_their_counts_and_free_their_shard) {
  expect_good_child([] {
    open_test_page();
    for (int round = 0; round < 200; ++round) {
      std::thread([] { add(local().devices[1].allocated_blocks, 1); }).join();
    }
    auto const now = take_snapshot();
    ASSERT_EQ(now.value.devices.size(), 1u);
    EXPECT_EQ(now.value.devices[0].ordinal, 1);
    EXPECT_EQ(now.value.devices[0].counters.allocated_blocks, 200u);
    EXPECT_EQ(now.value.shards_used, 2u);  // this thread's, and one that all others had in turn
  });
}

TEST_F(state_page, threads_at_once_lose_nothing) {
  expect_good_child([] {
    open_test_page();
    std::vector<std::thread> threads;
    for (int t = 0; t < 32; ++t) {
      threads.emplace_back([] {
        for (int i = 0; i < 10'000; ++i) add(local().hooks[3].calls, 1);
      });
    }
    while (take_snapshot().value.hooks.empty()) std::this_thread::yield();
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(take_snapshot().value.hooks.at(0).counters.calls, 320'000u);
  });
}

// Threads that raise the same values one after the other meet at some of them.
TEST_F(state_page, of_threads_that_raise_a_value_the_highest_wins) {
  constexpr std::uint64_t threads = 4;
  std::vector<std::uint64_t> highest(200'000);
  std::barrier together(threads);
  std::vector<std::thread> all;
  for (std::uint64_t mine = 1; mine <= threads; ++mine) {
    all.emplace_back([&, mine] {
      for (std::size_t i = 0; i < highest.size(); ++i) {
        if (i % 500 == 0) together.arrive_and_wait();
        gauge_raise(highest[i], mine);
      }
    });
  }
  for (auto& thread : all) thread.join();
  EXPECT_EQ(std::ranges::count(highest, threads), std::ssize(highest))
      << "a lower value came last and stayed";
}

TEST_F(state_page, more_threads_than_shards) {
  expect_good_child([] {
    open_test_page();
    std::mutex mutex;
    std::condition_variable all_here;
    std::size_t here = 0;
    constexpr std::size_t count = max_shards + 20;
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < count; ++t) {
      threads.emplace_back([&] {
        std::unique_lock lock(mutex);  // one at a time: nothing is lost even in the shared shard
        add(local().hooks[0].calls, 1);
        if (++here == count) all_here.notify_all();
        all_here.wait(lock, [&] { return here == count; });
      });
    }
    for (auto& thread : threads) thread.join();
    auto const now = take_snapshot();
    EXPECT_TRUE(now.value.shards_shared);
    EXPECT_EQ(now.value.hooks.at(0).counters.calls, count);
  });
}

TEST_F(state_page, a_forked_child_never_touches_its_parents_page) {
  expect_good_child([this] {
    open_test_page();
    add(local().hooks[0].calls, 5);
    device_gauges& parents_gauges = gauges(0);
    expect_good_child([&] {
      drop_in_child();
      EXPECT_EQ(current_page(), nullptr);
      set(parents_gauges.reserved, 99);  // a stale reference: harmless
      add(local().hooks[0].calls, 100);
      open_test_page();
      add(local().hooks[0].calls, 1000);
      auto const own = take_snapshot();
      EXPECT_EQ(own.value.hooks.at(0).counters.calls, 1100u);
      EXPECT_EQ(own.value.pid, ::getpid());
    });
    auto const now = take_snapshot();
    EXPECT_EQ(now.value.hooks.at(0).counters.calls, 5u);
    EXPECT_EQ(get(parents_gauges.reserved), 0u);
    EXPECT_EQ(files().size(), 2u);
  });
}

TEST_F(state_page, a_second_image_of_the_same_process_gets_its_own_number) {
  expect_good_child([this] {
    open_test_page();
    add(local().hooks[0].calls, 1);
    drop_in_child();  // as exec does it: same pid and start time, page gone from memory
    open_test_page();
    EXPECT_EQ(current_page()->fixed.head.exec_no, 1u);
    EXPECT_EQ(files().size(), 2u);
  });
}

TEST_F(state_page, nodes_and_devices_are_registered_once) {
  expect_good_child([] {
    EXPECT_EQ(register_node("pool", "pool", 0, 0, "device", ""), max_nodes - 1);  // before any page: harmless
    open_test_page();
    EXPECT_EQ(register_node("pool", "pool", 0, 0, "device", "initial 1 GiB"), 0u);
    EXPECT_EQ(register_node("cuda", "cuda", 0, 0, "device", ""), 1u);
    EXPECT_EQ(register_node("pool", "pool", 0, 0, "device", "initial 1 GiB"), 0u);
    EXPECT_EQ(register_node("pool", "pool", 0, 1, "device", "initial 1 GiB"), 2u);
    EXPECT_EQ(register_device(1, "H100", "GPU-1", 80), 1u);
    EXPECT_EQ(register_device(400, "far", "GPU-2", 80), max_devices - 1);
    for (unsigned i = 0; i < 2 * max_nodes; ++i)
      register_node("n" + std::to_string(i), "pool", 0, 0, "device", "");
    auto const now = take_snapshot();
    EXPECT_EQ(now.value.nodes.size(), max_nodes);
    ASSERT_EQ(now.value.devices.size(), 2u);
    EXPECT_EQ(now.value.devices[0].name, "H100");
    EXPECT_EQ(now.value.devices[0].gauges.total, 80u);
  });
}

TEST_F(state_page, the_first_failures_are_kept_and_all_are_counted) {
  expect_good_child([] {
    open_test_page();
    for (unsigned i = 0; i < max_failures + 5; ++i) {
      note_failure({.bytes = i + 1, .code = 2, .hook = 3, .device = 1, .reason = std::string(300, 'r')});
    }
    auto const now = take_snapshot();
    EXPECT_EQ(now.value.failures_total, max_failures + 5);
    ASSERT_EQ(now.value.failures.size(), max_failures);
    EXPECT_EQ(now.value.failures[0].bytes, 1u);
    EXPECT_EQ(now.value.failures[0].symbol, "cuMemAllocAsync");
    EXPECT_EQ(now.value.failures[0].reason, std::string(239, 'r'));
  });
}

TEST_F(state_page, free_blocks_of_a_refusal_are_kept_by_size) {
  expect_good_child([] {
    open_test_page();
    free_blocks free;
    free.rows[0] = {7, 3000}, free.rows[free_rows - 1] = {1, 1ull << 41};
    note_failure({.bytes = 1, .code = 2, .free = &free, .reason = "limit"});
    free.all = false;
    note_failure({.bytes = 2, .code = 2, .free = &free, .reason = "limit"});
    note_failure({.bytes = 3, .code = 2, .reason = "limit"});
    auto const now = take_snapshot();
    auto const& kept = now.value.failures;
    EXPECT_TRUE(kept.at(0).free_counted && kept[0].free_all && kept.at(1).free_counted);
    EXPECT_FALSE(kept[1].free_all || kept.at(2).free_counted);
    EXPECT_EQ(kept[0].free[0].blocks, 7u);
    EXPECT_EQ(kept[0].free[0].bytes, 3000u);
    EXPECT_EQ(kept[0].free[free_rows - 1].bytes, 1ull << 41);
  });
}

TEST_F(state_page, categories_are_in_the_page) {
  std::vector<category> const categories{{"optimizer", {"*/optim/*.py", "step"}}, {"all of it", {"*"}}};
  expect_good_child([&] {
    open_test_page();
    EXPECT_TRUE(take_snapshot().value.categories.empty());
    describe_categories(packed(categories));
    auto const found = take_snapshot().value.categories;
    ASSERT_EQ(found.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(found[i].name, categories[i].name);
      EXPECT_EQ(found[i].patterns, categories[i].patterns);
    }
    describe_categories({});
    EXPECT_TRUE(take_snapshot().value.categories.empty());
  });
  // What does not end is left out, whatever it is.
  std::string const text = packed(categories);
  for (std::size_t length = 0; length < text.size(); ++length)
    EXPECT_LT(unpacked(std::string_view(text).substr(0, length)).size(), 2u) << length;
}

TEST_F(state_page, the_end_is_written_and_can_be_taken_back) {
  expect_good_child([this] {
    open_test_page();
    describe_driver(13000, "static");
    describe_config("/etc/chain.toml", "version = 1\n", 2);
    close_page({.kind = end_kind::exec, .clean = 1});
    EXPECT_TRUE(take_snapshot().value.closed);
    reopen_page();
    EXPECT_FALSE(take_snapshot().value.closed);
    close_page({.kind = end_kind::exit, .code = 3, .clean = 1});
    auto const from_file = read_snapshot(files().front());
    ASSERT_EQ(from_file.error, "");
    EXPECT_TRUE(from_file.value.closed);
    EXPECT_EQ(from_file.value.end.code, 3);
    EXPECT_GT(from_file.value.end.duration_ns, 0u);
    EXPECT_EQ(from_file.value.driver_version, 13000);
    EXPECT_EQ(from_file.value.config_text, "version = 1\n");
    EXPECT_EQ(from_file.value.config_sha256.size(), 64u);
    remove_page_file();
    EXPECT_TRUE(files().empty());
  });
}

TEST_F(state_page, an_exec_that_fails_gives_the_page_its_file_again) {
  expect_good_child([this] {
    open_test_page();
    add(local().hooks[0].calls, 4);
    close_page({.kind = end_kind::exec, .clean = 1});
    set_page_file_aside();
    EXPECT_TRUE(files().empty());
    add(local().hooks[0].calls, 1);
    reopen_page();
    ASSERT_EQ(files().size(), 1u);
    add(local().hooks[0].calls, 2);
    std::thread([] { add(local().hooks[0].calls, 1); }).join();  // in a part that had no space before
    auto const from_file = read_snapshot(files().front());
    ASSERT_EQ(from_file.error, "");
    EXPECT_FALSE(from_file.value.closed);
    EXPECT_EQ(from_file.value.hooks.at(0).counters.calls, 8u);
    reopen_page();  // of a page that has its file
    EXPECT_EQ(files().size(), 1u);
  });
}

// --- where no file can be had ---

void expect_counting_in_memory() {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  base::start_log(ends[1], base::log_level::warn);
  EXPECT_FALSE(page_fixture::open_test_page());
  add(local().hooks[0].calls, 4);
  std::thread([] { add(local().hooks[0].calls, 1); }).join();
  register_device(0, "H100", "GPU-0", 1000);
  sample_device(0);
  auto const now = take_snapshot();
  ASSERT_EQ(now.error, "");
  EXPECT_EQ(now.value.hooks.at(0).counters.calls, 5u);
  char text[4096];
  ssize_t const length = ::read(ends[0], text, sizeof text);
  ASSERT_GT(length, 0);
  std::string const lines(text, static_cast<std::size_t>(length));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
  EXPECT_NE(lines.find("GPUMEM_STATE_DIR names another folder"), std::string::npos) << lines;
}

TEST_F(state_page, a_file_size_limit_is_no_reason_to_die) {
  expect_good_child([] {
    rlimit const little{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &little);
    expect_counting_in_memory();
  });
  EXPECT_TRUE(files().empty());
}

TEST_F(state_page, a_folder_that_is_not_private_is_not_used) {
  ::chmod(folder_.c_str(), 0755);
  expect_good_child(expect_counting_in_memory);
  ::chmod(folder_.c_str(), 0700);
  EXPECT_TRUE(files().empty());
}

class small_disk : public page_fixture {
 protected:
  void mount(char const* options) {
    if (::mount("tmpfs", folder_.c_str(), "tmpfs", 0, options) != 0)
      GTEST_SKIP() << "may not mount a tmpfs here";
    mounted_ = true;
  }
  ~small_disk() override {
    if (mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  bool mounted_ = false;
};

TEST_F(small_disk, too_small_for_the_header) {
  mount("size=64k,mode=0700");
  if (IsSkipped()) return;
  expect_good_child(expect_counting_in_memory);
  EXPECT_TRUE(files().empty());
}

// The space of the first device and the first thread is there from the start: nothing is asked for later.
TEST_F(small_disk, full_after_the_start) {
  mount("size=1m,mode=0700");
  if (IsSkipped()) return;
  expect_good_child([this] {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_NONBLOCK), 0);
    base::start_log(ends[1], base::log_level::warn);
    ASSERT_TRUE(open_test_page());
    int const other = ::open((folder_ + "/other").c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_GE(other, 0);
    char const filler[4096] = {};
    while (::write(other, filler, sizeof filler) > 0) {
    }
    char text[4096];
    register_device(0, "H100", "GPU-0", 1000);
    sample_device(0);
    EXPECT_LT(::read(ends[0], text, sizeof text), 0);
    register_device(1, "H100", "GPU-1", 1000);
    EXPECT_GT(::read(ends[0], text, sizeof text), 0);
    ::unlink((folder_ + "/other").c_str());
  });
}

TEST_F(small_disk, full_after_some_threads) {
  mount("size=320k,mode=0700");
  if (IsSkipped()) return;
  expect_good_child([] {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    base::start_log(ends[1], base::log_level::warn);
    ASSERT_TRUE(open_test_page());
    std::mutex gate;
    gate.lock();
    std::vector<std::thread> threads;
    for (int t = 0; t < 64; ++t) {
      threads.emplace_back([&] {
        for (auto* word = reinterpret_cast<std::uint64_t*>(local().hooks);
             word < reinterpret_cast<std::uint64_t*>(&local() + 1); ++word) {
          add(*word, 1);  // all of the shard: no page of it may be a hole
        }
        gate.lock();  // stay alive until all have a shard
        gate.unlock();
      });
    }
    while (std::atomic_ref<std::uint32_t>(current_page()->fixed.head.shards_used).load() < 65)
      std::this_thread::yield();
    gate.unlock();
    for (auto& thread : threads) thread.join();
    for (unsigned d = 0; d < max_devices; ++d) {
      register_device(static_cast<int>(d), "H100", "GPU", 1000);
      sample_device(static_cast<int>(d));
    }
    auto const now = take_snapshot();
    EXPECT_EQ(now.value.hooks.at(0).counters.calls, 64u);
    EXPECT_GT(now.value.shards_in_memory, 40u);
    char text[4096];
    ssize_t const length = ::read(ends[0], text, sizeof text);
    ASSERT_GT(length, 0);
    std::string const lines(text, static_cast<std::size_t>(length));
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 1) << lines;
  });
  ASSERT_EQ(files().size(), 1u);
  EXPECT_EQ(read_snapshot(files().front()).error, "");
}

}  // namespace
}  // namespace gpumem::stats
