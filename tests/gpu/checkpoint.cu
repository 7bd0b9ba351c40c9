// checkpoint ROUNDS idle|working: a process is locked, checkpointed (its device memory goes to the host and
// all of the device is given up), restored and unlocked, ROUNDS times, by its parent. "idle": between two
// pieces of work; "working": wherever it happens to be in a loop of allocations, kernels and frees. Its
// blocks, made before and after, must hold what was written, and allocations must go on. Prints the sums of
// codes and the wrong words; "not supported" where the driver has no checkpoints. Two processes; the worker
// has two threads.
#include <cuda.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "tests/gpu/kernels.cuh"

namespace {

using namespace programs;

struct piece {
  void* block;
  std::size_t bytes;
  std::uint32_t value;
};

// Some blocks live long, most come and go, half of them stream-ordered.
class work {
 public:
  explicit work(unsigned seed) : numbers_(seed), value_(seed << 20) {
    REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  }
  void step() {
    if (live_.size() > 20) drop(numbers_.next(live_.size()));
    piece p{nullptr, (1 + numbers_.next(2000)) << 10, ++value_};
    if (numbers_.next(2) == 0)
      REQUIRE(cudaMalloc(&p.block, p.bytes));
    else
      REQUIRE(cudaMallocAsync(&p.block, p.bytes, stream_));
    gpu::launch_fill(p.block, p.bytes, p.value, stream_);
    live_.push_back(p);
    ++steps;
  }
  void check() {
    for (const piece& p : live_) gpu::launch_count(p.block, p.bytes, p.value, 0, wrong_.device(), stream_);
    REQUIRE(cudaStreamSynchronize(stream_));
  }
  unsigned long long end() {
    check();
    while (!live_.empty()) drop(0);
    return wrong_.read();
  }
  unsigned long steps = 0;

 private:
  void drop(std::size_t which) {
    gpu::launch_count(live_[which].block, live_[which].bytes, live_[which].value, 0, wrong_.device(),
                      stream_);
    if (numbers_.next(2) == 0) {
      REQUIRE(cudaStreamSynchronize(stream_));
      REQUIRE(cudaFree(live_[which].block));
    } else {
      REQUIRE(cudaFreeAsync(live_[which].block, stream_));
    }
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
  }

  sequence numbers_;
  cudaStream_t stream_ = nullptr;
  gpu::wrong_counter wrong_;
  std::vector<piece> live_;
  std::uint32_t value_;
};

std::atomic<bool> over{false};

// Says one letter when it begins and after each piece of work; ends at the end of its input.
int worker(bool working, int from, int to) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  work mine(1);
  std::thread beside;
  std::atomic<unsigned long long> wrong_beside{0};
  if (working) {
    beside = std::thread([&] {
      work own(2);
      while (!over) {
        own.step();
        if (own.steps % 50 == 0) own.check();
      }
      wrong_beside = own.end();
    });
  }
  char letter = 'r';
  do {
    for (int i = 0; i < 30; ++i) mine.step();
    mine.check();
    if (write(to, &letter, 1) != 1) std::_Exit(5);
  } while (read(from, &letter, 1) == 1);
  over = true;
  if (beside.joinable()) beside.join();
  const unsigned long long wrong = mine.end() + wrong_beside;
  std::printf("worker: %llu wrong words\n", wrong);
  return wrong != 0;
}

}  // namespace

int main(int count, char** arguments) {
  const int rounds = count > 1 ? std::atoi(arguments[1]) : 10;
  const bool working = count > 2 && arguments[2][0] == 'w';
  int to[2];
  int from[2];
  REQUIRE(pipe(to));
  REQUIRE(pipe(from));
  const pid_t child = fork();
  if (child == 0) {
    close(to[1]);
    close(from[0]);
    alarm(280);
    return worker(working, to[0], from[1]);
  }
  close(to[0]);
  close(from[1]);
  char letter = 0;
  if (read(from[0], &letter, 1) != 1) return 4;
  REQUIRE(cuInit(0));
  int sums[4] = {};
  double worst = 0;
  double all = 0;
  for (int round = 0; round < rounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    CUcheckpointLockArgs lock{};
    lock.timeoutMs = 10'000;
    int codes[4] = {cuCheckpointProcessLock(child, &lock), 0, 0, 0};
    if (codes[0] == CUDA_ERROR_NOT_SUPPORTED) {
      std::printf("not supported\n");
      kill(child, SIGKILL);
      return 77;
    }
    if (codes[0] == 0) codes[1] = cuCheckpointProcessCheckpoint(child, nullptr);
    if (codes[0] == 0 && codes[1] == 0) codes[2] = cuCheckpointProcessRestore(child, nullptr);
    if (codes[0] == 0) codes[3] = cuCheckpointProcessUnlock(child, nullptr);
    for (int i = 0; i < 4; ++i) sums[i] += codes[i];
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    worst = std::max(worst, took.count());
    all += took.count();
    if (codes[0] + codes[1] + codes[2] + codes[3] != 0) {
      std::printf("round %d: codes %d %d %d %d\n", round, codes[0], codes[1], codes[2], codes[3]);
      break;
    }
    letter = 'n';
    if (write(to[1], &letter, 1) != 1 || read(from[0], &letter, 1) != 1) break;
  }
  close(to[1]);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("%d rounds: lock %d, checkpoint %d, restore %d, unlock %d; worker ended with %d\n", rounds,
              sums[0], sums[1], sums[2], sums[3], status);
  std::printf("time: a checkpoint and restore %.0f ms\n", all / rounds);
  return status != 0;
}
