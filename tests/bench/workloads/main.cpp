// One workload over one allocator: bench WORKLOAD ALLOCATOR [seconds=N] [bytes=N] [largest=N] [from=N]
// [threads=N] [only=TEXT] [seed=N]. Results are JSON lines on stdout. scripts/bench.sh runs it for each
// variant, plain and under gpumem; by hand it serves a profiler.
#include <cstring>

#include "tests/bench/workloads/workloads.hpp"

namespace {

struct entry {
  const char* name;
  void (*run)(bench::allocator&, const bench::options&);
};
constexpr entry list[] = {
    {"pairs", bench::pairs},
    {"random_allocations", bench::random_allocations},
    {"holes", bench::holes},
    {"threads", bench::threads},
    {"producer_consumer", bench::producer_consumer},
    {"growth", bench::growth},
    {"captures", bench::captures},
    {"pinned", bench::pinned},
    {"calls", bench::calls},
    {"lookups", bench::lookups},
    {"drift", bench::drift},
    {"footprint", bench::footprint},
    {"refused", bench::refused},
    {"budget", bench::budget},
    {"first_call", bench::first_call},
    {"driver_calls", bench::driver_calls},
    {"concurrency", bench::concurrency},
#ifdef BENCH_KERNELS
    {"multi_stream", bench::multi_stream},
#endif
};

[[noreturn]] void usage() {
  std::fprintf(stderr,
               "usage: bench WORKLOAD ALLOCATOR [seconds=N] [bytes=N] [largest=N] [from=N] [threads=N] "
               "[only=TEXT] [seed=N]; "
               "workloads:");
  for (const entry& each : list) std::fprintf(stderr, " %s", each.name);
  std::fprintf(stderr, "\n");
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) usage();
  bench::options wanted;
  for (int i = 3; i < argc; ++i) {
    const char* value = std::strchr(argv[i], '=');
    if (value == nullptr) usage();
    const std::string key(argv[i], static_cast<std::size_t>(value++ - argv[i]));
    if (key == "seconds") {
      wanted.seconds = std::atof(value);
    } else if (key == "bytes") {
      wanted.bytes = std::strtoull(value, nullptr, 10);
    } else if (key == "largest") {
      wanted.largest = std::strtoull(value, nullptr, 10);
    } else if (key == "from") {
      wanted.from = std::atoi(value);
    } else if (key == "only") {
      wanted.only = value;
    } else if (key == "threads") {
      wanted.threads = std::atoi(value);
    } else if (key == "seed") {
      wanted.seed = std::strtoull(value, nullptr, 10);
    } else {
      usage();
    }
  }
  for (const entry& each : list) {
    if (std::strcmp(each.name, argv[1]) != 0) continue;
    REQUIRE(cudaFree(nullptr));
    const std::unique_ptr<bench::allocator> memory = bench::make_allocator(argv[2]);
    each.run(*memory, wanted);
    REQUIRE(cudaDeviceSynchronize());
    return 0;
  }
  usage();
}
