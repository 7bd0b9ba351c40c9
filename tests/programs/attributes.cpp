// What the driver says of pointers: every attribute of cuPointerGetAttribute, singly and all at once, for
// device (base and interior), managed, pinned, null and made-up addresses;
// cudaPointerGetAttributes for the same. Addresses are printed relative to the block. Run plain and preloaded
// by the integration and GPU tests. One thread.
#include <cuda.h>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

// Identity numbers that differ from run to run are only checked for being there.
bool is_number_of_the_run(CUpointer_attribute attribute) {
  return attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID || attribute == CU_POINTER_ATTRIBUTE_CONTEXT ||
         attribute == CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE || attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS ||
         attribute == CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR ||
         attribute == CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID;
}

bool is_address(CUpointer_attribute attribute) {
  return attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER || attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER ||
         attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR;
}

// `of_pool`: how large a piece of the pool's the driver mapped at once is its own affair (32 MiB, 580.159).
void show(const char* what, CUdeviceptr address, CUdeviceptr base, bool of_pool = false) {
  for (int number = 1; number <= 20; ++number) {
    const auto attribute = static_cast<CUpointer_attribute>(number);
    if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS) continue;  // gone from current drivers
    std::uint64_t value[4] = {};
    const int code = cuPointerGetAttribute(value, attribute, address);
    std::uint64_t all_at_once[4] = {};
    void* values[] = {all_at_once};
    CUpointer_attribute asked[] = {attribute};
    const int code_of_all = cuPointerGetAttributes(1, asked, values, address);
    std::printf("%s attribute %d: code %d and %d, ", what, number, code, code_of_all);
    if (code != 0) {
      std::printf("no value\n");
    } else if (is_number_of_the_run(attribute) ||
               (of_pool && attribute == CU_POINTER_ATTRIBUTE_MAPPING_SIZE)) {
      std::printf("set %d %d\n", value[0] != 0, all_at_once[0] != 0);
    } else if (is_address(attribute)) {
      std::printf("base %+lld %+lld\n", static_cast<long long>(value[0] - base),
                  all_at_once[0] == 0 ? 0 : static_cast<long long>(all_at_once[0] - base));
    } else {
      std::printf("%llu %llu\n", (unsigned long long)value[0], (unsigned long long)all_at_once[0]);
    }
  }
  cudaPointerAttributes runtime{};
  const int code = cudaPointerGetAttributes(&runtime, reinterpret_cast<void*>(address));
  std::printf("%s runtime: code %d, type %d, device %d, device pointer %d, host pointer %d, last error %d\n",
              what, code, runtime.type, runtime.device, runtime.devicePointer != nullptr,
              runtime.hostPointer != nullptr, cudaGetLastError());
}

CUdeviceptr number(void* block) {
  return reinterpret_cast<CUdeviceptr>(block);
}

}  // namespace

int main() {
  void* filler = nullptr;
  void* device = nullptr;
  void* ordered = nullptr;
  void* managed = nullptr;
  void* pinned = nullptr;
  REQUIRE(cudaMalloc(&filler, 5000));  // so that the next one is no base of a driver block
  REQUIRE(cudaMalloc(&device, 10'000));
  REQUIRE(cudaMallocAsync(&ordered, 3 << 20, nullptr));
  REQUIRE(cudaMallocManaged(&managed, 10'000, cudaMemAttachGlobal));
  REQUIRE(cudaMallocHost(&pinned, 10'000));
  REQUIRE(cudaDeviceSynchronize());
  show("device", number(device), number(device));
  show("interior", number(device) + 4321, number(device));
  show("ordered", number(ordered), number(ordered), true);
  show("inside of ordered", number(ordered) + 4321, number(ordered), true);
  cudaIpcMemHandle_t handle;
  const int exported = cudaIpcGetMemHandle(&handle, ordered);
  std::printf("ordered exported: code %d, last error %d\n", exported, cudaGetLastError());
  show("managed", number(managed), number(managed));
  show("pinned", number(pinned), number(pinned));
  show("null", 0, 0);
  show("made up", 0x123456000, 0x123456000);
  int here = 0;
  show("host", number(&here), number(&here));
  REQUIRE(cudaFree(device));
  REQUIRE(cudaFree(filler));
  REQUIRE(cudaFree(ordered));
  REQUIRE(cudaFree(managed));
  REQUIRE(cudaFreeHost(pinned));
}
