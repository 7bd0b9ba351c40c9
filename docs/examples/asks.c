/* A C program that asks gpumem where it is there, and does without where it is not: what a round of its work
 * needs at most, and memory from the chain "scratch" of chains.toml. Nothing is linked but the CUDA runtime.
 */
#include <cuda_runtime_api.h>
#include <gpumem/gpumem.h>
#include <stdio.h>

/* From the chain, or from CUDA where no chain serves; null: there is no memory. */
static void* take(size_t bytes, cudaStream_t stream) {
  void* block = NULL;
  int code = GPUMEM_NOT_LOADED;
  if (GPUMEM_HAS(gpumem_allocate)) code = gpumem_allocate("scratch", bytes, 0, stream, &block);
  if (code == GPUMEM_OK) return block;
  if (code == GPUMEM_OUT_OF_MEMORY) return NULL;
  return cudaMallocAsync(&block, bytes, stream) == cudaSuccess ? block : NULL;
}

int main(void) {
  cudaStream_t stream;
  if (cudaStreamCreate(&stream) != cudaSuccess) return 1;
  if (GPUMEM_HAS(gpumem_reset_peak)) gpumem_reset_peak(0);

  void* block = take((size_t)48 << 20, stream);
  if (block == NULL) return 1;
  cudaMemsetAsync(block, 0, (size_t)48 << 20, stream);
  cudaFreeAsync(block, stream); /* or gpumem_release: either takes blocks of both */
  cudaStreamSynchronize(stream);

  gpumem_statistics now;
  now.size = sizeof now;
  if (gpumem_is_loaded() && gpumem_get_statistics(0, &now) == GPUMEM_OK)
    printf("the round needed %.0f MiB\n", (double)now.highest_requested / (1 << 20));
  else
    printf("the round is done\n");
  cudaStreamDestroy(stream);
  return 0;
}
