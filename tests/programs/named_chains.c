/* A C program that asks for chains by their names: what each call returned, who serves and frees what, and
 * how blocks are aligned. The names are those of tests/integration/programs/configs/named_chains.toml. One
 * thread; on a GPU as well. */
#include <cuda_runtime_api.h>
#include <gpumem/gpumem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static void must(int code, const char* what) {
  if (code == 0) return;
  printf("%s gave %d\n", what, code);
  exit(1);
}

static gpumem_statistics now(void) {
  gpumem_statistics figures;
  figures.size = sizeof figures;
  must(gpumem_get_statistics(0, &figures), "gpumem_get_statistics");
  return figures;
}

static void tell(const char* what, int figure) {
  printf("%s %d; ", what, figure);
}

/* A block of each chain, of odd sizes, at each alignment; then all go back. */
static void aligned_blocks(const char* chain, size_t largest) {
  void* blocks[64];
  int count = 0, wrong = 0, refused = 0;
  for (size_t alignment = 1; alignment <= 4 * MIB; alignment *= 4) {
    for (size_t bytes = 700; bytes <= largest; bytes *= 12) {
      void* block = NULL;
      int const code = count % 2 == 0 ? gpumem_allocate(chain, bytes, alignment, NULL, &block)
                                      : gpumem_allocate_sync(chain, bytes, alignment, &block);
      if (code != GPUMEM_OK) {
        ++refused;
        continue;
      }
      wrong += (uintptr_t)block % alignment != 0;
      must(cudaMemset(block, 0x5a, bytes), "cudaMemset");
      blocks[count++] = block;
    }
  }
  printf("%s: %d blocks, %d refused, %d not aligned", chain, count, refused, wrong);
  int failed = 0;
  for (int i = 0; i < count; ++i)
    failed += i % 2 == 0 ? gpumem_release(blocks[i], NULL) : gpumem_release_sync(blocks[i]);
  printf(", frees failed %d\n", failed);
}

int main(void) {
  if (!gpumem_is_loaded() || !GPUMEM_HAS(gpumem_allocate)) {
    printf("not there\n");
    return 0;
  }
  void* block = &block;
  tell("before CUDA", gpumem_allocate("scratch", 100, 0, NULL, &block));
  tell("its block is null", block == NULL);
  must(cudaFree(NULL), "cudaFree");
  cudaStream_t stream;
  must(cudaStreamCreate(&stream), "cudaStreamCreate");

  tell("no such chain", gpumem_allocate("scratsh", 1, 0, NULL, &block));
  tell("nor such", gpumem_allocate_sync("", 1, 0, &block));
  tell("no result", gpumem_allocate("scratch", 1, 0, NULL, NULL));
  tell("alignment 3", gpumem_allocate("scratch", 1, 3, NULL, &block));
  tell("alignment 768", gpumem_allocate_sync("scratch", 1, 768, &block));
  tell("alignment 2 GiB", gpumem_allocate("scratch", 1, (size_t)1 << 31, NULL, &block));
  block = &block;
  tell("no bytes", gpumem_allocate("scratch", 0, 0, NULL, &block));
  tell("its block is null", block == NULL);
  tell("release of null", gpumem_release(NULL, stream));
  tell("the same", gpumem_release_sync(NULL));

  /* Each may free what another got. */
  void* four[4];
  for (int i = 0; i < 4; ++i)
    must(gpumem_allocate("scratch", 3 * MIB, 0, stream, &four[i]), "gpumem_allocate");
  must(cudaMemsetAsync(four[0], 1, 3 * MIB, stream), "cudaMemsetAsync");
  tell("\nfrees by cudaFree", cudaFree(four[0]));
  tell("cudaFreeAsync", cudaFreeAsync(four[1], stream));
  tell("release", gpumem_release(four[2], stream));
  tell("release_sync", gpumem_release_sync(four[3]));
  tell("again", gpumem_release_sync(four[3]));
  must(cudaMalloc(&block, MIB), "cudaMalloc");
  tell("cudaMalloc's by release_sync", gpumem_release_sync(block));
  must(cudaMalloc(&block, MIB), "cudaMalloc");
  tell("inside a block", gpumem_release_sync((char*)block + 512));
  tell("cudaMalloc's by release", gpumem_release(block, stream));

  void *first = NULL, *second = NULL;
  must(gpumem_allocate("scratch", 64 * KIB, 0, stream, &first), "gpumem_allocate");
  must(gpumem_release(first, stream), "gpumem_release");
  must(gpumem_allocate("scratch", 64 * KIB, 0, stream, &second), "gpumem_allocate");
  tell("\nin stream order the same block", first == second);
  must(gpumem_release(second, stream), "gpumem_release");
  tell("without a name", gpumem_allocate(NULL, MIB, 0, stream, &block));
  tell("KiB", (int)(now().requested >> 10));
  must(gpumem_release(block, stream), "gpumem_release");
  tell("limited", gpumem_allocate_sync("limited", 2 * MIB, 0, &block));
  second = &second;
  tell("beyond", gpumem_allocate_sync("limited", 8 * MIB, 0, &second));
  tell("its block is null", second == NULL);
  tell("release", gpumem_release_sync(block));
  tell("by size, small", gpumem_allocate("sized", KIB, 0, stream, &block));
  tell("release", gpumem_release(block, stream));
  tell("large, of the route", gpumem_allocate("sized", 2 * MIB, 0, stream, &block));
  tell("release", gpumem_release(block, stream));

  tell("\nCUDA must serve: passthrough", gpumem_allocate("native", MIB, 0, stream, &block));
  cudaMemPool_t pool;
  struct cudaMemPoolProps properties = {0};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  must(cudaMemPoolCreate(&pool, &properties), "cudaMemPoolCreate");
  must(cudaMallocFromPoolAsync(&block, MIB, pool, stream), "cudaMallocFromPoolAsync");
  tell("release of the program's own", gpumem_release(block, stream));
  must(cudaFreeAsync(block, stream), "cudaFreeAsync");
  must(cudaMemPoolDestroy(pool), "cudaMemPoolDestroy");
  must(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
  tell("in a capture", gpumem_allocate("scratch", MIB, 0, stream, &block));
  cudaGraph_t graph;
  must(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  must(cudaGraphDestroy(graph), "cudaGraphDestroy");
  tell("after it", gpumem_allocate("scratch", MIB, 0, stream, &block));
  tell("release", gpumem_release(block, stream));
  printf("\n");

  static const char* const chains[] = {"scratch", "arena", "virtual", "managed", "bins", "direct", "driver"};
  for (size_t i = 0; i < sizeof chains / sizeof *chains; ++i) aligned_blocks(chains[i], MIB);
  aligned_blocks("fixed", 512 * KIB);
  must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");

  /* The peak, anew. */
  must(gpumem_allocate_sync(NULL, 256 * MIB, 0, &first), "gpumem_allocate_sync");
  must(gpumem_allocate_sync("scratch", 20 * MIB, 0, &second), "gpumem_allocate_sync");
  must(gpumem_release_sync(first), "gpumem_release_sync");
  uint64_t const before = now().highest_requested;
  must(gpumem_reset_peak(0), "gpumem_reset_peak");
  uint64_t const at_reset = now().highest_requested;
  must(gpumem_allocate_sync("scratch", 40 * MIB, 0, &first), "gpumem_allocate_sync");
  must(gpumem_release_sync(first), "gpumem_release_sync");
  uint64_t const since = now().highest_requested;
  printf("peak %llu, reset %llu, then %d, of no device %d\n", (unsigned long long)before,
         (unsigned long long)at_reset, since >= 52 * MIB && since <= 68 * MIB, gpumem_reset_peak(63));
  must(gpumem_release_sync(second), "gpumem_release_sync");
  printf("at the end %llu bytes\n", (unsigned long long)now().requested);
  must(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return 0;
}
