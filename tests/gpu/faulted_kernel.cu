// A kernel writes where nobody has memory; then what tests/programs/faulted.hpp says, by each way in which
// the program can learn of it: device | stream | query | event | event_query | copy | launch; or what other
// contexts say then (faulted_elsewhere.hpp): told | untold, with "reset" a reset at the end. Prints each
// call's code, which must be the same preloaded. One process a way, as the context is lost for good. One
// thread.
#include "tests/programs/faulted.hpp"
#include "tests/programs/faulted_elsewhere.hpp"

namespace {

__global__ void write_nowhere(int* where) {
  *where = 1;
}

__global__ void nothing() {}

void fault(cudaStream_t stream) {
  write_nowhere<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(16));
}

int launch(cudaStream_t stream) {
  int code = cudaSuccess;
  while (code == cudaSuccess) {
    nothing<<<1, 1, 0, stream>>>();
    code = cudaGetLastError();
  }
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string how = argv[1];
  if (how == "told" || how == "untold") {
    programs::faulted_elsewhere(how == "told", argc > 2, [](cudaStream_t stream) { fault(stream); });
    return 0;
  }
  programs::faulted(how, argc > 2, &fault, &launch);
}
