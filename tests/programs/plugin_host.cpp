// Opens a CUDA plugin and lets it work: plugin_host WAY FILE [own] [forks]. WAY: local, global, deepbind,
// namespace (dlmopen), repeated: fifty times opened, used and closed, or turns: the same four times, with
// the plugin of the next argument between; or meanwhile: that one is opened where the first lay, and works,
// before the call that closed the first has returned (libclosing.so). `own`: the host uses CUDA as well.
// `forks`: then it has three children that only exit. Run plain and preloaded by the integration tests. One
// thread.
#include <dlfcn.h>
#include <sys/wait.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/programs/support.hpp"

namespace {

void* open(const char* way, const char* file) {
  if (std::strcmp(way, "global") == 0) return dlopen(file, RTLD_NOW | RTLD_GLOBAL);
  if (std::strcmp(way, "deepbind") == 0) return dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (std::strcmp(way, "namespace") == 0) return dlmopen(LM_ID_NEWLM, file, RTLD_NOW | RTLD_LOCAL);
  return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

// The first plugin's place, and which one is to be opened there once it is closed; null: none any more.
void* place = nullptr;
const char* next_file = nullptr;

void* open_and_work(const char* way, const char* file) {
  void* const plugin = open(way, file);
  if (plugin == nullptr) {
    std::printf("not opened: %s\n", dlerror());
    std::exit(3);
  }
  int (*work)(int) = nullptr;
  void* const found = dlsym(plugin, "plugin_work");
  std::memcpy(&work, &found, sizeof found);
  std::printf("%d allocations%s\n", work(20), found == place ? " where another did" : "");
  return plugin;
}

void closed() {
  if (const char* const file = std::exchange(next_file, nullptr); file != nullptr)
    open_and_work("local", file);
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
  if (std::strcmp(argv[1], "meanwhile") == 0) {
    void (*tell)(void (*)()) = nullptr;
    void* const found = dlsym(RTLD_DEFAULT, "tell_of_closing");
    std::memcpy(&tell, &found, sizeof found);
    tell(&closed);
    void* const first = open_and_work("local", argv[2]);
    place = dlsym(first, "plugin_work");
    next_file = argv[3];
    std::printf("closed %d\n", dlclose(first));
    return 0;
  }
  const bool turns = std::strcmp(argv[1], "turns") == 0;
  const int times = turns ? 4 : std::strcmp(argv[1], "repeated") == 0 ? 50 : 1;
  for (int round = 0; round < times; ++round) {
    if (own) {
      void* block = nullptr;
      REQUIRE(cudaMalloc(&block, 4096));
      REQUIRE(cudaFree(block));
    }
    void* const plugin = open_and_work(argv[1], argv[turns ? 2 + round % 2 : 2]);
    if (times > 1) std::printf("closed %d\n", dlclose(plugin));
    std::fflush(stdout);
  }
  for (int child = 0; says("forks") && child < 3; ++child) {
    if (fork() == 0) return 0;
    REQUIRE_CODE(wait(nullptr) > 0, true);
  }
}
