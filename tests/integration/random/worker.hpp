// One thread of the random program: each step allocates, touches or frees memory, or makes streams, captures,
// threads, contexts and processes come and go. A worker is used by its own thread only; what it shares is in
// world.hpp. All it does must be ordered as CUDA demands, or its hazards would be its own.
#pragma once

#include "tests/integration/random/world.hpp"

namespace random_program {

class worker {
 public:
  // `relaxed`: its thread exchanges its capture mode, so it goes on beside captures of any mode.
  worker(world& all, unsigned seed, bool relaxed);

  void run(int steps);
  // Frees half of what is alive; for the main thread, after the others have ended.
  void tidy();

 private:
  using streams = std::array<CUstream, 4>;

  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  place& here() { return all_.places[now_]; }
  streams& own() { return own_[now_]; }
  void go(std::size_t to);
  CUstream some_stream();
  std::size_t some_size();
  memory some_kind();

  void step();
  void anything();
  void replace_stream();
  void barrier();
  void visit();          // a thread that lives for a few operations on its per-thread default stream
  void short_context();  // a context that is destroyed with memory alive in it
  void fork_child();

  // worker_memory.cpp
  bool obtain(block& b, CUstream on);
  void allocate();
  void allocate_on(CUstream on);
  void verify(block& b);
  void free_one();
  void give_back(block& b);
  void free_in_host_function();
  void touch_from_elsewhere(block& b);
  void note_use(block& b, CUstream on);
  void order_after_uses(block const& b, CUstream stream);
  void touch(block& b, CUstream on, bool writes);
  void fill(block& b, CUstream on);

  // worker_capture.cpp
  void capture(CUstreamCaptureMode mode);
  void work_beside(CUstreamCaptureMode mode, CUstream captured);
  void replay(CUgraph graph, CUstream on, CUdeviceptr owned);

  world& all_;
  std::mt19937 random_;
  bool const relaxed_;
  std::size_t now_ = 0;  // the place
  std::array<streams, 3> own_{};
};

}  // namespace random_program
