// Counts how often anybody walks the list of loaded objects while a program that has done all of this before
// allocates and frees through the runtime: walks take longer the more a program has loaded, so none may be
// part of a pair. Run plain and preloaded, with the shared runtime; argument "observed": with a
// profiler announced. One thread.
#include <link.h>

#include <cstring>

#include "tests/programs/support.hpp"

namespace {

std::atomic<int> walks{0};

void all_kinds(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    void *plain = nullptr, *ordered = nullptr, *managed = nullptr, *pinned = nullptr, *mapped = nullptr;
    REQUIRE(cudaMalloc(&plain, 4096));
    REQUIRE(cudaMallocAsync(&ordered, 4096, nullptr));
    REQUIRE(cudaMallocManaged(&managed, 4096, cudaMemAttachGlobal));
    REQUIRE(cudaMallocHost(&pinned, 4096));
    REQUIRE(cudaHostAlloc(&mapped, 4096, cudaHostAllocMapped));
    REQUIRE(cudaFree(managed));
    REQUIRE(cudaFreeHost(pinned));
    REQUIRE(cudaFreeHost(mapped));
    REQUIRE(cudaFreeAsync(ordered, nullptr));
    REQUIRE(cudaFree(plain));
  }
}

}  // namespace

// In the place of libc's, for every library of this process. Not by way of dlsym, which may walk itself.
extern "C" __attribute__((visibility("default"))) int dl_iterate_phdr(int (*visit)(dl_phdr_info*, std::size_t,
                                                                                   void*),
                                                                      void* argument) {
  walks.fetch_add(1);
  int answer = 0;
  for (link_map const* object = _r_debug.r_map; object != nullptr && answer == 0; object = object->l_next) {
    dl_phdr_info info{};
    info.dlpi_addr = object->l_addr;
    info.dlpi_name = object->l_name;
    auto const* header = reinterpret_cast<ElfW(Ehdr) const*>(object->l_addr);  // also of a program: it is PIE
    if (std::memcmp(header, ELFMAG, SELFMAG) != 0) continue;
    info.dlpi_phdr = reinterpret_cast<ElfW(Phdr) const*>(object->l_addr + header->e_phoff);
    info.dlpi_phnum = header->e_phnum;
    answer = visit(&info, sizeof info, argument);
  }
  return answer;
}

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "observed") == 0) setenv("CUDA_INJECTION64_PATH", "observed", 1);
  all_kinds(3);
  int const before = walks.load();
  all_kinds(100);
  std::printf("%d walks in 100 rounds\n", walks.load() - before);
}
