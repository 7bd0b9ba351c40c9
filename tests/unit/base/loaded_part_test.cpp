// The loader's answer about code, held against the kernel's.
#include "core/base/files/loaded_part.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "core/base/threads/walk_stack.hpp"

namespace gpumem::base {
namespace {

struct line {
  unsigned long begin = 0, end = 0, offset = 0;
};

line kernel_says(std::uint64_t code) {
  std::ifstream maps("/proc/self/maps");
  for (std::string text; std::getline(maps, text);) {
    line one;
    if (std::sscanf(text.c_str(), "%lx-%lx %*s %lx", &one.begin, &one.end, &one.offset) == 3 &&
        code >= one.begin && code < one.end)
      return one;
  }
  return {};
}

template <typename Function>
std::uint64_t code_of(Function* function) {
  return reinterpret_cast<std::uint64_t>(function);
}

struct loaded_parts : testing::Test {
  loaded_parts() { walks_take_no_lock = true; }
  ~loaded_parts() override { walks_take_no_lock = false; }
};

TEST_F(loaded_parts, are_what_the_kernel_has_mapped) {
  std::uint64_t const mine = code_of(&kernel_says), libc = code_of(&std::getenv);
  for (std::uint64_t code : {mine, libc}) {
    loaded_part found;
    ASSERT_TRUE(find_loaded_part(code, found));
    line const wanted = kernel_says(code);
    EXPECT_EQ(found.begin, wanted.begin);
    EXPECT_EQ(found.end, wanted.end);
    EXPECT_EQ(found.file_offset, wanted.offset);
    EXPECT_EQ(std::string(found.path).find("libc.so.6") != std::string::npos, code == libc) << found.path;
  }
}

TEST_F(loaded_parts, have_no_code_that_was_made_at_run_time) {
  void* const made = ::mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  loaded_part found;
  EXPECT_FALSE(find_loaded_part(reinterpret_cast<std::uint64_t>(made), found));
  ::munmap(made, 4096);
}

// As what protects itself does: an answer, not a crash.
TEST_F(loaded_parts, are_not_found_behind_a_head_that_nobody_may_read) {
  auto* const libm = ::dlopen("libm.so.6", RTLD_NOW);
  ASSERT_NE(libm, nullptr);
  auto const code = reinterpret_cast<std::uint64_t>(::dlsym(libm, "lgamma"));
  loaded_part found;
  ASSERT_TRUE(find_loaded_part(code, found));
  Dl_info about{};
  ASSERT_NE(::dladdr(reinterpret_cast<void*>(code), &about), 0);
  ASSERT_EQ(::mprotect(about.dli_fbase, 4096, PROT_NONE), 0);
  EXPECT_FALSE(find_loaded_part(code, found));
  ASSERT_EQ(::mprotect(about.dli_fbase, 4096, PROT_READ), 0);
}

TEST_F(loaded_parts, are_not_asked_for_where_that_takes_the_loaders_lock) {
  walks_take_no_lock = false;
  loaded_part found;
  EXPECT_FALSE(find_loaded_part(code_of(&kernel_says), found));
}

}  // namespace
}  // namespace gpumem::base
