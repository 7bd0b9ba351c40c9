// Replays a recorded trace (trace_recorder.cpp says what is in it) through the CUDA runtime, so that a chain
// of gpumem's under it reserves what it would have reserved for the program. trace_replay FILE [KERNEL_NS]:
// each block is used by one simulated kernel of that duration on its stream (2000); on a real driver by none.
// Prints the most bytes that were requested at once. One thread: the events come in the order in which they
// were written down.
#include <chrono>
#include <fstream>
#include <sstream>
#include <unordered_map>

#include "simulated.h"
#include "tests/programs/support.hpp"

namespace {

struct held {
  void* block;
  std::size_t bytes;
  cudaStream_t used_on;
};

class replay {
 public:
  explicit replay(unsigned long long kernel) : kernel_(kernel) {
    REQUIRE(cudaEventCreateWithFlags(&handover_, cudaEventDisableTiming));
  }

  void line(const std::string& text) {
    std::istringstream in(text);
    char action = 0;
    unsigned long long number = 0;
    std::size_t bytes = 0;
    in >> action >> number;
    if (action == 'a') in >> bytes;
    REQUIRE_CODE(!in, 0);  // a line that is cut short
    unsigned stream = 0;
    const bool ordered = static_cast<bool>(in >> stream);
    action == 'a' ? allocate(number, bytes, ordered, stream) : release(number, ordered, stream);
  }

  void print() const {
    std::printf(R"({"events": %llu, "requested_peak": %zu, "live": %zu})"
                "\n",
                events_, peak_, live_.size());
  }

 private:
  cudaStream_t stream(bool ordered, unsigned number) {
    if (!ordered) return nullptr;
    while (streams_.size() <= number) {
      streams_.emplace_back();
      REQUIRE(cudaStreamCreateWithFlags(&streams_.back(), cudaStreamNonBlocking));
    }
    return streams_[number];
  }

  void allocate(unsigned long long number, std::size_t bytes, bool ordered, unsigned on) {
    held own{nullptr, bytes, stream(ordered, on)};
    REQUIRE(ordered ? cudaMallocAsync(&own.block, bytes, own.used_on) : cudaMalloc(&own.block, bytes));
    if (kernel_ != 0) simulated_control::launch(own.used_on, own.block, bytes, kernel_);
    // As long as the launch of a kernel takes: in a loop of nothing but pairs a pool keeps more blocks.
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(2);
    while (std::chrono::steady_clock::now() < end) {
    }
    live_[number] = own;
    in_use_ += bytes;
    peak_ = std::max(peak_, in_use_);
    ++events_;
  }

  void release(unsigned long long number, bool ordered, unsigned on) {
    const auto found = live_.find(number);
    REQUIRE_CODE(found == live_.end(), 0);  // freed twice, or never allocated
    in_use_ -= found->second.bytes;
    if (ordered &&
        stream(ordered, on) != found->second.used_on) {  // as the program did by means that no trace holds
      REQUIRE(cudaEventRecord(handover_, found->second.used_on));
      REQUIRE(cudaStreamWaitEvent(stream(ordered, on), handover_, 0));
    }
    REQUIRE(ordered ? cudaFreeAsync(found->second.block, stream(ordered, on))
                    : cudaFree(found->second.block));
    live_.erase(found);
    ++events_;
  }

  const unsigned long long kernel_;
  cudaEvent_t handover_ = nullptr;
  std::vector<cudaStream_t> streams_;
  std::unordered_map<unsigned long long, held> live_;
  std::size_t in_use_ = 0, peak_ = 0;
  unsigned long long events_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::ifstream in(argc > 1 ? argv[1] : "");
  std::string text;
  if (!std::getline(in, text) || text != "# gpumem trace 1") {
    std::fprintf(stderr, "usage: trace_replay FILE [KERNEL_NS]; the file begins with '# gpumem trace 1'\n");
    return 2;
  }
  REQUIRE(cudaFree(nullptr));
  replay trace(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 2000);
  while (std::getline(in, text)) trace.line(text);
  REQUIRE(cudaDeviceSynchronize());
  trace.print();
}
