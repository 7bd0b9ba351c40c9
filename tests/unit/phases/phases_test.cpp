// What a phase keeps, against RMM's own algorithm for the same sequence of allocations: its profiler pushes a
// pair of counters where a block of code begins, pops it where it ends, and the highest value of the popped
// one is the block's peak (rmm/statistics.py, statistics_resource_adaptor.hpp). Exactly where each request is
// looked at, within 8 MiB or 1 % where threads have shares.
#include "core/phases/phases.hpp"

#include <pthread.h>

#include <map>
#include <random>
#include <thread>

#include "core/stats/events/windows.hpp"
#include "core/stats/page/counters.hpp"
#include "tests/unit/stats/page_fixture.hpp"

namespace gpumem::phases {
namespace {

using namespace stats;
using fixture = page_fixture;

phase_name named(std::string_view name) {
  return name_of_phase("", name);
}

// As a chain counts: see route/requests/hot_path.hpp.
void allocate(std::uint64_t bytes, int device = 0) {
  auto& counters = local().devices[static_cast<std::size_t>(device)];
  add(counters.allocated_blocks, 1);
  add(counters.allocated_requested, bytes);
  add(counters.allocated_handed, bytes);
  if (must_settle(counters)) sample_device(device);
}
void release(std::uint64_t bytes, int device = 0) {
  auto& counters = local().devices[static_cast<std::size_t>(device)];
  add(counters.freed_blocks, 1);
  add(counters.freed_requested, bytes);
  add(counters.freed_handed, bytes);
}

void open_with_device() {
  page_fixture::open_test_page();
  register_device(0, "H100", "GPU-0", std::uint64_t{80} << 30);
  page_opened();
}

phase_totals const& found(snapshot const& in, std::string const& name) {
  static phase_totals const none{};
  for (auto const& one : in.phases) {
    if (one.name == name) return one;
  }
  ADD_FAILURE() << "no phase " << name;
  return none;
}
phase_device on_device(snapshot const& in, std::string const& name, int device = 0) {
  for (auto const& one : found(in, name).devices) {
    if (one.device == device) return one;
  }
  return {};
}

// RMM's counter pair stack, and the absolute highest beside it.
class rmm_profiler {
 public:
  void push(std::string const& name) { stack_.push_back({name, 0, 0, now_}); }
  void pop() {
    counter const inner = stack_.back();
    stack_.pop_back();
    peaks[inner.name] = std::max(peaks[inner.name], inner.peak);
    highest[inner.name] = std::max(highest[inner.name], inner.highest);
    if (stack_.empty()) return;
    counter& outer = stack_.back();  // add_counters_from_tracked_sub_block
    outer.peak = std::max(outer.peak, outer.value + inner.peak);
    outer.value += inner.value;
    outer.highest = std::max(outer.highest, inner.highest);
  }
  void change(std::int64_t bytes) {
    now_ += bytes;
    if (stack_.empty()) return;
    counter& top = stack_.back();
    top.value += bytes;
    top.peak = std::max(top.peak, top.value);
    top.highest = std::max(top.highest, now_);
  }
  std::map<std::string, std::int64_t> peaks, highest;

 private:
  struct counter {
    std::string name;
    std::int64_t value, peak, highest;
  };
  std::vector<counter> stack_;
  std::int64_t now_ = 0;
};

// A thread that does what it is told, while the one that tells waits: sequences over several threads.
class worker {
 public:
  worker() : thread_([this] { run(); }) {}
  ~worker() {
    tell(nullptr);
    thread_.join();
  }
  void tell(std::function<void()> work) {
    work_ = std::move(work);
    turn_.store(1, std::memory_order_release);
    turn_.notify_one();
    turn_.wait(1, std::memory_order_acquire);
  }

 private:
  void run() {
    for (;;) {
      turn_.wait(0, std::memory_order_acquire);
      bool const more = work_ != nullptr;
      if (more) work_();
      turn_.store(0, std::memory_order_release);
      turn_.notify_one();
      if (!more) return;
    }
  }
  std::function<void()> work_;
  std::atomic<int> turn_{0};
  std::thread thread_;
};

// Phases of the first thread, allocations of all.
void compare_with_rmm(unsigned seed, bool exact) {
  open_with_device();
  if (exact) use_exact_windows(0);
  allocate(std::uint64_t{20} << 30);  // the device's own highest is far above what phases see
  release(std::uint64_t{20} << 30);
  rmm_profiler reference;
  std::mt19937_64 random(seed);
  std::vector<std::unique_ptr<worker>> workers(1 + seed % 3);
  for (auto& one : workers) one = std::make_unique<worker>();
  std::vector<std::uint64_t> live;
  int depth = 0;
  for (int i = 0; i < 3000; ++i) {
    auto const what = random() % 100;
    std::string const name = "phase " + std::string(1, static_cast<char>('a' + random() % 5));
    if (what < 12 && depth < 6) {
      ASSERT_TRUE(begin(named(name), 0));
      reference.push(name);
      ++depth;
    } else if (what < 24 && depth > 0) {
      ASSERT_TRUE(end(0));
      reference.pop();
      --depth;
    } else if (what < 65 || live.empty()) {
      std::uint64_t const bytes = 1 + random() % (std::uint64_t{1} << (10 + random() % 20));
      live.push_back(bytes);
      workers[random() % workers.size()]->tell([bytes] { allocate(bytes); });
      reference.change(static_cast<std::int64_t>(bytes));
    } else {
      std::swap(live[random() % live.size()], live.back());
      workers[random() % workers.size()]->tell([&] { release(live.back()); });
      reference.change(-static_cast<std::int64_t>(live.back()));
      live.pop_back();
    }
  }
  for (; depth > 0; --depth) {
    end(0);
    reference.pop();
  }
  workers.clear();
  snapshot const now = take_snapshot().value;
  ASSERT_FALSE(reference.peaks.empty());
  for (auto const& [name, peak] : reference.peaks) {
    phase_device const ours = on_device(now, name);
    std::int64_t const highest = reference.highest[name];
    std::int64_t const bound = exact ? 0 : std::max<std::int64_t>(8 << 20, highest / 100);
    EXPECT_LE(static_cast<std::int64_t>(ours.highest), highest) << name;
    EXPECT_GE(static_cast<std::int64_t>(ours.highest), highest - bound) << name << " seed " << seed;
    EXPECT_LE(static_cast<std::int64_t>(ours.added), peak) << name;
    EXPECT_GE(static_cast<std::int64_t>(ours.added), peak - bound) << name << " seed " << seed;
  }
}

TEST_F(fixture, peaks_are_those_of_rmms_profiler) {
  for (unsigned seed = 1; seed <= 12; ++seed) expect_good_child([=] { compare_with_rmm(seed, true); });
}

TEST_F(fixture, peaks_are_within_the_bound_without_statistics) {
  for (unsigned seed = 1; seed <= 12; ++seed) expect_good_child([=] { compare_with_rmm(seed, false); });
}

// A peak inside of an inner phase is the outer one's too, not that of the one after it.
TEST_F(fixture, nested_phases) {
  expect_good_child([] {
    open_with_device();
    use_exact_windows(0);
    allocate(1000);
    begin(named("outer"), 0);
    begin(named("inner"), 0);
    allocate(5000);
    release(5000);
    end(0);
    begin(named("after"), 0);
    allocate(7);
    release(7);
    end(0);
    end(0);
    allocate(90'000);
    snapshot const now = take_snapshot().value;
    EXPECT_EQ(on_device(now, "outer").highest, 6000u);
    EXPECT_EQ(on_device(now, "outer").added, 5000u);
    EXPECT_EQ(on_device(now, "outer").requests, 2u);
    EXPECT_EQ(on_device(now, "inner").highest, 6000u);
    EXPECT_EQ(on_device(now, "inner").requests, 1u);
    EXPECT_EQ(on_device(now, "after").highest, 1007u);
    EXPECT_EQ(on_device(now, "after").added, 7u);
    EXPECT_EQ(found(now, "outer").entered, 1u);
    EXPECT_GE(found(now, "outer").inside_ns, found(now, "inner").inside_ns + found(now, "after").inside_ns);
  });
}

// What is open counts until the report, also that of a page that is all that is left.
TEST_F(fixture, open_phases_count) {
  expect_good_child([this] {
    open_with_device();
    begin(named("train"), 0);
    begin(named("step 1"), 0);
    allocate(100 << 20);
    gauge_add(gauges(0).growths, 3);
    add(local().devices[0].out_of_memory, 2);
    for (auto const& taken : {take_snapshot(), read_snapshot(files().at(0))}) {
      ASSERT_EQ(taken.error, "");
      snapshot const& now = taken.value;
      for (char const* name : {"train", "step N"}) {
        EXPECT_EQ(found(now, name).open, 1u);
        EXPECT_EQ(found(now, name).open_since_ns.size(), 1u);
        EXPECT_EQ(on_device(now, name).requests, 3u);
        EXPECT_EQ(on_device(now, name).refusals, 2u);
        EXPECT_EQ(on_device(now, name).growths, 3u);
        EXPECT_EQ(on_device(now, name).highest, 100u << 20);
      }
      EXPECT_EQ(found(now, "train").inside_until(found(now, "train").open_since_ns.at(0) + 5), 5u);
    }
  });
}

// Requests of the process while at least one of the name was open: never twice, however many were.
TEST_F(fixture, phases_of_one_name_at_once) {
  expect_good_child([] {
    open_with_device();
    std::uint64_t note = 0;
    std::uint64_t const first = start(named("work"), 0), second = start(named("work"), 0);
    allocate(10);
    EXPECT_TRUE(stop(first, note));
    allocate(10);
    EXPECT_TRUE(stop(second, note));
    allocate(10);
    std::uint64_t const third = start(named("work"), 0);
    allocate(10);
    EXPECT_TRUE(stop(third, note));
    snapshot const now = take_snapshot().value;
    EXPECT_EQ(on_device(now, "work").requests, 3u);
    EXPECT_EQ(found(now, "work").entered, 3u);
    EXPECT_EQ(found(now, "work").open, 0u);
  });
}

// The time of a phase within one of its own name is not counted again.
TEST_F(fixture, a_phase_within_itself) {
  expect_good_child([] {
    open_with_device();
    begin(named("walk"), 0);
    begin(named("walk"), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::uint64_t const both = take_snapshot().value.phases.at(0).open_since_ns.size();
    end(0);
    EXPECT_EQ(take_snapshot().value.phases.at(0).inside_ns, 0u);
    end(0);
    EXPECT_EQ(both, 1u);
    EXPECT_EQ(take_snapshot().value.phases.at(0).entered, 2u);
    EXPECT_GE(take_snapshot().value.phases.at(0).inside_ns, 20'000'000u);
  });
}

TEST_F(fixture, unbalanced_ends_and_stacks_that_cross) {
  expect_good_child([] {
    open_with_device();
    EXPECT_FALSE(end(0));
    begin(named("one"), 1);
    begin(named("two"), 2);
    EXPECT_FALSE(end(3));
    EXPECT_TRUE(end(1)) << "below the other's";
    EXPECT_FALSE(end(1));
    EXPECT_TRUE(end(2));
    EXPECT_FALSE(end(2));
    std::uint64_t note = 0;
    EXPECT_FALSE(stop(0, note));
    EXPECT_FALSE(stop(~std::uint64_t{0}, note));
    std::uint64_t const range = start(named("range"), 77);
    EXPECT_FALSE(end(0)) << "no thread's";
    EXPECT_FALSE(stop(range + (1 << 16), note));
    std::thread([=] {
      std::uint64_t kept = 0;
      EXPECT_TRUE(stop(range, kept));
      EXPECT_EQ(kept, 77u);
    }).join();
    EXPECT_FALSE(stop(range, note)) << "again";
    for (auto const& one : take_snapshot().value.phases) EXPECT_EQ(one.open, 0u) << one.name;
  });
}

std::atomic<bool> has_both{false};

void* ends_with_open_phases(void* cancelled) {
  begin(named("left"), 0);
  begin(named("left too"), 0);
  allocate(1 << 20);
  has_both.store(true);
  if (cancelled != nullptr) {
    for (;;) ::pause();
  }
  return nullptr;
}

TEST_F(fixture, threads_that_end_leave_their_phases) {
  for (bool const cancelled : {false, true}) {
#ifdef GPUMEM_UNDER_ASAN
    if (cancelled) continue;  // it takes the unwound stack for one in use
#endif
    expect_good_child([=] {
      open_with_device();
      pthread_t made;
      ASSERT_EQ(pthread_create(&made, nullptr, ends_with_open_phases, cancelled ? &made : nullptr), 0);
      while (!has_both.load()) ::usleep(1000);
      if (cancelled) pthread_cancel(made);
      pthread_join(made, nullptr);
      snapshot const now = take_snapshot().value;
      EXPECT_EQ(found(now, "left").open, 0u);
      EXPECT_EQ(found(now, "left too").open, 0u);
      EXPECT_EQ(on_device(now, "left").highest, 1u << 20);
    });
  }
}

TEST_F(fixture, more_names_than_places) {
  expect_good_child([] {
    open_with_device();
    for (int i = 0; i < 100'000; ++i) {
      begin(named("name" + std::to_string(i)), 0);
      if (i == 99'999) allocate(64 << 20);
      end(0);
    }
    snapshot const now = take_snapshot().value;
    EXPECT_EQ(now.phases.size(), max_phases);
    EXPECT_EQ(found(now, "name255").entered, 1u);
    EXPECT_EQ(found(now, "other").entered, 100'000u - 256);
    EXPECT_EQ(on_device(now, "other").highest, 64u << 20);
  });
}

TEST_F(fixture, more_open_than_places) {
  expect_good_child([] {
    open_with_device();
    constexpr int all = static_cast<int>(max_open_phases) + 500;
    for (int i = 0; i < all; ++i) EXPECT_EQ(begin(named("deep"), 0), i < all - 500);
    EXPECT_EQ(depth(0), all);
    snapshot const deep = take_snapshot().value;
    EXPECT_EQ(deep.phases_unmeasured, 500u);
    EXPECT_EQ(found(deep, "deep").entered, static_cast<std::uint64_t>(all));
    for (int i = 0; i < all; ++i) EXPECT_TRUE(end(0)) << i;
    EXPECT_EQ(take_snapshot().value.phases.at(0).open, 0u);
  });
}

// One that was passed over and never ended costs nothing but its own end.
TEST_F(fixture, passed_over) {
  expect_good_child([] {
    open_with_device();
    begin(named("outer"), 0);
    pass_over();
    begin(named("inner"), 1);
    begin(named("crossing"), 2);
    allocate(1000);
    EXPECT_TRUE(end(1));
    EXPECT_TRUE(end(2));
    EXPECT_EQ(found(take_snapshot().value, "crossing").open, 0u);
    EXPECT_TRUE(end(0)) << "of what was passed over";
    EXPECT_EQ(found(take_snapshot().value, "outer").open, 1u);
    EXPECT_TRUE(end(0));
    EXPECT_EQ(found(take_snapshot().value, "outer").open, 0u);
    EXPECT_EQ(on_device(take_snapshot().value, "inner").requests, 1u);
  });
}

// Before the first CUDA call there is no page; what began then is in it later.
TEST_F(fixture, before_the_page) {
  expect_good_child([] {
    begin(named("load"), 0);
    end(0);
    begin(named("train"), 0);
    open_with_device();
    allocate(32 << 20);
    snapshot const now = take_snapshot().value;
    EXPECT_EQ(found(now, "load").entered, 1u);
    EXPECT_EQ(found(now, "train").open, 1u);
    EXPECT_EQ(on_device(now, "train").highest, 32u << 20);
    EXPECT_TRUE(end(0));
    EXPECT_EQ(on_device(take_snapshot().value, "train").requests, 1u);
  });
}

TEST_F(fixture, a_forked_child_begins_anew) {
  expect_good_child([] {
    begin(named("before"), 0);
    open_with_device();
    begin(named("parents"), 0);
    pid_t const child = ::fork();
    if (child == 0) {
      drop_in_child();
      EXPECT_FALSE(end(0)) << "the parent's";
      begin(named("childs"), 0);
      open_with_device();
      allocate(5000);
      snapshot const now = take_snapshot().value;
      EXPECT_EQ(now.phases.size(), 1u);
      EXPECT_EQ(on_device(now, "childs").requests, 1u);
      ::_exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(end(0));
    EXPECT_TRUE(end(0));
    EXPECT_EQ(take_snapshot().value.phases.size(), 2u);
  });
}

TEST_F(fixture, innermost) {
  expect_good_child([] {
    EXPECT_EQ(innermost(), 0u);
    open_with_device();
    begin(named("one"), 0);
    begin(named("two"), 5);
    EXPECT_EQ(innermost(), 2u);
    std::thread([] { EXPECT_EQ(innermost(), 2u) << "of the one that began last"; }).join();
    std::uint64_t const range = start(named("three"), 0);
    EXPECT_EQ(innermost(), 2u) << "its own first";
    std::thread([] { EXPECT_EQ(innermost(), 3u); }).join();
    std::uint64_t note = 0;
    stop(range, note);
    end(5);
    EXPECT_EQ(innermost(), 1u);
  });
}

TEST_F(fixture, each_device_has_its_figures) {
  expect_good_child([] {
    open_with_device();
    register_device(1, "H100", "GPU-1", 1);
    begin(named("both"), 0);
    allocate(10 << 20, 0);
    allocate(20 << 20, 1);
    gauge_add(gauges(1).observed, 7 << 20);
    sample_if_grown(1);
    end(0);
    snapshot const now = take_snapshot().value;
    EXPECT_EQ(on_device(now, "both", 0).highest, 10u << 20);
    EXPECT_EQ(on_device(now, "both", 1).highest, 27u << 20);
  });
}

// Many threads at once: all places are free again, and each phase was counted.
TEST_F(fixture, many_threads) {
  expect_good_child([] {
    open_with_device();
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < 2000; ++i) {
          begin(named("a"), 0);
          std::uint64_t const range = start(named("r"), 0);
          begin(named(t % 2 == 0 ? "b" : "c"), 1);
          allocate(1000);
          release(1000);
          end(0);
          end(1);
          std::uint64_t note = 0;
          EXPECT_TRUE(stop(range, note));
        }
      });
    }
    for (auto& one : threads) one.join();
    snapshot const now = take_snapshot().value;
    EXPECT_EQ(found(now, "a").entered, 16'000u);
    EXPECT_EQ(found(now, "b").entered + found(now, "c").entered, 16'000u);
    for (auto const& one : now.phases) EXPECT_EQ(one.open, 0u);
    EXPECT_LE(on_device(now, "a").highest, 8000u);
    EXPECT_EQ(now.phases_unmeasured, 0u);
  });
}

}  // namespace
}  // namespace gpumem::phases
