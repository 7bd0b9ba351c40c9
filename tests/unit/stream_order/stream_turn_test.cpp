// Whose turn a stream is: one thread at a time for one stream, nobody waits for another stream. On CUDA
// handles that no driver knows.
#include "core/stream_order/stream_turn.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

using gpumem::stream_order::stream_turn;

namespace {

CUstream stream(int number) {
  return reinterpret_cast<CUstream>(static_cast<std::uintptr_t>(0x1000 * number));
}

TEST(stream_turn, one_thread_at_a_time_for_a_stream) {
  int written = 0;  // by whoever has the turn; the thread sanitizer sees it
  auto const work = [&written] {
    for (int i = 0; i < 2000; ++i) {
      stream_turn const turn(stream(1));
      int const before = written;
      std::this_thread::yield();
      written = before + 1;
    }
  };
  std::thread one(work), two(work);
  one.join();
  two.join();
  EXPECT_EQ(written, 4000);
}

TEST(stream_turn, other_streams_do_not_wait) {
  stream_turn const held(stream(1));
  std::thread([] {
    for (int i = 2; i < 100; ++i) stream_turn const turn(stream(i));
  }).join();
}

TEST(stream_turn, turns_end_in_any_order) {
  auto first = std::make_unique<stream_turn>(stream(1));
  auto second = std::make_unique<stream_turn>(stream(2));
  auto third = std::make_unique<stream_turn>(stream(3));
  second.reset();
  first.reset();
  stream_turn const again(stream(2));
  third.reset();
  stream_turn const another(stream(3));
}

TEST(stream_turn, who_waits_has_it_when_it_is_over) {
  std::atomic<bool> over{false};
  auto held = std::make_unique<stream_turn>(stream(1));
  std::thread waits([&over] {
    stream_turn const turn(stream(1));
    EXPECT_TRUE(over);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  over = true;
  held.reset();
  waits.join();
}

}  // namespace
