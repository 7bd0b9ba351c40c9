// A correct program made of chance, in rounds that end with all contexts: threads on several contexts and two
// devices allocate, touch and free memory in all ways, checked by the simulated CUDA and by its own data.
// Usage: random_program SEED OPERATIONS [THREADS [quiet]]. Exit code 1: hazards, wrong data or a call that
// failed; each is said. It must be a program that a real device runs without a race.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "tests/integration/random/worker.hpp"
#include "tests/simulated_cuda/simulated.h"

using namespace random_program;

namespace {

constexpr int operations_a_round = 25'000;

void round(unsigned seed, int steps, int threads) {
  world all;
  CHECK(cuDeviceGetCount(&all.devices));
  all.places[1].device = all.devices - 1;
  all.places[1].primary = all.devices > 1;
  all.places[2].primary = false;
  for (place& p : all.places) p.open();
  for (place& from : all.places) {
    for (place& to : all.places) {
      if (from.device == to.device) continue;
      CHECK(cuCtxSetCurrent(from.context));
      CHECK(cuCtxEnablePeerAccess(to.context, 0));
    }
  }
  {
    std::vector<std::jthread> team;
    for (int t = 0; t < threads; ++t) {
      unsigned const own_seed = seed * 100 + static_cast<unsigned>(t);
      team.emplace_back([&, own_seed, t] { worker(all, own_seed, t % 2 == 1).run(steps / threads); });
    }
  }
  for (place& p : all.places) {  // host functions may still free, and hand back what they could not
    CHECK(cuCtxSetCurrent(p.context));
    CHECK(cuCtxSynchronize());
  }
  worker(all, seed * 100 + 99, false).tidy();
  // The created ones first: they share their device with a primary context that is about to go.
  for (std::size_t i = all.places.size(); i-- > 0;) all.places[i].close(seed + static_cast<unsigned>(i));
}

// What this process found; true: nothing. `quiet`: only what is wrong.
bool found_nothing(bool quiet) {
  unsigned long long const hazards = simulatedHazardCount();
  bool const good = faults == 0 && hazards == 0;
  if (!quiet || !good) {
    std::printf("allocations %d operations %d faults %d hazards %llu\n", allocations.load(),
                operations.load(), faults.load(), hazards);
  }
  for (unsigned long long i = 0; i < hazards && i < 5; ++i) std::printf("%s\n", simulatedHazardText(i));
  std::fflush(stdout);
  return good;
}

// Before this process starts CUDA: both it and its child have a driver of their own.
bool fork_before_start(unsigned seed, int threads) {
  pid_t const child = fork();
  if (child == 0) {
    CHECK(cuInit(0));
    round(seed, 300, threads);
    _exit(found_nothing(true) ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  auto const seed = static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10));
  int const wanted = std::atoi(argv[2]);
  int const threads = argc > 3 ? std::atoi(argv[3]) : 4;
  bool const quiet = argc > 4;
  if (!quiet && !fork_before_start(seed + 1, 2)) fault("the child of before the start failed");
  CHECK(cuInit(0));
  for (int done = 0, i = 0; done < wanted && !too_many_faults(); ++i) {
    int const steps = std::min(wanted - done, operations_a_round);
    round(seed + static_cast<unsigned>(i) * 7919, steps, threads);
    done += steps;
  }
  return found_nothing(quiet) ? 0 : 1;
}
