// The first allocation of a process that has a context, and the first of a second size: what making the
// chain, the thread's tables and the first segment costs. One figure a process.
#include "tests/bench/workloads/workloads.hpp"

void bench::first_call(allocator& memory, const options&) {
  for (const auto& [name, bytes] :
       {std::pair{"first, 4 KiB", std::size_t{4096}}, std::pair{"second, 1 MiB", std::size_t{1} << 20}}) {
    const double begin = now();
    void* const block = memory.allocate(bytes, nullptr);
    emit("first_call", name, "request", (now() - begin) / 1e3, "us");
    memory.free(block, bytes, nullptr);
  }
}
