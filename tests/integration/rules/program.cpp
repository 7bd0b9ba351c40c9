// Loads libraries that allocate: program STEP... where a step is LIBRARY:COUNT:BYTES[:managed], or -LIBRARY
// to unload it again. Blocks of a step are freed by the library that took them, at the next step on this
// thread and otherwise on another one. Prints what failed; the exit code is the number of failures.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

int failures = 0;

void fail(std::string const& what) {
  std::printf("%s\n", what.c_str());
  ++failures;
}

template <typename Function>
Function* function(void* library, char const* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

void use(void* library, long count, std::size_t bytes, bool managed, bool elsewhere) {
  auto* const take = function<void*(std::size_t)>(library, managed ? "take_managed" : "take");
  auto* const give = function<int(void*)>(library, "give");
  std::vector<void*> blocks;
  for (long i = 0; i < count; ++i) blocks.push_back(take(bytes));
  auto const give_all = [&] {
    for (void* block : blocks) {
      if (block == nullptr || give(block) != 0) fail("a block was not served or not freed");
    }
  };
  if (elsewhere) {
    std::thread(give_all).join();
  } else {
    give_all();
  }
}

}  // namespace

int main(int count, char** arguments) {
  std::map<std::string, void*> loaded;
  for (int i = 1; i < count; ++i) {
    std::string step = arguments[i];
    if (step[0] == '-') {
      auto const found = loaded.find(step.substr(1));
      if (found == loaded.end() || dlclose(found->second) != 0) fail(step + " was not unloaded");
      if (found != loaded.end()) loaded.erase(found);
      continue;
    }
    std::vector<std::string> part;
    for (std::size_t at = 0; at <= step.size();) {
      std::size_t const end = std::min(step.find(':', at), step.size());
      part.push_back(step.substr(at, end - at));
      at = end + 1;
    }
    void*& library = loaded[part.at(0)];
    if (library == nullptr) library = dlopen(part[0].c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      fail(std::string("not loaded: ") + dlerror());
      continue;
    }
    use(library, std::atol(part.at(1).c_str()), std::strtoul(part.at(2).c_str(), nullptr, 10),
        part.size() > 3 && part[3] == "managed", i % 2 == 0);
  }
  std::printf("%d failures\n", failures);
  return failures;
}
