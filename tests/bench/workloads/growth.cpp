// First touch after the start, when nothing is cached: the first allocation of the process, then many that
// are all kept, small (4 MiB) and large (256 MiB), then the frees. Microseconds each. One thread; run it in
// fresh processes.
#include "tests/bench/workloads/workloads.hpp"

void bench::growth(allocator& memory, const options&) {
  const stream own;
  double begin = now();
  void* first = memory.allocate(1 << 20, own.get());
  emit("growth", "first 1 MiB", "allocate", (now() - begin) / 1e3, "us");
  memory.free(first, 1 << 20, own.get());
  for (const auto& [bytes, many] : {std::pair<std::size_t, std::size_t>{std::size_t{4} << 20, 256},
                                    std::pair<std::size_t, std::size_t>{std::size_t{256} << 20, 16}}) {
    const std::string name = std::to_string(many) + " of " + size_name(bytes);
    std::vector<void*> kept;
    begin = now();
    for (std::size_t i = 0; i < many; ++i) kept.push_back(memory.allocate(bytes, own.get()));
    emit("growth", name, "allocate", (now() - begin) / 1e3 / static_cast<double>(many), "us");
    begin = now();
    for (void* each : kept) memory.free(each, bytes, own.get());
    emit("growth", name, "free", (now() - begin) / 1e3 / static_cast<double>(many), "us");
  }
}
