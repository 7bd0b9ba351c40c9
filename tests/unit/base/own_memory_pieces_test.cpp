// A view by pieces: what lies across two of them, what was expected and is not there, and what has changed.
#include "core/base/own_memory_pieces.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

namespace gpumem::base {
namespace {

constexpr std::size_t page = 4096;

struct own_memory_pieces_test : testing::Test {
  void SetUp() override {
    pages = static_cast<char*>(
        ::mmap(nullptr, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(pages, MAP_FAILED);
    for (std::size_t i = 0; i < 4 * page; i += 8) std::memcpy(pages + i, &i, 8);
  }
  void TearDown() override { ::munmap(pages, 4 * page); }

  std::size_t number_at(own_memory_pieces& memory, std::size_t at) const {
    std::size_t found = 0;
    EXPECT_TRUE(memory.read_value(pages + at, found)) << at;
    return found;
  }

  char* pages = nullptr;
};

TEST_F(own_memory_pieces_test, what_lies_across_two_is_read) {
  own_memory_pieces memory({});
  std::size_t found[2] = {};
  ASSERT_TRUE(memory.read(pages + page - 8, found, sizeof found));
  EXPECT_EQ(found[0], page - 8);
  EXPECT_EQ(found[1], page);
  EXPECT_EQ(memory.places_used().count, 2u);
}

TEST_F(own_memory_pieces_test, a_view_is_of_one_moment_and_the_next_is_new) {
  own_memory_pieces first({});
  EXPECT_EQ(number_at(first, 16), 16u);
  std::size_t const other = 99;
  std::memcpy(pages + 16, &other, 8);
  EXPECT_EQ(number_at(first, 16), 16u);
  own_memory_pieces next(first.places_used());
  EXPECT_EQ(number_at(next, 16), 99u);
  EXPECT_EQ(next.places_used().count, 1u);
}

TEST_F(own_memory_pieces_test, more_than_it_holds_is_read_all_the_same) {
  own_memory_pieces memory({});
  for (int round = 0; round < 2; ++round) {
    for (std::size_t at = 0; at < 4 * page; at += own_memory_pieces::piece_bytes)
      EXPECT_EQ(number_at(memory, at), at);
  }
  EXPECT_EQ(memory.places_used().count, own_memory_pieces::most_pieces);
}

TEST_F(own_memory_pieces_test, what_was_expected_and_is_gone_costs_no_more_than_itself) {
  own_memory_pieces first({});
  for (std::size_t at : {0ul, page, 2 * page}) number_at(first, at);
  ASSERT_EQ(::mprotect(pages + page, page, PROT_NONE), 0);
  own_memory_pieces next(first.places_used());
  EXPECT_EQ(number_at(next, 8), 8u);
  EXPECT_EQ(number_at(next, 2 * page), 2 * page);
  std::size_t found = 0;
  EXPECT_FALSE(next.read_value(pages + page, found));
  EXPECT_FALSE(next.read_value(nullptr, found));
}

}  // namespace
}  // namespace gpumem::base
