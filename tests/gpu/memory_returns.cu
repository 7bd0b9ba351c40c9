// Memory that goes back to the device, and memory that is needed again. First argument: `back` takes 95 % of
// the device in blocks of 2 GiB and frees all, after which a second process wants 90 % of it within 2 s;
// `earned` the same of sizes that came back before; `warm S` loops over 1 MiB to 2 GiB for S seconds,
// `pauses S` with 3 s between its steps; `partners N`: kernels of two threads wait for one another, N rounds,
// and blocks are taken and freed between rounds, while a third thread synchronises; `facts` says how long a
// free takes beside a kernel, and a launch beside that free. Lines `time:` may differ with gpumem.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "tests/gpu/kernels.cuh"

extern char** environ;

namespace {

using namespace programs;
using clock_type = std::chrono::steady_clock;

constexpr std::size_t mib = 1u << 20, gib = 1u << 30;

double ms_since(clock_type::time_point begin) {
  return std::chrono::duration<double, std::milli>(clock_type::now() - begin).count();
}

void pair(std::size_t bytes) {
  void* block = nullptr;
  REQUIRE(cudaMalloc(&block, bytes));
  REQUIRE(cudaFree(block));
}

std::size_t share_of_total(int percent) {
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total));
  return total / 100 * percent;
}

// The second process: tries until it has so much, or 2 s are over.
int take() {
  REQUIRE(cudaFree(nullptr));
  const std::size_t wanted = share_of_total(90);
  const auto begin = clock_type::now();
  while (ms_since(begin) < 2000) {
    void* block = nullptr;
    if (cudaMalloc(&block, wanted) == cudaSuccess) {
      std::printf("time: second process: 90 %% of the device after %.0f ms\n", ms_since(begin));
      REQUIRE(cudaFree(block));
      return 0;
    }
    cudaGetLastError();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return 1;
}

void back(const char* program, bool earned) {
  REQUIRE(cudaFree(nullptr));
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total));
  std::vector<void*> blocks(std::min(free - gib, total / 100 * 95) / (2 * gib));
  for (int round = 0; round < (earned ? 3 : 1); ++round) {
    for (void*& each : blocks) REQUIRE(cudaMalloc(&each, 2 * gib));
    for (void* each : blocks) gpu::launch_fill(each, 64, 1, nullptr);
    REQUIRE(cudaDeviceSynchronize());
    for (void* each : blocks) REQUIRE(cudaFree(each));
  }
  std::string name = program, mode = "take";
  char* arguments[] = {name.data(), mode.data(), nullptr};
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, program, nullptr, nullptr, arguments, environ));
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    for (int i = 0; i < 20; ++i) pair(4096 << i % 8);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const bool had = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  std::printf("%zu blocks of 2 GiB; a second process had 90 %%: %s\n", blocks.size(), had ? "yes" : "no");
}

void steps(int seconds, bool pauses) {
  const auto step = [] {
    for (int round = 0; round < 20; ++round) {
      for (std::size_t bytes = mib; bytes <= 2 * gib; bytes *= 2) pair(bytes);
    }
  };
  for (int i = 0; i < 3; ++i) step();
  double longest = 0, all = 0;
  int count = 0;
  const auto begin = clock_type::now();
  while (ms_since(begin) < 1000.0 * seconds) {
    if (pauses) std::this_thread::sleep_for(std::chrono::seconds(3));
    const auto now = clock_type::now();
    step();
    longest = std::max(longest, ms_since(now));
    all += ms_since(now);
    ++count;
  }
  std::printf("%s\n", pauses ? "pauses" : "warm");
  std::printf("time: %d steps, %.3f ms each without pauses, %.3f ms the longest, %.2f ms with pauses\n",
              count, all / count, longest, ms_since(begin) / count);
}

// Says that it is there, and waits for the other.
__global__ void meet(unsigned* mine, unsigned* other, unsigned round) {
  atomicExch(mine, round);
  while (atomicAdd(other, 0) < round) {
  }
}

void partners(int rounds) {
  unsigned* flags = nullptr;
  REQUIRE(cudaMalloc(&flags, 2 * sizeof *flags));
  REQUIRE(cudaMemset(flags, 0, 2 * sizeof *flags));
  std::barrier together(2);
  std::atomic<bool> over{false};
  double longest = 0;
  const auto launcher = [&](int which) {
    cudaStream_t stream = nullptr;
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    sequence random(7);
    for (int round = 1; round <= rounds; ++round) {
      const auto begin = clock_type::now();
      meet<<<1, 1, 0, stream>>>(flags + which, flags + 1 - which, static_cast<unsigned>(round));
      REQUIRE(cudaPeekAtLastError());
      REQUIRE(cudaStreamSynchronize(stream));
      together.arrive_and_wait();
      if (which == 0) {  // the other waits: natively a free beside such kernels would not end
        if (round % 50 == 0) pair((1 + random.next(2048)) * mib);
        if (round == rounds / 2) pair(40 * gib);
        longest = std::max(longest, ms_since(begin));
      }
      together.arrive_and_wait();
    }
    REQUIRE(cudaStreamDestroy(stream));
  };
  std::thread synchronises([&] {
    while (!over) REQUIRE(cudaDeviceSynchronize());
  });
  std::thread first(launcher, 0), second(launcher, 1);
  first.join();
  second.join();
  over = true;
  synchronises.join();
  REQUIRE(cudaFree(flags));
  std::printf("%d rounds\n", rounds);
  std::printf("time: longest round %.3f ms\n", longest);
}

__global__ void busy(unsigned long long duration) {
  gpu::wait_nanoseconds(duration);
}

// What a block takes of the device, and what is served where only two pages of 2 MiB are left.
void pages() {
  for (const std::size_t bytes :
       {2 * mib, 2 * mib + 512, 4 * mib - 512, 4 * mib, 100 * mib + 512, gib - 4096}) {
    std::size_t before = 0, after = 0, total = 0;
    void* block = nullptr;
    REQUIRE(cudaMemGetInfo(&before, &total));
    REQUIRE(cudaMalloc(&block, bytes));
    REQUIRE(cudaMemGetInfo(&after, &total));
    REQUIRE(cudaFree(block));
    std::printf("time: a block of %zu B takes %zu pages of 2 MiB and %zu B\n", bytes,
                (before - after) / (2 * mib), (before - after) % (2 * mib));
  }
  void* two = nullptr;
  REQUIRE(cudaMalloc(&two, 4 * mib));
  std::vector<void*> all;
  for (std::size_t bytes = 8 * gib; bytes >= 2 * mib; bytes /= 2)
    for (void* block = nullptr; cudaMalloc(&block, bytes) == cudaSuccess;) all.push_back(block);
  cudaGetLastError();
  REQUIRE(cudaFree(two));
  for (const std::size_t bytes : {4 * mib + 512, 6 * mib, 4 * mib - 512, 2 * mib + 512, 3 * mib}) {
    void* block = nullptr;
    const auto begin = clock_type::now();
    const cudaError_t code = cudaMalloc(&block, bytes);
    std::printf("time: %zu B where 4 MiB are left: code %d, %.3f ms\n", bytes, static_cast<int>(code),
                ms_since(begin));
    if (code == cudaSuccess) REQUIRE(cudaFree(block));
    cudaGetLastError();
  }
  for (void* each : all) REQUIRE(cudaFree(each));
}

void facts() {
  pages();
  cudaStream_t stream = nullptr, other = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  REQUIRE(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
  busy<<<1, 1, 0, other>>>(1000);
  for (const bool running : {false, true}) {
    for (const std::size_t bytes : {std::size_t{4096}, mib, 64 * mib, gib, 8 * gib}) {
      void* block = nullptr;
      REQUIRE(cudaMalloc(&block, bytes));
      REQUIRE(cudaDeviceSynchronize());
      std::atomic<bool> over{false};
      double longest = 0;
      std::thread launches([&] {
        while (!over) {
          const auto begin = clock_type::now();
          busy<<<1, 1, 0, other>>>(1000);
          longest = std::max(longest, ms_since(begin));
        }
      });
      if (running) busy<<<1, 1, 0, stream>>>(200'000'000);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const auto begin = clock_type::now();
      REQUIRE(cudaFree(block));
      const double took = ms_since(begin);
      over = true;
      launches.join();
      REQUIRE(cudaDeviceSynchronize());
      std::printf("time: free of %zu KiB %s: %.3f ms, longest launch %.3f ms\n", bytes >> 10,
                  running ? "beside a kernel of 200 ms" : "beside short kernels", took, longest);
    }
  }
  std::printf("facts\n");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "back";
  const int number = argc > 2 ? std::atoi(argv[2]) : 10;
  if (mode == "take") return take();
  if (mode == "back" || mode == "earned") back(argv[0], mode == "earned");
  if (mode == "warm" || mode == "pauses") steps(number, mode == "pauses");
  if (mode == "partners") partners(number);
  if (mode == "facts") facts();
}
