// A program that asks for nearly all memory and is often refused: blocks of up to 4 GiB, evenly distributed,
// until one is refused; then a block of those that it holds goes, and the request is repeated, as a program
// that catches the error does. No GPU work. Mean time of a request, refused or not, and of a free. One
// thread.
#include <new>

#include "tests/bench/workloads/workloads.hpp"

void bench::refused(allocator& memory, const options& wanted) {
  const std::size_t requests = std::min<std::size_t>(2000, wanted.largest);
  programs::sequence random(5);
  std::vector<held> live;
  std::size_t refusals = 0;
  const auto give_one = [&] {
    std::swap(live[random.next(live.size())], live.back());
    memory.free(live.back().block, live.back().bytes, nullptr);
    live.pop_back();
  };
  memory.free(memory.allocate(256, nullptr), 256, nullptr);
  const double begin = now();
  for (std::size_t i = 0; i < requests;) {
    const std::size_t bytes = 1 + random.next(std::size_t{4} << 30);
    for (void* block = nullptr; block == nullptr && i < requests; ++i) {
      try {
        block = memory.allocate(bytes, nullptr);
        live.push_back({block, bytes});
      } catch (const std::bad_alloc&) {
        ++refusals;
        if (live.empty()) break;
        give_one();
      }
    }
  }
  const double spent = now() - begin;
  while (!live.empty()) give_one();
  const std::string name = std::to_string(requests) + " of up to 4 GiB";
  emit("refused", name, "request", spent / static_cast<double>(requests) / 1e3, "us");
  emit("refused", name, "refused of 1000",
       1000.0 * static_cast<double>(refusals) / static_cast<double>(requests), "");
}
