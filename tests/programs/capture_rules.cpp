// What CUDA refuses while a stream captures, and what it does not; one case an argument. "forbidden": each
// call by the mode of the capture, the mode of the thread, and whether it is the thread that captures: its
// code, the capture's state then (a: active, i: invalidated), the code of its end. "joined": a stream of
// another device in a capture, its memory, and allocations beside it there. "destroyed": streams that joined
// a capture, or began it, or whose capture was spoilt, are destroyed before its end. "threads": captures that
// other threads end, or nobody. "under_way": a capture that begins while another thread waits in cudaFree for
// what the first lets go only afterwards; not for a GPU, where cudaFree itself holds captures up (measured).
// Run plain and preloaded by the integration and GPU tests.
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <utility>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr std::size_t size = 1 << 20;
constexpr const char* mode_letters = "GTR";  // in the order of cudaStreamCaptureMode

class exchanged {
 public:
  explicit exchanged(int to) : mode_(static_cast<cudaStreamCaptureMode>(to)) {
    REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode_));
  }
  ~exchanged() { REQUIRE(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  exchanged(const exchanged&) = delete;

 private:
  cudaStreamCaptureMode mode_;
};

cudaStream_t new_stream() {
  cudaStream_t made;
  REQUIRE(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  return made;
}

cudaEvent_t new_event() {
  cudaEvent_t made;
  REQUIRE(cudaEventCreateWithFlags(&made, cudaEventDisableTiming));
  return made;
}

void begin(cudaStream_t stream, int mode) {
  REQUIRE(cudaStreamBeginCapture(stream, static_cast<cudaStreamCaptureMode>(mode)));
}

char state_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  REQUIRE(cudaStreamIsCapturing(stream, &status));
  return "nai"[static_cast<int>(status)];
}

int end(cudaStream_t stream, std::size_t* nodes = nullptr) {
  cudaGraph_t graph = nullptr;
  const int code = cudaStreamEndCapture(stream, &graph);
  if (graph != nullptr && nodes != nullptr) REQUIRE(cudaGraphGetNodes(graph, nullptr, nodes));
  if (graph != nullptr) REQUIRE(cudaGraphDestroy(graph));
  (void)cudaGetLastError();
  return code;
}

struct call {
  const char* name;
  std::function<void()> before;
  std::function<int()> act;
  std::function<void()> after;
};

void one_cell(const call& made, cudaStream_t captured, int capture_mode, int thread_mode, bool other_thread) {
  made.before();
  int code = -1;
  std::atomic<int> turn{0};
  const auto act = [&] {
    const exchanged mode(thread_mode);
    code = made.act();
    (void)cudaGetLastError();
  };
  std::thread other;
  if (other_thread) {
    other = std::thread([&] {
      REQUIRE(cudaSetDevice(0));
      turn = 1;
      while (turn != 2) std::this_thread::yield();
      act();
    });
    while (turn != 1) std::this_thread::yield();
  }
  begin(captured, capture_mode);
  turn = 2;
  if (other_thread) {
    other.join();
  } else {
    act();
  }
  const char state = state_of(captured);
  std::printf(" %d%c%d", code, state, end(captured));
  made.after();
}

void forbidden() {
  const cudaStream_t captured = new_stream();
  const cudaStream_t beside = new_stream();
  void* block = nullptr;
  void* made = nullptr;
  const auto nothing = [] {};
  const auto take = [&] { REQUIRE(cudaMalloc(&block, size)); };
  const auto take_async = [&] {
    REQUIRE(cudaMallocAsync(&block, size, beside));
    REQUIRE(cudaStreamSynchronize(beside));
  };
  // A free that was refused left the block as it was.
  const auto freed = [&](int code) {
    if (code == 0) block = nullptr;
    return code;
  };
  const auto give = [&] { REQUIRE(cudaFree(block)); };
  const auto give_made = [&] { REQUIRE(cudaFree(std::exchange(made, nullptr))); };
  const auto give_host = [&] { REQUIRE(cudaFreeHost(std::exchange(made, nullptr))); };
  std::size_t pitch = 0;
  const call calls[] = {
      {"cudaMalloc", nothing, [&] { return cudaMalloc(&made, size); }, give_made},
      {"cudaMalloc of 48 MiB", nothing, [&] { return cudaMalloc(&made, 48 * size); }, give_made},
      {"cudaMalloc of 2^50", nothing, [&] { return cudaMalloc(&made, std::size_t{1} << 50); }, nothing},
      {"cudaMallocManaged", nothing, [&] { return cudaMallocManaged(&made, size); }, give_made},
      {"cudaMallocHost", nothing, [&] { return cudaMallocHost(&made, size); }, give_host},
      {"cudaMallocPitch", nothing, [&] { return cudaMallocPitch(&made, &pitch, 1000, 1000); }, give_made},
      {"cudaMallocAsync", nothing, [&] { return cudaMallocAsync(&made, size, beside); }, give_made},
      {"cudaFree", take, [&] { return freed(cudaFree(block)); }, give},
      {"cudaFree inside", take, [&] { return cudaFree(static_cast<char*>(block) + 512); }, give},
      {"cudaFree of no block", nothing, [&] { return cudaFree(reinterpret_cast<void*>(0x1000)); }, nothing},
      {"cudaFree of null", nothing, [] { return cudaFree(nullptr); }, nothing},
      {"cudaFree of async memory", take_async, [&] { return freed(cudaFree(block)); }, give},
      {"cudaFreeAsync", take_async, [&] { return freed(cudaFreeAsync(block, beside)); }, give},
      {"cudaFreeAsync of plain", take, [&] { return freed(cudaFreeAsync(block, beside)); }, give},
      {"cudaFreeHost", [&] { REQUIRE(cudaMallocHost(&block, size)); },
       [&] { return freed(cudaFreeHost(block)); }, [&] { REQUIRE(cudaFreeHost(block)); }},
      {"cudaMemGetInfo", nothing,
       [] {
         std::size_t available = 0, total = 0;
         return cudaMemGetInfo(&available, &total);
       },
       nothing},
  };
  for (const call& each : calls) {
    std::printf("%-25s", each.name);
    for (int capture_mode = 0; capture_mode < 3; ++capture_mode)
      for (int thread_mode = 0; thread_mode < 3; ++thread_mode)
        for (const bool other : {false, true}) one_cell(each, captured, capture_mode, thread_mode, other);
    std::printf("\n");
  }
  REQUIRE(cudaStreamSynchronize(beside));
}

// Enough frees in a row that the library looks what is done.
void churn(cudaStream_t stream) {
  std::vector<void*> held(200);
  for (void*& block : held) {
    REQUIRE(cudaMalloc(&block, 64 << 10));
    REQUIRE(cudaMemsetAsync(block, 1, 64 << 10, stream));
  }
  for (void* block : held) REQUIRE(cudaFree(block));
}

void joined() {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices));
  const int far = devices - 1;  // with one device the same
  const cudaStream_t near_stream = new_stream();
  const cudaEvent_t fork = new_event();
  REQUIRE(cudaSetDevice(far));
  const cudaStream_t far_stream = new_stream();
  const cudaStream_t beside = new_stream();
  const cudaEvent_t back = new_event();
  for (const bool used_before : {false, true}) {
    if (used_before) {
      void* warm = nullptr;
      REQUIRE(cudaMallocAsync(&warm, size, far_stream));
      REQUIRE(cudaFreeAsync(warm, far_stream));
    }
    for (int mode = 0; mode < 3; ++mode) {
      REQUIRE(cudaSetDevice(0));
      begin(near_stream, mode);
      REQUIRE(cudaEventRecord(fork, near_stream));
      REQUIRE(cudaStreamWaitEvent(far_stream, fork, 0));
      REQUIRE(cudaSetDevice(far));
      void* node = nullptr;
      REQUIRE(cudaMallocAsync(&node, size, far_stream));
      REQUIRE(cudaMemsetAsync(node, 1, size, far_stream));
      REQUIRE(cudaFreeAsync(node, far_stream));
      {
        const exchanged relaxed(cudaStreamCaptureModeRelaxed);
        churn(beside);
      }
      REQUIRE(cudaEventRecord(back, far_stream));
      REQUIRE(cudaSetDevice(0));
      REQUIRE(cudaStreamWaitEvent(near_stream, back, 0));
      REQUIRE(cudaSetDevice(far));
      {
        const exchanged relaxed(cudaStreamCaptureModeRelaxed);
        churn(beside);
      }
      const char state = state_of(near_stream);
      std::size_t nodes = 0;
      const int code = end(near_stream, &nodes);
      std::printf("%c: %c, end %d, %zu nodes, then %c\n", mode_letters[mode], state, code, nodes,
                  state_of(far_stream));
      churn(beside);
      REQUIRE(cudaDeviceSynchronize());
    }
  }
}

// No capture is left, or every block that is freed from here on would wait for its end.
void none_is_left(cudaStream_t stream) {
  for (int round = 0; round < 200; ++round) {
    void* block = nullptr;
    REQUIRE(cudaMalloc(&block, 64 * size));
    REQUIRE(cudaMemsetAsync(block, round, 4096, stream));
    REQUIRE(cudaFree(block));
  }
  std::printf("200 blocks of 64 MiB\n");
}

void destroyed() {
  const cudaStream_t origin = new_stream();
  const cudaEvent_t fork = new_event(), back = new_event();
  for (int mode = 0; mode < 3; ++mode) {
    for (const bool joined_back : {true, false}) {
      const cudaStream_t member = new_stream();
      void* warm = nullptr;
      REQUIRE(cudaMallocAsync(&warm, size, member));
      REQUIRE(cudaFreeAsync(warm, member));
      begin(origin, mode);
      REQUIRE(cudaEventRecord(fork, origin));
      REQUIRE(cudaStreamWaitEvent(member, fork, 0));
      REQUIRE(cudaEventRecord(back, member));
      if (joined_back) REQUIRE(cudaStreamWaitEvent(origin, back, 0));
      const int code = cudaStreamDestroy(member);
      const char state = state_of(origin);
      std::printf("%c: member destroyed %d, %c, end %d\n", mode_letters[mode], code, state, end(origin));
    }
    const cudaStream_t first = new_stream(), member = new_stream();
    begin(first, mode);
    REQUIRE(cudaEventRecord(fork, first));
    REQUIRE(cudaStreamWaitEvent(member, fork, 0));
    const int code = cudaStreamDestroy(first);
    void* block = nullptr;
    const int allocated = cudaMalloc(&block, size);
    std::printf("%c: origin destroyed %d, its member %c, cudaMalloc %d\n", mode_letters[mode], code,
                state_of(member), allocated);
    REQUIRE(cudaFree(block));
    REQUIRE(cudaStreamDestroy(member));
    const cudaStream_t spoilt = new_stream();
    REQUIRE(cudaMallocAsync(&block, size, spoilt));
    REQUIRE(cudaFreeAsync(block, spoilt));
    begin(spoilt, mode);
    const int refused = cudaStreamSynchronize(spoilt);
    (void)cudaGetLastError();
    const char spoilt_state = state_of(spoilt);
    std::printf("%c: spoilt by a wait %d, %c, destroyed %d\n", mode_letters[mode], refused, spoilt_state,
                cudaStreamDestroy(spoilt));
  }
  churn(origin);
  none_is_left(origin);
}

void threads() {
  const cudaStream_t captured = new_stream();
  for (int mode = 0; mode < 3; ++mode) {
    begin(captured, mode);
    int code = -1;
    std::thread([&] { code = end(captured); }).join();
    std::printf("%c: end in another thread %d, %c\n", mode_letters[mode], code, state_of(captured));
    std::thread([&] { begin(cudaStreamPerThread, mode); }).join();
  }
  none_is_left(captured);
}

std::atomic<bool> let_go{false};
void hold(void*) {
  while (!let_go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void under_way() {
  const cudaStream_t held = new_stream(), captured = new_stream();
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, size));
  REQUIRE(cudaLaunchHostFunc(held, hold, nullptr));
  std::thread other([&] { REQUIRE(cudaFree(block)); });
  std::thread limit([&] {
    for (int i = 0; i < 50 && !let_go; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    let_go = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  begin(captured, cudaStreamCaptureModeRelaxed);
  const int code = end(captured);
  const bool in_time = !let_go.exchange(true);
  other.join();
  limit.join();
  std::printf("captured: %d%s\n", code, in_time ? "" : ", after the work that it was to let go");
}

}  // namespace

int main(int argc, char** argv) {
  REQUIRE(cudaSetDevice(0));
  REQUIRE(cudaFree(nullptr));
  const char* which = argc > 1 ? argv[1] : "forbidden";
  if (std::strcmp(which, "forbidden") == 0) forbidden();
  if (std::strcmp(which, "joined") == 0) joined();
  if (std::strcmp(which, "destroyed") == 0) destroyed();
  if (std::strcmp(which, "threads") == 0) threads();
  if (std::strcmp(which, "under_way") == 0) under_way();
}
