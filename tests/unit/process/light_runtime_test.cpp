// The parts of the C++ runtime that the library has in place of libstdc++'s: memory of exceptions, also where
// the heap has none, the last words about one that nobody caught, and exit handlers without destructors of
// static objects, and memory for types of large alignment.
#include <cxxabi.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

extern "C" void* __real_calloc(std::size_t, std::size_t);
namespace {
std::atomic<bool> heap_is_empty = false;
}
extern "C" void* __wrap_calloc(std::size_t number, std::size_t bytes) {
  return heap_is_empty ? nullptr : __real_calloc(number, bytes);
}

namespace {

struct without_heap {
  without_heap() { heap_is_empty = true; }
  ~without_heap() { heap_is_empty = false; }
};

struct alignas(16) large {
  unsigned char bytes[600] = {};
};

void throw_catch_and_rethrow() {
  try {
    try {
      throw large{{7, 8, 9}};
    } catch (large const& it) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&it) % 16, 0u);
      EXPECT_EQ(it.bytes[2], 9);
      throw;
    }
  } catch (large const& it) {
    EXPECT_EQ(it.bytes[0], 7);
  }
}

std::exception_ptr kept() {
  std::exception_ptr it;
  try {
    throw std::bad_alloc();
  } catch (...) {
    it = std::current_exception();
  }
  return it;
}

// The block of malloc is noted before each, so none may reach into another.
TEST(light_runtime, aligned_blocks_keep_what_they_hold) {
  std::vector<std::pair<unsigned char*, std::size_t>> blocks;
  for (std::size_t alignment = 8; alignment <= 8192; alignment *= 2) {
    for (std::size_t bytes : {std::size_t{1}, alignment - 1, alignment, 3 * alignment + 5}) {
      auto* const block = static_cast<unsigned char*>(::operator new (bytes, std::align_val_t{alignment}));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u);
      std::fill_n(block, bytes, static_cast<unsigned char>(blocks.size()));
      blocks.emplace_back(block, bytes);
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    auto const [block, bytes] = blocks[i];
    EXPECT_EQ(std::count(block, block + bytes, static_cast<unsigned char>(i)), static_cast<long>(bytes));
    ::operator delete (block, std::align_val_t{64});
  }
}

TEST(light_runtime, no_aligned_block_is_larger_than_there_is) {
  std::size_t volatile const nearly_all = SIZE_MAX - 64;  // which the compiler would object to
  EXPECT_EQ(::operator new (nearly_all, std::align_val_t{64}, std::nothrow), nullptr);
  EXPECT_THROW((void)::operator new (nearly_all, std::align_val_t{64}), std::bad_alloc);
  ::operator delete (nullptr, std::align_val_t{64});
}

TEST(light_runtime, exceptions_of_the_heap) {
  throw_catch_and_rethrow();
}

TEST(light_runtime, exceptions_without_a_heap) {
  without_heap const now;
  for (int i = 0; i < 1000; ++i)
    throw_catch_and_rethrow();  // more often than the reserve has room: all come back
}

TEST(light_runtime, a_dependent_exception_without_a_heap) {
  without_heap const now;
  for (int i = 0; i < 1000; ++i) {
    std::exception_ptr const it = kept();
    EXPECT_THROW(std::rethrow_exception(it), std::bad_alloc);
  }
}

TEST(light_runtime, the_reserve_has_64_places_each_of_its_own) {
  std::set<void*> places;
  {
    without_heap const now;
    for (int i = 0; i < 64; ++i) places.insert(abi::__cxa_allocate_exception(64));
  }
  EXPECT_EQ(places.size(), 64u);
  EXPECT_DEATH(
      {
        heap_is_empty = true;
        abi::__cxa_allocate_exception(64);
      },
      "");
  for (void* place : places) abi::__cxa_free_exception(place);
  without_heap const now;
  throw_catch_and_rethrow();
}

TEST(light_runtime, memory_is_zero_also_when_it_comes_again) {
  without_heap const now;
  for (int turn = 0; turn < 2; ++turn) {
    auto* const bytes = static_cast<unsigned char*>(abi::__cxa_allocate_exception(64));
    for (int i = -128; i < 64; ++i) {
      EXPECT_EQ(bytes[i], 0);
      bytes[i] = 0xff;
    }
    abi::__cxa_free_exception(bytes);
  }
}

TEST(light_runtime, threads_without_a_heap) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      while (!heap_is_empty) std::this_thread::yield();
      for (int round = 0; round < 2000; ++round) throw_catch_and_rethrow();
    });
  }
  heap_is_empty = true;
  for (auto& thread : threads) thread.join();
  heap_is_empty = false;
}

void no_further(void (*thrower)()) noexcept {
  thrower();
}

TEST(light_runtime, last_words) {
  EXPECT_DEATH(no_further([] { throw std::runtime_error("for want of a nail"); }),
               "gpumem: terminate called after throwing an instance of 'St13runtime_error'\n  what\\(\\):  "
               "for want of a nail");
  EXPECT_DEATH(no_further([] { throw 7; }), "an instance of 'i'");
  EXPECT_DEATH(std::terminate(), "gpumem: terminate called without an active exception");
}

struct loud {
  ~loud() { std::fputs("destroyed\n", stderr); }
};

TEST(light_runtime, exit_handlers_run_and_destructors_of_static_objects_do_not) {
  auto const leave = [] {
    static loud const object;
    std::atexit([] { std::fputs("first\n", stderr); });
    std::atexit([] { std::fputs("second, ", stderr); });
    std::exit(3);
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(3), "^second, first\n$");
}

}  // namespace
