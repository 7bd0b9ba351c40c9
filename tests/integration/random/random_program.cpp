// A correct program made of chance, in rounds that end with all contexts: threads on several contexts and
// devices allocate, touch and free memory in all ways, on the simulated CUDA, whose checker looks on, or with
// kernels on a GPU (device_work.hpp). Usage: random_program SEED OPERATIONS [THREADS [quiet]] [--seconds N]
// [--devices N] [--often N], a rare step by its number. With seconds it goes on until they are over. Exit
// code 1: hazards, wrong words or a call that failed; each is said; on a device that is too small for it
// (--crowded) but for refusals. It must be a program that a real device runs without a race.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/integration/random/worker.hpp"

using namespace random_program;

namespace {

constexpr int operations_a_round = 5'000;
constexpr int spare_seconds = 60;

struct options {
  unsigned seed = 1;
  int operations = 0, threads = 4, seconds = 0, devices = 4;
  bool quiet = false;
};

options parse(int argc, char** argv) {
  options found;
  int plain = 0;
  for (int i = 1; i < argc; ++i) {
    bool const more = i + 1 < argc;
    if (std::strcmp(argv[i], "--seconds") == 0 && more) {
      found.seconds = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--devices") == 0 && more) {
      found.devices = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--often") == 0 && more) {
      often = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "quiet") == 0) {
      found.quiet = true;
    } else if (std::strcmp(argv[i], "--crowded") == 0) {
      crowded = true;
    } else if (std::strcmp(argv[i], "--other-memory") == 0) {
      other_memory = true;
    } else if (std::strcmp(argv[i], "--requests-wait") == 0) {
      requests_wait = true;
    } else if (std::strcmp(argv[i], "--calls-wait") == 0) {
      requests_wait = frees_wait = true;
    } else {
      auto const number = std::strtoul(argv[i], nullptr, 10);
      if (plain == 0) found.seed = static_cast<unsigned>(number);
      if (plain == 1) found.operations = static_cast<int>(number);
      if (plain == 2) found.threads = static_cast<int>(number);
      ++plain;
    }
  }
  return found;
}

// Each round other contexts: of all devices, or of all but one, whose primary context the threads race for.
void furnish(world& all, unsigned seed, int most_devices) {
  int devices = 0;
  CHECK(cuDeviceGetCount(&devices));
  devices = std::min(devices, most_devices);
  if (devices > 1 && seed % 2 == 1) all.raced = --devices;
  for (int d = 0; d < std::max(devices + 1, 3); ++d) {
    place& made = all.places.emplace_back();
    made.device = d < devices ? d : 0;
    made.primary = d < devices;
    made.open();
  }
  for (place& from : all.places) {
    for (place& to : all.places) {
      if (from.device == to.device) continue;
      CHECK(cuCtxSetCurrent(from.context));
      CHECK(cuCtxEnablePeerAccess(to.context, 0));
    }
  }
}

void round(unsigned seed, int steps, int threads, int devices) {
  world all;
  furnish(all, seed, devices);
  {
    std::vector<std::jthread> team;
    for (int t = 0; t < threads; ++t) {
      unsigned const own_seed = seed * 100 + static_cast<unsigned>(t);
      team.emplace_back([&, own_seed, t] {
        worker(all, own_seed, t % 2 == 1, static_cast<std::size_t>(t)).run(steps / threads);
      });
    }
  }
  for (place& p : all.places) {  // host functions may still free, and hand back what they could not
    CHECK(cuCtxSetCurrent(p.context));
    CHECK(cuCtxSynchronize());
  }
  device_work::settled("threads ended");
  worker(all, seed * 100 + 99, false, 63).tidy();
  device_work::settled("half is freed");
  // The created ones first: they share their device with a primary context that is about to go.
  for (std::size_t i = all.places.size(); i-- > 0;) all.places[i].close(seed + static_cast<unsigned>(i));
  device_work::settled("contexts ended");
}

// What this process found; true: nothing. `quiet`: only what is wrong.
bool found_nothing(bool quiet) {
  unsigned long long const wrong = device_work::wrong();
  bool const good = faults == 0 && wrong == 0;
  if (!quiet || !good) {
    std::printf("allocations %d operations %d faults %d hazards %llu\n", allocations.load(),
                operations.load(), faults.load(), wrong);
    if (crowded) std::printf("%d requests were refused\n", refusals.load());
    if (refused_exports != 0) std::printf("%d exports were refused\n", refused_exports.load());
  }
  device_work::describe_wrong();
  std::fflush(stdout);
  return good;
}

// Before this process starts CUDA: both it and its child have a driver of their own.
bool fork_before_start(options const& given) {
  pid_t const child = fork();
  if (child == 0) {
    CHECK(cuInit(0));
    round(given.seed + 1, 300, 2, given.devices);
    _exit(found_nothing(true) ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  options const given = parse(argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (given.seconds > 0) alarm(static_cast<unsigned>(given.seconds + spare_seconds));
  device_work::prepare();
  if (device_work::on_a_gpu()) install_last_words();
  bool const forks = !device_work::on_a_gpu() || given.seed % 8 == 0;  // a second driver takes seconds there
  if (!given.quiet && forks && !fork_before_start(given)) fault("the child of before the start failed");
  CHECK(cuInit(0));
  auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(given.seconds);
  auto const goes_on = [&](int done) {
    if (too_many_faults() || device_work::wrong() != 0) return false;
    return given.seconds > 0 ? std::chrono::steady_clock::now() < end : done < given.operations;
  };
  for (int done = 0, i = 0; goes_on(done); ++i) {
    int const steps =
        given.seconds > 0 ? given.operations : std::min(given.operations - done, operations_a_round);
    round(given.seed + static_cast<unsigned>(i) * 7919, steps, given.threads, given.devices);
    done += steps;
  }
  return found_nothing(given.quiet) ? 0 : 1;
}
