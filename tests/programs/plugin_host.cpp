// Opens a CUDA plugin and lets it work: plugin_host WAY FILE [own] [forks]. WAY: local, global, deepbind,
// namespace (dlmopen), repeated: fifty times opened, used and closed, or turns: the same four times, with
// the plugin of the next argument between. `own`: the host uses CUDA as well. `forks`: then it has three
// children that only exit. Run plain and preloaded by the integration tests. One thread.
#include <dlfcn.h>
#include <sys/wait.h>

#include <cstring>

#include "tests/programs/support.hpp"

namespace {

void* open(const char* way, const char* file) {
  if (std::strcmp(way, "global") == 0) return dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  if (std::strcmp(way, "deepbind") == 0) return dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (std::strcmp(way, "namespace") == 0) return dlmopen(LM_ID_NEWLM, file, RTLD_NOW | RTLD_LOCAL);
  return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace programs;
  if (argc < 3) return 2;
  const auto says = [&](const char* word) {
    for (int i = 3; i < argc; ++i) {
      if (std::strcmp(argv[i], word) == 0) return true;
    }
    return false;
  };
  const bool own = says("own");
  const bool turns = std::strcmp(argv[1], "turns") == 0;
  const int times = turns ? 4 : std::strcmp(argv[1], "repeated") == 0 ? 50 : 1;
  for (int round = 0; round < times; ++round) {
    if (own) {
      void* block = nullptr;
      REQUIRE(cudaMalloc(&block, 4096));
      REQUIRE(cudaFree(block));
    }
    void* plugin = open(argv[1], argv[turns ? 2 + round % 2 : 2]);
    if (plugin == nullptr) {
      std::printf("not opened: %s\n", dlerror());
      return 3;
    }
    int (*work)(int) = nullptr;
    void* found = dlsym(plugin, "plugin_work");
    std::memcpy(&work, &found, sizeof found);
    std::printf("%d allocations\n", work(20));
    if (times > 1) std::printf("closed %d\n", dlclose(plugin));
    std::fflush(stdout);
  }
  for (int child = 0; says("forks") && child < 3; ++child) {
    if (fork() == 0) return 0;
    REQUIRE_CODE(wait(nullptr) > 0, true);
  }
}
