// What the threads of the random program share: devices and contexts, the blocks that are alive, the faults,
// and the two locks that keep the program within CUDA's own rules for captures. Made anew for each round;
// every part of it may be used by any thread.
#pragma once

#include <cuda.h>

#include <array>
#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <random>
#include <shared_mutex>
#include <vector>

#include "tests/integration/random/device_work.hpp"

namespace random_program {

inline std::atomic<int> faults{0};
inline std::atomic<int> allocations{0};
inline std::atomic<int> operations{0};
inline std::atomic<int> refused_exports{0};  // some chains cannot; plain there is none

// Any other code than `wanted` is a fault and is said; the first six end the program.
void check(CUresult code, char const* what, CUresult wanted = CUDA_SUCCESS);
void fault(char const* format, ...) __attribute__((format(printf, 1, 2)));
inline bool too_many_faults() {
  return faults >= 6;
}
#define CHECK(call) ::random_program::check(call, #call)

// The device is small: a refusal for want of memory is right, and the program goes on without. Graphs have no
// memory of their own then, which is taken when they are launched.
inline bool crowded = false;
// This rare step comes all the time: what needs it beside itself is met in minutes. Negative: none.
inline int often = -1;
// A chain whose requests wait for the device where natively none does (random_run.py says which, and why).
inline bool requests_wait = false;
// One that serves memory which is not the device's: what the driver says of that it says of a block.
inline bool other_memory = false;
// The same as requests_wait of frees.
inline bool frees_wait = false;
inline std::atomic<int> refusals{0};
// Whether the memory is there; any other refusal is a fault.
bool got(CUresult code, char const* what);

// What each thread does, for the last words of a program that crashes or hangs.
inline std::array<std::atomic<char const*>, 64> doing{};
void install_last_words();

enum class memory { plain, ordered, pooled, managed, pinned, pinned_old, pitched };

struct block {
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  memory kind = memory::plain;
  std::uint32_t stamp = 0;    // the owner's number, in each of its words
  bool of_graph = false;      // which takes it at each launch
  std::vector<CUevent> uses;  // after each piece of work that touches it; all before a stream-ordered free

  bool is_ordered() const { return kind == memory::ordered || kind == memory::pooled; }
  bool on_host() const { return kind == memory::pinned || kind == memory::pinned_old; }
  // Small enough to be compared by the host.
  bool is_checked() const { return bytes >= 4 && bytes <= 65536; }
};
std::uint32_t next_stamp();

// One context with its streams that all threads use, and its blocks.
class place {
 public:
  static constexpr std::size_t most_live = 300;

  int device = 0;
  bool primary = true;
  CUcontext context = nullptr;
  std::array<CUstream, 2> shared{};
  CUmemoryPool pool = nullptr;  // of its device, made and destroyed with the place
  device_work work;

  void open();
  // Ends the context with what is alive in it; `way` chooses among reset, release and destroy.
  void close(unsigned way);

  void keep(block b);
  std::optional<block> take(std::mt19937& random);
  std::size_t live();

 private:
  void leave(block const& b);

  std::mutex mutex_;
  std::vector<block> blocks_;
};

struct world {
  // The primary contexts of the devices, and more on the first one: three places or more.
  std::deque<place> places;
  int raced =
      -1;  // the device whose primary context threads retain and release as they like; no place is there

  // Shared: by each step of a thread that did not exchange its capture mode. Exclusive: a global-mode
  // capture, beside which such steps are forbidden. Taken before the next one.
  std::shared_mutex unrelaxed;
  // Shared: a capture. Exclusive: what no capture survives, a barrier over a context.
  std::shared_mutex captures;
};

}  // namespace random_program
