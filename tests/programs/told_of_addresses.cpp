// What calls that only take an address say of it: of a block's base, of its inside, and after its free, while
// its neighbours live and when all are gone. Page-locked memory by its flags and its device address; memory
// of the device by the calls about mappings that a program made itself, which it did not; managed memory by
// a discard within the block and one of what was freed, after which the neighbours have what they had, and by
// where its pages lie. Prints the codes and whether an output was written. Modes: "access": what devices may
// do with memory; "freed": with freed memory alone. Run plain and preloaded by the integration and GPU tests.
// One thread.
#include <cuda.h>
#include <dlfcn.h>

#include <cstring>

#include "tests/programs/support.hpp"

namespace {

using namespace programs;

constexpr std::size_t mib = 1 << 20;

void host(const char* what, void* address) {
  unsigned flags = 0x5555;
  const CUresult of_flags = cuMemHostGetFlags(&flags, address);
  CUdeviceptr device = 0x5555;
  const CUresult of_device = cuMemHostGetDevicePointer(&device, address, 0);
  std::printf("%s: flags %d %#x, device address %d %s\n", what, of_flags, flags, of_device,
              device == reinterpret_cast<CUdeviceptr>(address) ? "the same"
              : device == 0x5555                               ? "untouched"
                                                               : "another");
}

void page_locked(std::size_t bytes) {
  void* blocks[3];
  for (void*& block : blocks) REQUIRE(cuMemAllocHost(&block, bytes));
  char* const middle = static_cast<char*>(blocks[1]);
  std::printf("page-locked, %zu bytes\n", bytes);
  host("base", middle);
  host("inside", middle + bytes / 2);
  host("last byte", middle + bytes - 1);
  REQUIRE(cuMemFreeHost(middle));
  host("freed", middle);
  host("inside of freed", middle + bytes / 2);
  host("its neighbour", blocks[0]);
  std::printf("no output: %d %d\n", cuMemHostGetFlags(nullptr, middle),
              cuMemHostGetDevicePointer(nullptr, middle, 0));
  REQUIRE(cuMemFreeHost(blocks[0]));
  REQUIRE(cuMemFreeHost(blocks[2]));
  host("all are gone", middle);
  host("null", nullptr);
}

void mapped(const char* what, CUdeviceptr address) {
  CUmemGenericAllocationHandle handle = 0;
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {0}};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  const CUresult retained = cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(address));
  const CUresult set = cuMemSetAccess(address, 2 * mib, &access, 1);
  std::printf("%s: retained %d, access %d, unmapped %d\n", what, retained, set, cuMemUnmap(address, 2 * mib));
}

// What is written where the answer is a refusal. Not of a range: driver 580.159 writes it in some places.
void asked(const char* what, CUdeviceptr address) {
  CUdeviceptr base = 0x5555;
  std::size_t bytes = 0x5555;
  const CUresult range = cuMemGetAddressRange(&base, &bytes, address);
  unsigned type = 0x5555;
  const CUresult attribute = cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  CUipcMemHandle handle;
  std::memset(&handle, 0x55, sizeof handle);
  const CUresult exported = cuIpcGetMemHandle(&handle, address);
  const auto touched = [](bool is) { return is ? "written" : "untouched"; };
  const char* const at = reinterpret_cast<const char*>(&handle);
  bool whole = true;
  for (std::size_t i = 0; i < sizeof handle; ++i) whole = whole && at[i] == 0x55;
  std::printf("%s: range %d, type %d %s, handle %d %s\n", what, range, attribute, touched(type != 0x5555),
              exported, touched(!whole));
}

void refusals(std::size_t bytes) {
  CUdeviceptr blocks[3];
  for (CUdeviceptr& block : blocks) REQUIRE(cuMemAlloc(&block, bytes));
  REQUIRE(cuMemFree(blocks[1]));
  std::printf("device, %zu bytes\n", bytes);
  asked("freed", blocks[1]);
  asked("inside of freed", blocks[1] + bytes / 2);
  REQUIRE(cuMemFree(blocks[0]));
  REQUIRE(cuMemFree(blocks[2]));
}

// What a device may do there: of live memory, with success, nothing.
void access_of(const char* what, CUdeviceptr address) {
  for (const int device : {0, 1}) {
    const CUmemLocation at{CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    unsigned long long flags = 0x5555;
    const CUresult code = cuMemGetAccess(&flags, &at, address);
    std::printf("%s, access of device %d: %d %#llx\n", what, device, code, flags);
  }
}

void accesses(bool of_live) {
  CUdeviceptr blocks[3];
  for (CUdeviceptr& block : blocks) REQUIRE(cuMemAlloc(&block, mib));
  if (of_live) {
    access_of("base", blocks[1]);
    access_of("inside", blocks[1] + mib / 2);
    CUdeviceptr ordered = 0, managed = 0;
    void* host = nullptr;
    REQUIRE(cuMemAllocAsync(&ordered, mib, CU_STREAM_LEGACY));
    REQUIRE(cuMemAllocManaged(&managed, mib, CU_MEM_ATTACH_GLOBAL));
    REQUIRE(cuMemAllocHost(&host, mib));
    access_of("in stream order", ordered);
    access_of("managed", managed);
    access_of("page-locked", reinterpret_cast<CUdeviceptr>(host));
    REQUIRE(cuMemFree(ordered));
    REQUIRE(cuMemFree(managed));
    REQUIRE(cuMemFreeHost(host));
  }
  REQUIRE(cuMemFree(blocks[1]));
  access_of("freed", blocks[1]);
  access_of("inside of freed", blocks[1] + mib / 2);
  access_of("null", 0);
  REQUIRE(cuMemFree(blocks[0]));
  REQUIRE(cuMemFree(blocks[2]));
}

void of_device() {
  CUdeviceptr blocks[3];
  for (CUdeviceptr& block : blocks) REQUIRE(cuMemAlloc(&block, 4 * mib));
  const CUdeviceptr middle = blocks[1];
  REQUIRE(cuMemsetD8(middle, 7, 4 * mib));
  mapped("device, base", middle);
  mapped("device, inside", middle + 2 * mib);
  checksum sum;
  verify_fill(reinterpret_cast<void*>(middle), 4 * mib, 7, sum);
  REQUIRE(cuMemFree(middle));
  mapped("device, freed", middle);
  REQUIRE(cuMemFree(blocks[0]));
  REQUIRE(cuMemFree(blocks[2]));
}

using locate_call = CUresult (*)(CUdeviceptr, size_t, size_t, size_t, CUmemLocation*);

// Since CUDA 13.4.
void locations() {
  const auto locate =
      reinterpret_cast<locate_call>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemGetLocationInfo"));
  if (locate == nullptr) return;
  CUdeviceptr blocks[3];
  for (CUdeviceptr& block : blocks) REQUIRE(cuMemAllocManaged(&block, mib, CU_MEM_ATTACH_GLOBAL));
  const auto show = [&](const char* what, CUdeviceptr from, std::size_t bytes) {
    CUmemLocation where{};
    std::printf("%s located: %d\n", what, locate(from, bytes, bytes, 0, &where));
  };
  show("a block", blocks[1], mib);
  show("a half", blocks[1] + mib / 2, mib / 2);
  REQUIRE(cuMemFree(blocks[1]));
  show("a freed block", blocks[1], mib);
  for (const int at : {0, 2}) REQUIRE(cuMemFree(blocks[at]));
}

using discard_call = CUresult (*)(CUdeviceptr*, size_t*, size_t, unsigned long long, CUstream);

void discards() {
  const auto discard =
      reinterpret_cast<discard_call>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemDiscardBatchAsync"));
  if (discard == nullptr) return;
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUdeviceptr blocks[3];
  for (CUdeviceptr& block : blocks) REQUIRE(cuMemAllocManaged(&block, mib, CU_MEM_ATTACH_GLOBAL));
  for (CUdeviceptr block : blocks) REQUIRE(cuMemsetD8(block, 9, mib));
  const auto show = [&](const char* what, CUdeviceptr from, std::size_t bytes) {
    const CUresult code = discard(&from, &bytes, 1, 0, stream);
    std::printf("%s discarded: %d\n", what, code);
  };
  show("a block", blocks[1], mib);
  show("a half", blocks[1] + mib / 2, mib / 2);
  REQUIRE(cuMemFree(blocks[1]));
  show("a freed block", blocks[1], mib);
  REQUIRE(cuStreamSynchronize(stream));
  checksum sum;
  for (const int at : {0, 2}) verify_fill(reinterpret_cast<void*>(blocks[at]), mib, 9, sum);
  for (const int at : {0, 2}) REQUIRE(cuMemFree(blocks[at]));
  REQUIRE(cuStreamDestroy(stream));
}

}  // namespace

int main(int count, char** arguments) {
  REQUIRE(cudaFree(nullptr));
  if (count > 1) return accesses(std::strcmp(arguments[1], "access") == 0), 0;
  for (const std::size_t bytes : {std::size_t{5000}, std::size_t{70000}, 3 * mib}) page_locked(bytes);
  of_device();
  for (const std::size_t bytes : {std::size_t{5000}, mib, 4 * mib}) refusals(bytes);
  discards();
  locations();
}
