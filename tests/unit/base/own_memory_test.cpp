// Memory that may not be there: as much is read as there is, and a wrong address is no crash.
#include "core/base/own_memory.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>

namespace gpumem::base {
namespace {

TEST(own_memory, is_read_up_to_where_it_ends) {
  constexpr std::size_t page = 4096;
  char* const two = static_cast<char*>(
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(two, MAP_FAILED);
  std::memset(two, 'x', page);
  ASSERT_EQ(::munmap(two + page, page), 0);
  char read[200];
  std::memset(read, '-', sizeof read);
  errno = 7;
  EXPECT_EQ(read_own_memory(two + page - 100, read, 200), 100u);
  EXPECT_EQ(std::string_view(read, 200), std::string(100, 'x') + std::string(100, '-'));
  EXPECT_EQ(read_own_memory(two + page, read, 8), 0u);
  EXPECT_EQ(errno, 7);
  ::munmap(two, page);
}

TEST(own_memory, wrong_addresses_are_answers) {
  long value = 5;
  EXPECT_FALSE(read_own(nullptr, value));
  EXPECT_FALSE(read_own(reinterpret_cast<void const*>(~std::uintptr_t{0} - 3), value));
  EXPECT_EQ(value, 5);
  long const there = 9;
  EXPECT_TRUE(read_own(&there, value));
  EXPECT_EQ(value, 9);
}

}  // namespace
}  // namespace gpumem::base
