// mpi_rounds ROUNDS same|mixed [async]: memory goes from one process to another by MPI, whose transport for
// CUDA (Open MPI: smcuda) exports a block, and keeps its registration as long as its BUFFER_ID is the same.
// Each round allocates, stamps, sends, verifies there, and frees. Prints the wrong words of all rounds;
// stderr tells how many handles were exported and opened. Two processes, started by mpirun. Needs an mpi.h,
// and a library that was built with CUDA.
#include <mpi.h>

#include <chrono>

#include "tests/gpu/rounds.cuh"

int main(int count, char** arguments) {
  rounds::options how;
  if (count > 1) how.count = static_cast<unsigned>(std::atoi(arguments[1]));
  for (int i = 2; i < count; ++i) {
    how.mixed |= std::string("mixed") == arguments[i];
    how.async |= std::string("async") == arguments[i];
  }
  REQUIRE(cudaFree(nullptr));
  REQUIRE(MPI_Init(&count, &arguments));
  int rank = 0;
  REQUIRE(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  unsigned long long wrong = 0;
  const auto begin = std::chrono::steady_clock::now();
  if (rank == 0) {
    rounds::senders_blocks blocks(how);
    for (unsigned round = 0; round < how.count; ++round) {
      const int bytes = static_cast<int>(how.size_of(round));
      REQUIRE(MPI_Send(blocks.stamped(round), bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD));
      REQUIRE(MPI_Recv(&wrong, sizeof wrong, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      blocks.sent(round);
    }
    REQUIRE(MPI_Recv(&wrong, sizeof wrong, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    blocks.end();
    const std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    std::printf("%u rounds, %llu wrong words\ntime: a round %.0f us\n", how.count, wrong,
                took.count() / how.count);
    rounds::tell("exporter");
  } else {
    rounds::receivers_block blocks(how);
    for (unsigned round = 0; round < how.count; ++round) {
      const int bytes = static_cast<int>(how.size_of(round));
      REQUIRE(MPI_Recv(blocks.empty(round), bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
      blocks.received(round);
      REQUIRE(MPI_Send(&wrong, sizeof wrong, MPI_BYTE, 0, 2, MPI_COMM_WORLD));
    }
    wrong = blocks.end();
    REQUIRE(MPI_Send(&wrong, sizeof wrong, MPI_BYTE, 0, 3, MPI_COMM_WORLD));
    rounds::tell("importer");
  }
  REQUIRE(MPI_Finalize());
  return wrong != 0;
}
