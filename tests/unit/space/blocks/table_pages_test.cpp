// The memory of tables by handle: only what is open is writable, and counts for `ulimit -d`.
#include "core/space/blocks/table_pages.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>

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

TEST(table_pages, the_end_is_the_end) {
  table_pages pages(1 << 12, record_size);
  EXPECT_TRUE(pages.open(1 << 12));
  EXPECT_FALSE(pages.open((1 << 12) + 1));
  pages.unmap();
}

}  // namespace
}  // namespace gpumem::space
