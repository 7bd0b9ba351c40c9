// How many calls of a loop of cudaMalloc and cudaFree reach the runtime, before and after a profiler asks to
// see them in the way that the argument names; "contexts" and "off" do not. Linked to a libcupti; one thread.
#include <dlfcn.h>

#include <cstdint>
#include <map>
#include <string>

#include "tests/programs/support.hpp"

extern "C" {
int cuptiActivityEnable(int kind);
int cuptiActivityEnableContext(void* context, int kind);
int cuptiActivityEnableAndDump(int kind);
int cuptiActivityEnableRuntimeApi(std::uint32_t call, std::uint8_t enable);
int cuptiActivityEnableDriverApi(std::uint32_t call, std::uint8_t enable);
int cuptiEnableCallback(std::uint32_t enable, void* subscriber, int domain, std::uint32_t call);
int cuptiEnableDomain(std::uint32_t enable, void* subscriber, int domain);
int cuptiEnableAllDomains(std::uint32_t enable, void* subscriber);
}

namespace {

constexpr int runtime_calls = 2, contexts = 3;  // CUpti_CallbackDomain

int looked_up() {
  void* const library = dlopen("libcupti.so.13", RTLD_NOW);
  auto* const enable =
      library != nullptr ? reinterpret_cast<int (*)(int)>(dlsym(library, "cuptiActivityEnable")) : nullptr;
  return enable != nullptr ? enable(5) : -1;
}

const std::map<std::string, int (*)()> ways{
    {"activity", [] { return cuptiActivityEnable(5); }},
    {"activity_of_a_context", [] { return cuptiActivityEnableContext(nullptr, 5); }},
    {"activity_and_dump", [] { return cuptiActivityEnableAndDump(5); }},
    {"runtime_api", [] { return cuptiActivityEnableRuntimeApi(20, 1); }},
    {"driver_api", [] { return cuptiActivityEnableDriverApi(20, 1); }},
    {"callback", [] { return cuptiEnableCallback(1, nullptr, runtime_calls, 20); }},
    {"domain", [] { return cuptiEnableDomain(1, nullptr, runtime_calls); }},
    {"all_domains", [] { return cuptiEnableAllDomains(1, nullptr); }},
    {"looked_up", looked_up},
    {"contexts", [] { return cuptiEnableCallback(1, nullptr, contexts, 1); }},
    {"off", [] { return cuptiEnableDomain(0, nullptr, runtime_calls); }},
};

unsigned long long calls_of_100_pairs() {
  static auto* const calls =
      reinterpret_cast<unsigned long long (*)()>(dlsym(RTLD_DEFAULT, "cudaSimulatedCalls"));
  REQUIRE_CODE(calls == nullptr, 0);
  const auto before = calls();
  for (int i = 0; i < 100; ++i) {
    void* block = nullptr;
    REQUIRE(cudaMalloc(&block, 4096));
    REQUIRE(cudaFree(block));
  }
  return calls() - before;
}

}  // namespace

int main(int argc, char** argv) {
  const auto way = ways.find(argc > 1 ? argv[1] : "");
  REQUIRE_CODE(way == ways.end(), 0);
  calls_of_100_pairs();
  const auto before = calls_of_100_pairs();
  const int code = way->second();
  std::printf("code %d, calls before %llu, after %llu\n", code, before, calls_of_100_pairs());
}
