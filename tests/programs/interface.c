/* A C program that asks gpumem what it holds, and runs without gpumem too: what each function returned, and
 * figures of blocks of known sizes. Compiled with and without -fPIE; run plain and preloaded. One thread. */
#include <cuda_runtime_api.h>
#include <gpumem/gpumem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1u << 20)

static void must(int code, const char* what) {
  if (code == 0) return;
  printf("%s gave %d\n", what, code);
  exit(1);
}

static void tell(const char* when) {
  gpumem_statistics now;
  memset(&now, 0xff, sizeof now);
  now.size = sizeof now;
  int const code = gpumem_get_statistics(0, &now);
  printf("%s: code %d", when, code);
  if (code == GPUMEM_OK)
    printf(
        ", requested %llu, highest %llu, idle within reserved %d, allocations %llu, frees %llu, refusals "
        "%llu",
        (unsigned long long)now.requested, (unsigned long long)now.highest_requested,
        now.cached <= now.reserved && now.requested <= now.reserved, (unsigned long long)now.allocations,
        (unsigned long long)now.frees, (unsigned long long)now.refusals);
  printf("\n");
}

int main(void) {
  printf("loaded %d\n", gpumem_is_loaded());
  if (!gpumem_is_loaded()) return 0;
  printf("version as compiled %d\n", gpumem_api_version() == GPUMEM_API_VERSION);
  printf("before CUDA: statistics %d, trim %d, report %d\n", gpumem_get_statistics(0, NULL),
         gpumem_trim(NULL), gpumem_get_report(NULL, 0, NULL));
  void *small = NULL, *large = NULL;
  must(cudaMalloc(&small, MIB), "cudaMalloc");
  must(cudaMalloc(&large, 48 * MIB), "cudaMalloc");
  tell("two blocks");
  must(cudaFree(large), "cudaFree");
  tell("one block");
  uint64_t bytes = 0;
  printf("trim %d", gpumem_trim(&bytes));
  printf(", at least the large one %d\n", bytes >= 48 * MIB);
  gpumem_statistics one;
  one.size = offsetof(gpumem_statistics, highest_requested); /* as of a program that knows less */
  one.highest_requested = 7;
  int const shorter = gpumem_get_statistics(0, &one);
  printf("a shorter one: code %d, requested %llu, the rest untouched %d\n", shorter,
         (unsigned long long)one.requested, one.highest_requested == 7);
  one.size = sizeof one;
  printf("no such device %d, no result %d\n", gpumem_get_statistics(63, &one),
         gpumem_get_statistics(0, NULL));
  size_t needed = 0;
  int const asked = gpumem_get_report(NULL, 0, &needed);
  char* text = malloc(needed + 4096);
  int const told = gpumem_get_report(text, needed + 4096, &needed);
  printf("report: code %d, then %d, as long as it says %d, begins with %c\n", asked, told,
         strlen(text) + 1 == needed, text[0]);
  free(text);
  int const begun = gpumem_phase_begin("the end 1"), ended = gpumem_phase_end();
  printf("phases: begin %d, end %d, another end %d\n", begun, ended, gpumem_phase_end());
  must(cudaFree(small), "cudaFree");
  return 0;
}
