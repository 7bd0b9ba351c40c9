// One thread of the random program: each step allocates, touches or frees memory, or makes streams, captures,
// threads, contexts and processes come and go. A worker is used by its own thread only; what it shares is in
// world.hpp. All it does must be ordered as CUDA demands, or its hazards would be its own.
#pragma once

#include "tests/integration/random/world.hpp"

namespace random_program {

class worker {
 public:
  // `relaxed`: its thread exchanges its capture mode, so it goes on beside captures of any mode.
  worker(world& all, unsigned seed, bool relaxed, std::size_t number);

  void run(int steps);
  // Frees half of what is alive; for the main thread, after the others have ended.
  void tidy();

 private:
  struct rare_step;
  using streams = std::array<CUstream, 4>;

  unsigned below(unsigned n) { return static_cast<unsigned>(random_() % n); }
  place& here() { return all_.places[now_]; }
  streams& own() { return own_[now_]; }
  void go(std::size_t to);
  CUstream some_stream();
  std::size_t some_size();
  memory some_kind();

  void does(char const* what) { doing[number_ % doing.size()] = what; }
  void step();
  void anything();
  void capture_some();
  void synchronize_stream();
  void end_of_thread();
  void replace_stream();
  void barrier();
  void visit();          // a thread that lives for a few operations on its per-thread default stream
  void crowd();          // many such threads, one after the other
  void short_context();  // a context that is destroyed with memory alive in it
  void race();       // retains and releases the primary context of a device on which all threads do only this
  void cancelled();  // a thread that is cancelled while it allocates
  void fork_child();

  // worker_memory.cpp
  bool obtain(block& b, CUstream on);
  void allocate();
  void allocate_on(CUstream on);
  void verify(block& b);
  void free_one();
  void give_back(block& b);
  void free_in_host_function();
  void free_without_events();
  void touch_from_elsewhere(block& b);
  void note_use(block& b, CUstream on);
  void order_after_uses(block const& b, CUstream stream);
  void order_from_elsewhere(block const& b, CUstream stream);
  void touch(block& b, CUstream on, bool writes);
  void export_one();

  // worker_capture.cpp
  void capture(CUstreamCaptureMode mode);
  void join(CUstream origin, bool from_thread);
  void refusal(CUstreamCaptureMode mode);
  CUresult refused_call();
  void work_beside(CUstreamCaptureMode mode, CUstream captured);
  void replay(CUgraph graph, CUstream on, CUdeviceptr owned);

  // worker_beside.cpp
  void ask();
  void ask_device(block const& b, CUdeviceptr inside);
  void ask_host(CUdeviceptr inside);
  void trim();
  void map_own_memory();
  void register_own_memory();
  void work_in_part();  // a green context

  world& all_;
  std::mt19937 random_;
  bool const relaxed_;
  char const* unsafe_call_ = "";  // which one refused_call made
  std::size_t const number_;
  std::size_t now_ = 0;  // the place
  std::vector<streams> own_;
};

}  // namespace random_program
