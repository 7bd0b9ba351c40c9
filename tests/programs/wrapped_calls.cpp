// Calls of the CUDA runtime of which a library wraps some (wrapping_library.cpp): by the thread that starts
// CUDA and by one that does not, with calls of functions that are not wrapped between them. Prints the code
// of each. Linked to the runtime alone, and to that library before the runtime. Run plain and preloaded.
#include <thread>

#include "tests/programs/support.hpp"

int main() {
  for (int round = 0; round < 3; ++round) {
    void *first = nullptr, *second = nullptr, *pinned = nullptr, *ordered = nullptr;
    const int taken = cudaMalloc(&first, 1000u << round);
    const int held = cudaMallocHost(&pinned, 100);
    const int again = cudaMalloc(&second, 1000u << round);
    const int later = cudaMallocAsync(&ordered, 5000, nullptr);
    std::printf("allocations %d %d %d %d, ", taken, held, again, later);
    int freed = -1;
    std::thread([&] { freed = cudaFree(second); }).join();
    programs::checksum sum;
    REQUIRE(cudaMemset(first, round, 1000u << round));
    programs::verify_fill(first, 1000u << round, static_cast<unsigned char>(round), sum);
    std::printf("frees %d %d %d %d, last error %d\n", freed, cudaFreeAsync(ordered, nullptr), cudaFree(first),
                cudaFreeHost(pinned), cudaGetLastError());
  }
}
