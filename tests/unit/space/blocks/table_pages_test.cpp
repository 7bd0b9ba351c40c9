// The memory of tables by handle: only what is open is writable, and counts for `ulimit -d`.
#include "core/space/blocks/table_pages.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/populate_pages.hpp"

namespace gpumem::space {
namespace {

constexpr std::uint64_t record_size = 48;
constexpr std::uint64_t many = 1ull << 26;  // 3 GiB

std::uint64_t data_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word == "VmData:") {
      std::uint64_t found = 0;
      status >> found;
      return found;
    }
  }
  return 0;
}

std::size_t system_page() {
  return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// Of the first `bytes` of a table.
std::size_t pages_there(table_pages const& pages, std::size_t bytes) {
  std::vector<unsigned char> there((bytes + system_page() - 1) / system_page());
  if (mincore(pages.begin(), bytes, there.data()) != 0) return 0;
  return static_cast<std::size_t>(
      std::count_if(there.begin(), there.end(), [](unsigned is) { return (is & 1) != 0; }));
}

TEST(table_pages, what_is_reserved_is_no_data) {
  std::uint64_t const before = data_kib();
  ASSERT_GT(before, 0u);
  table_pages pages(many, record_size);
  ASSERT_EQ(pages.capacity(), many);
  EXPECT_LT(data_kib() - before, 1024u);
  ASSERT_TRUE(pages.open(1));
  EXPECT_GT(data_kib() - before, 512u) << "what is open does count: else this shows nothing";
  EXPECT_LT(data_kib() - before, 2048u);
  pages.unmap();
}

TEST(table_pages, what_is_open_is_zero_and_writable) {
  table_pages pages(many, record_size);
  auto* const bytes = static_cast<char*>(pages.begin());
  for (std::uint64_t end : {1ull, 1000ull, 20'000ull, 100'000ull}) {
    ASSERT_TRUE(pages.open(end));
    EXPECT_EQ(bytes[end * record_size - 1], 0);
    std::memset(bytes + (end - 1) * record_size, 7, record_size);
  }
  EXPECT_EQ(bytes[0], 7);
  ASSERT_TRUE(pages.open(5)) << "open already";
  EXPECT_EQ(bytes[0], 7);
  pages.unmap();
}

// A first use of a page costs a fault, as long as a hundred requests' instructions.
TEST(table_pages, entries_in_their_order_make_no_fault) {
  table_pages pages(many, record_size);
  ASSERT_TRUE(pages.open(20'000));
  auto* const first = static_cast<char*>(pages.begin());
  if (!base::populate_pages(first, system_page())) GTEST_SKIP() << "no MADV_POPULATE_WRITE: Linux 5.14";
  std::size_t faults = 0;
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    pages.prepare(i);
    unsigned char there = 0;
    auto* const page = first + i * record_size / system_page() * system_page();
    ASSERT_EQ(mincore(page, system_page(), &there), 0);
    faults += (there & 1) == 0 ? 1 : 0;
    first[i * record_size] = 1;
  }
  EXPECT_EQ(faults, 0u);
  pages.unmap();
}

// The memory of a small program stays small.
TEST(table_pages, at_most_as_much_is_made_ahead_as_is_used) {
  table_pages pages(many, record_size);
  ASSERT_TRUE(pages.open(20'000));
  std::size_t const bytes = 20'000 * record_size;
  std::uint64_t const in_a_page = system_page() / record_size;
  for (std::size_t used = 1; used < 100; ++used) {
    pages.prepare(used * in_a_page - 1);
    std::size_t const ahead = std::min(used, (64u << 10) / system_page());
    ASSERT_LE(pages_there(pages, bytes), used + 1 + ahead) << used;
  }
  pages.unmap();
}

// What lies between an entry and those before it may never be used.
TEST(table_pages, far_entries_make_nothing_between) {
  table_pages pages(many, record_size);
  ASSERT_TRUE(pages.open(1'000'000));
  pages.prepare(1);
  pages.prepare(900'000);
  static_cast<char*>(pages.begin())[900'000 * record_size] = 1;
  EXPECT_LE(pages_there(pages, 1'000'000 * record_size), 2u + (64u << 10) / system_page());
  pages.prepare(5);
  pages.unmap();
}

TEST(table_pages, the_end_is_the_end) {
  table_pages pages(1 << 12, record_size);
  EXPECT_TRUE(pages.open(1 << 12));
  pages.prepare((1 << 12) - 1);
  EXPECT_FALSE(pages.open((1 << 12) + 1));
  pages.unmap();
}

}  // namespace
}  // namespace gpumem::space
