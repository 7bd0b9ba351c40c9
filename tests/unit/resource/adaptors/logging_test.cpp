// The file of `logging`: columns, order under threads, a ring that is smaller than what is logged, and events
// that are asked back as they were made.
#include "core/resource/adaptors/logging.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>

#include "tests/unit/resource/adaptors/adaptor_fixture.hpp"

namespace gpumem::resource {
namespace {

struct row {
  std::vector<std::string> columns;
  std::string const& action() const { return columns[2]; }
  std::string const& pointer() const { return columns[3]; }
  std::uint64_t bytes() const { return std::stoull(columns[4]); }
};

struct logging_test : adaptor_fixture {
  std::string path = folder + "/" + testing::UnitTest::GetInstance()->current_test_info()->name() + ".csv";

  std::vector<row> rows() {
    stats::event_log::finish_all();
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    EXPECT_EQ(line, "Thread,Time,Action,Pointer,Size,Stream,Device,Kind,Call,Library");
    std::vector<row> found;
    while (std::getline(in, line)) {
      row one;
      std::istringstream cells(line + ",");
      for (std::string cell; std::getline(cells, cell, ',');) one.columns.push_back(cell);
      EXPECT_EQ(one.columns.size(), 10u) << line;
      found.push_back(std::move(one));
    }
    return found;
  }
};

TEST_F(logging_test, columns) {
  auto* const log = stats::event_log::open(path.c_str(), false);
  ASSERT_NE(log, nullptr);
  logging part(here->home, 5, make_pool({.maximum_pool_size = 64 * mib}), *log);
  auto const h = get_from(part, 3000, code(0));
  give_from(h, code(1), 1);
  driver.manual_events(false);  // a refusal waits for all frees first
  EXPECT_THROW(get_from(part, 128 * mib, code(0)), driver::allocation_failed);
  auto const found = rows();
  ASSERT_EQ(found.size(), 3u);
  char pointer[32];
  std::snprintf(pointer, sizeof pointer, "%p", static_cast<void*>(bytes_of(h)));
  EXPECT_EQ(found[0].columns[0], std::to_string(::gettid()));
  EXPECT_EQ(found[0].action(), "allocate");
  EXPECT_EQ(found[0].pointer(), pointer);
  EXPECT_EQ(found[0].columns[4], "3000");
  EXPECT_EQ(found[0].columns[5], "0");
  EXPECT_EQ(found[0].columns[7], "device");
  EXPECT_EQ(found[0].columns[8], "cuMemAlloc_v2");
  EXPECT_NE(found[0].columns[9].find("libc"), std::string::npos);
  EXPECT_EQ(found[1].action(), "free");
  EXPECT_EQ(found[1].columns[4], "3000");
  EXPECT_EQ(found[1].columns[5], "0x10100");
  EXPECT_EQ(found[1].columns[8], "cuMemFree_v2");
  EXPECT_EQ(found[2].action(), "allocate failure");
  EXPECT_EQ(found[2].pointer(), "(nil)");
}

TEST_F(logging_test, threads_are_logged_in_an_order_that_can_be_replayed) {
  auto* const log = stats::event_log::open(path.c_str(), false);
  ASSERT_NE(log, nullptr);
  logging part(here->home, 5, make_pool(), *log);
  driver.manual_events(false);
  constexpr int rounds = 6000;  // twice the ring in all
  {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        std::mt19937 random(t);
        std::vector<space::handle> live;
        for (int i = 0; i < rounds; ++i) {
          live.push_back(get_from(part, 1 + random() % 4000, code(1)));
          if (live.size() < 4) continue;
          std::swap(live[random() % live.size()], live.back());
          give_from(live.back(), code(2));
          live.pop_back();
        }
        for (auto const h : live) give_from(h, code(2));
      });
    }
  }
  std::map<std::string, std::uint64_t> live;
  auto const found = rows();
  ASSERT_EQ(found.size(), 4u * 2 * rounds);
  std::string last;
  for (auto const& one : found) {
    ASSERT_LE(last, one.columns[1]) << "time goes back";
    last = one.columns[1];
    if (one.action() == "allocate") {
      ASSERT_TRUE(live.emplace(one.pointer(), one.bytes()).second) << one.pointer() << " twice";
    } else {
      auto const at = live.find(one.pointer());
      ASSERT_NE(at, live.end()) << one.pointer() << " freed before its allocation";
      ASSERT_EQ(at->second, one.bytes());
      live.erase(at);
    }
  }
  EXPECT_TRUE(live.empty());
}

TEST_F(logging_test, written_through_at_once) {
  auto* const log = stats::event_log::open(path.c_str(), true);
  ASSERT_NE(log, nullptr);
  logging part(here->home, 5, make_pool(), *log);
  get_from(part, 3000, code(1));
  std::ifstream in(path);
  std::string const text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_NE(text.find(",allocate,0x"), std::string::npos);
}

TEST_F(logging_test, a_descriptor_that_the_program_took_is_not_written_to) {
  auto* const log = stats::event_log::open(path.c_str(), true);
  ASSERT_NE(log, nullptr);
  logging part(here->home, 5, make_pool(), *log);
  get_from(part, 3000, code(1));
  for (int fd = 500; fd < 520; ++fd) ::close(fd);
  int const of_program = ::open((path + ".other").c_str(), O_RDWR | O_CREAT, 0600);
  for (int fd = 500; fd < 520; ++fd) ::dup2(of_program, fd);
  get_from(part, 3000, code(1));
  EXPECT_EQ(std::filesystem::file_size(path + ".other"), 0u);
  EXPECT_EQ(rows().size(), 2u);
  for (int fd = 500; fd < 520; ++fd) ::close(fd);
  ::close(of_program);
}

TEST_F(logging_test, a_context_that_goes_frees_its_blocks) {
  auto* const log = stats::event_log::open(path.c_str(), false);
  ASSERT_NE(log, nullptr);
  auto& part = make<logging>(make_pool(), *log);
  get_from(part, 3000, code(1));
  end_context();
  auto const found = rows();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].action(), "free");
  EXPECT_EQ(found[1].pointer(), found[0].pointer());
}

TEST_F(logging_test, what_is_freed_while_its_context_ends_has_one_line) {
  auto* const log = stats::event_log::open(path.c_str(), false);
  ASSERT_NE(log, nullptr);
  pool& p = make_pool();
  auto& part = make<logging>(p, *log);
  free_beside_the_end(p, get_from(part, 3000, code(1)));
  auto const found = rows();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].action(), "free");
  EXPECT_EQ(found[1].columns[4], "3000");
}

// Its handle names a block of the next one's by then.
TEST_F(logging_test, a_late_free_is_none_of_the_next_context) {
  auto* const log = stats::event_log::open(path.c_str(), false);
  ASSERT_NE(log, nullptr);
  auto& part = make<logging>(make_pool(), *log);
  late_free const late = free_late(part);
  for (space::handle const h : late.next) give_from(h, code(2));
  std::map<std::string, int> live;
  for (auto const& row : rows()) live[row.pointer()] += row.action() == "allocate" ? 1 : -1;
  for (auto const& [pointer, count] : live) EXPECT_EQ(count, 0) << pointer;
  EXPECT_EQ(rows().size(), 2 * (1 + late.next.size()));
}

TEST_F(logging_test, one_file_for_all_chains_of_a_name_and_none_where_it_cannot_be) {
  auto* const log = stats::event_log::open(path.c_str(), false);
  EXPECT_EQ(stats::event_log::open(path.c_str(), false), log);
  EXPECT_EQ(stats::event_log::open((folder + "/no/folder.csv").c_str(), false), nullptr);
  EXPECT_EQ(stats::event_log::open("%z", false), nullptr);
}

}  // namespace
}  // namespace gpumem::resource
