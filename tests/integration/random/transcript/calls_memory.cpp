// See session.hpp. Here: memory of every kind taken, used and given back, rightly and wrongly.
#include <sys/mman.h>

#include <cstring>

#include "tests/integration/random/transcript/session.hpp"

namespace transcript {

void session::allocate() {
  std::size_t const bytes = some_size();
  block made{fresh('b'), 0, bytes, kind::plain, current(), nullptr, 0, current_device()};
  if (one_in(40)) return void(said(cuMemAlloc(nullptr, bytes), "cuMemAlloc null, %zu", bytes));
  made.address = 0x77;
  CUresult const code =
      said(cuMemAlloc(&made.address, bytes), "cuMemAlloc %s, %zu", made.name.c_str(), bytes);
  if (code == CUDA_SUCCESS) return keep(made);
  say("  left behind %llx", made.address);
}

void session::allocate_ordered() {
  std::size_t const bytes = some_size();
  queue const on = some_stream();
  block made{fresh('b'), 0x77, bytes, kind::ordered, current(), nullptr, 0, current_device()};
  if (one_in(40))
    return void(
        said(cuMemAllocAsync(nullptr, bytes, on.handle), "cuMemAllocAsync null on %s", on.name.c_str()));
  if (on.context != nullptr) made.context = on.context;
  made.device = device_of(on);
  CUresult const code = said(cuMemAllocAsync(&made.address, bytes, on.handle),
                             "cuMemAllocAsync %s, %zu, on %s", made.name.c_str(), bytes, on.name.c_str());
  if (code != CUDA_SUCCESS || bytes == 0) return say("  left behind %llx", made.address);
  made.captured_in = capture_of(on.handle);
  if (made.captured_in != 0) made.made = kind::of_graph;
  keep(made);
}

void session::allocate_managed() {
  std::size_t const bytes = some_size();
  unsigned const flags = one_in(8) ? below(8) : 1 + below(2);
  block made{fresh('b'), 0, bytes, kind::managed, current(), nullptr, 0, current_device()};
  if (one_in(30)) return void(said(cuMemAllocManaged(nullptr, bytes, flags), "cuMemAllocManaged null"));
  CUresult const code = said(cuMemAllocManaged(&made.address, bytes, flags), "cuMemAllocManaged %s, %zu, %u",
                             made.name.c_str(), bytes, flags);
  if (code == CUDA_SUCCESS) keep(made);
}

void session::allocate_pinned() {
  std::size_t const bytes = some_size();
  unsigned const flags = one_in(10) && bytes < std::size_t{1} << 30 ? below(64) : below(8);
  bool const old = one_in(3);
  void* host = nullptr;
  block made{fresh('b'), 0, bytes, kind::pinned, current(), nullptr, 0, current_device()};
  if (one_in(30)) return void(said(cuMemHostAlloc(nullptr, bytes, 0), "cuMemHostAlloc null"));
  CUresult const code =
      old ? said(cuMemAllocHost(&host, bytes), "cuMemAllocHost %s, %zu", made.name.c_str(), bytes)
          : said(cuMemHostAlloc(&host, bytes, flags), "cuMemHostAlloc %s, %zu, %u", made.name.c_str(), bytes,
                 flags);
  if (code != CUDA_SUCCESS || bytes == 0) return;
  made.address = reinterpret_cast<CUdeviceptr>(host);
  keep(made);
  unsigned seen = 0;
  CUdeviceptr device = 0;
  said(cuMemHostGetFlags(&seen, host), "cuMemHostGetFlags");
  said(cuMemHostGetDevicePointer(&device, host, 0), "cuMemHostGetDevicePointer");
  say("  flags %u, on the device %s", flags_told(made, seen), where(device).c_str());
}

void session::allocate_pitched() {
  std::size_t const width = one_in(12) ? 0 : 1 + below(3000), height = one_in(12) ? 0 : 1 + below(64);
  unsigned const element = one_in(8) ? below(20) : 4u << below(3);
  std::size_t pitch = 0;
  block made{fresh('b'), 0, 0, kind::pitched, current(), nullptr, 0, current_device()};
  CUresult const code = said(cuMemAllocPitch(&made.address, &pitch, width, height, element),
                             "cuMemAllocPitch %s, %zu x %zu, %u", made.name.c_str(), width, height, element);
  if (code != CUDA_SUCCESS) return;
  say("  pitch %zu", pitch);
  made.bytes = pitch * height;
  keep(made);
}

void session::allocate_from_pool() {
  std::size_t const bytes = some_size();
  std::string name;
  CUmemoryPool const from = some_pool(name);
  queue const on = some_stream();
  block made{fresh('b'), 0x77, bytes, kind::from_pool, current(), nullptr, 0, current_device()};
  if (on.context != nullptr) made.context = on.context;
  made.device = device_of(on);
  CUresult const code = said(cuMemAllocFromPoolAsync(&made.address, bytes, from, on.handle),
                             "cuMemAllocFromPoolAsync %s, %zu, from %s, on %s", made.name.c_str(), bytes,
                             name.c_str(), on.name.c_str());
  if (code != CUDA_SUCCESS || bytes == 0) return;
  made.captured_in = capture_of(on.handle);
  if (made.captured_in != 0) made.made = kind::of_graph;
  CUmemoryPool of_device = nullptr;
  bool const there = cuDeviceGetDefaultMemPool(&of_device, made.device) == CUDA_SUCCESS && of_device == from;
  if (!there) other_devices_.insert(name);
  keep(made);
}

// By a call that may free it; whether that may be now is the driver's to say.
void session::free_right() {
  block* const found = some_block();
  if (found == nullptr) return;
  block const b = *found;
  CUresult code = CUDA_SUCCESS;
  bool in_order = false;
  if (b.made == kind::pinned) {
    code = said(cuMemFreeHost(reinterpret_cast<void*>(b.address)), "cuMemFreeHost %s", b.name.c_str());
  } else if (below(2) == 0) {
    code = said(cuMemFree(b.address), "cuMemFree %s", b.name.c_str());
  } else {
    queue const on = some_stream();
    in_order = true;
    code = said(cuMemFreeAsync(b.address, on.handle), "cuMemFreeAsync %s on %s", b.name.c_str(),
                on.name.c_str());
  }
  if (code != CUDA_SUCCESS) return;
  if (b.made == kind::of_graph && b.graph != nullptr) return;  // comes back with the next launch
  drop(found);
  // What a stream has to free first is there until a GPU came to that, and a second free hangs a driver.
  bool const may_be_there = in_order && tame_;
  if (b.made != kind::of_graph && !anything_captures() && one_in(5) && !may_be_there) try_dead(b);
}

void session::free_wrong() {
  block* const found = some_block();
  if (found == nullptr) return;
  block const b = *found;
  CUdeviceptr const inside = b.address + (b.bytes > 1 ? 1 + below(static_cast<unsigned>(b.bytes - 1)) : 0);
  if (inside == b.address) return;
  auto const offset = static_cast<std::size_t>(inside - b.address);
  CUresult code = CUDA_SUCCESS;
  bool whole = false;
  switch (below(tame_ ? 5 : 6)) {  // a driver looks into what it takes for an array
    case 0:
      code = said(cuMemFree(inside), "cuMemFree %s+%zu", b.name.c_str(), offset);
      break;
    case 1:
      code =
          said(cuMemFreeAsync(inside, CU_STREAM_PER_THREAD), "cuMemFreeAsync %s+%zu", b.name.c_str(), offset);
      break;
    case 2:
      code = said(cuMemFreeHost(reinterpret_cast<void*>(inside)), "cuMemFreeHost %s+%zu", b.name.c_str(),
                  offset);
      break;
    case 3:
      whole = true;
      code = said(cuMemFreeHost(reinterpret_cast<void*>(b.address)), "cuMemFreeHost %s", b.name.c_str());
      break;
    case 4:
      whole = true;
      code = said(cuMemFree(b.address), "cuMemFree %s", b.name.c_str());
      break;
    default:
      code = said(cuArrayDestroy(reinterpret_cast<CUarray>(b.address)), "cuArrayDestroy %s", b.name.c_str());
  }
  if (code == CUDA_SUCCESS && whole && (b.made != kind::of_graph || b.graph == nullptr)) drop(found);
}

// Addresses that are nobody's.
void session::misuse() {
  static char of_the_program[64];
  CUdeviceptr const addresses[] = {0, 1, 256, reinterpret_cast<CUdeviceptr>(of_the_program),
                                   0x7fff'ffff'f000};
  static char const* const names[] = {"null", "1", "256", "a variable", "the last page"};
  unsigned const pick = below(5);
  switch (below(5)) {
    case 0:
      return void(said(cuMemFree(addresses[pick]), "cuMemFree %s", names[pick]));
    case 1: {
      queue const on = some_stream();
      return void(said(cuMemFreeAsync(addresses[pick], on.handle), "cuMemFreeAsync %s on %s", names[pick],
                       on.name.c_str()));
    }
    case 2:
      return void(
          said(cuMemFreeHost(reinterpret_cast<void*>(addresses[pick])), "cuMemFreeHost %s", names[pick]));
    case 3: {
      CUdeviceptr base = 0;
      std::size_t bytes = 0;
      return void(
          said(cuMemGetAddressRange(&base, &bytes, addresses[pick]), "cuMemGetAddressRange %s", names[pick]));
    }
    default: {
      CUmemorytype type{};
      return void(said(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addresses[pick]),
                       "cuPointerGetAttribute of %s", names[pick]));
    }
  }
}

// Written and read again on one stream; in a capture it becomes a node.
void session::touch() {
  block* const found = some_block();
  if (found == nullptr || found->bytes > 1 << 20) return;
  queue const on = some_stream();
  if (found->made != kind::managed && found->made != kind::pinned && device_of(on) != found->device) return;
  // Its free waits for no work of another context (measured), which would fault: only where it is waited for
  // here.
  bool const elsewhere = (on.context != nullptr ? on.context : current()) != found->context;
  if (found->made == kind::pinned && elsewhere && anything_captures()) return;
  if (on.context != nullptr && current() != on.context)
    said(cuCtxSetCurrent(on.context), "cuCtxSetCurrent of %s", on.name.c_str());
  auto const value = static_cast<unsigned char>(below(256));
  CUresult code = said(cuMemsetD8Async(found->address, value, found->bytes, on.handle),
                       "cuMemsetD8Async %s, %u, on %s", found->name.c_str(), value, on.name.c_str());
  if (code == CUDA_SUCCESS) touched_in(capture_of(on.handle), *found);
  if (code != CUDA_SUCCESS || anything_captures()) return;
  std::vector<unsigned char> seen(found->bytes);
  code = said(cuMemcpyDtoHAsync(seen.data(), found->address, found->bytes, on.handle), "cuMemcpyDtoHAsync");
  said(cuStreamSynchronize(on.handle), "cuStreamSynchronize %s", on.name.c_str());
  if (code == CUDA_SUCCESS) say("  %u and %u", seen.front(), seen.back());
}

void session::registered() {
  static char memory[1 << 16];
  unsigned const flags = below(4);
  said(cuMemHostRegister(memory, sizeof memory, flags), "cuMemHostRegister, %u", flags);
  if (one_in(2)) said(cuMemHostRegister(memory, sizeof memory, flags), "cuMemHostRegister again");
  said(cuMemFreeHost(memory), "cuMemFreeHost of registered memory");
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (said(cuMemGetAddressRange(&base, &bytes, reinterpret_cast<CUdeviceptr>(memory) + 9),
           "cuMemGetAddressRange") == 0) {
    say("  %zu", bytes);
  }
  said(cuMemHostUnregister(memory), "cuMemHostUnregister");
}

void session::virtual_memory() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, {some_device()}};
  std::size_t const bytes = (1 + below(3)) * (std::size_t{2} << 20);
  CUmemGenericAllocationHandle handle = 0, again = 0;
  CUdeviceptr at = 0;
  if (said(cuMemCreate(&handle, bytes, &properties, 0), "cuMemCreate %zu", bytes) != 0) return;
  said(cuMemAddressReserve(&at, bytes, 0, 0, 0), "cuMemAddressReserve");
  said(cuMemMap(at, bytes, 0, handle, 0), "cuMemMap");
  CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  said(cuMemSetAccess(at, bytes, &access, 1), "cuMemSetAccess");
  said(cuMemFree(at), "cuMemFree of mapped memory");
  said(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at)), "cuMemRetainAllocationHandle");
  if (again != 0) said(cuMemRelease(again), "cuMemRelease");
  if (one_in(2)) said(cuMemRelease(handle), "cuMemRelease early"), handle = 0;
  said(cuMemUnmap(at, bytes), "cuMemUnmap");
  if (handle != 0) said(cuMemRelease(handle), "cuMemRelease");
  said(cuMemAddressFree(at, bytes), "cuMemAddressFree");
  block const* const found = some_block();
  if (found == nullptr) return;
  CUmemGenericAllocationHandle of_block = 0;
  said(cuMemRetainAllocationHandle(&of_block, reinterpret_cast<void*>(found->address)),
       "cuMemRetainAllocationHandle of %s", found->name.c_str());
}

void session::array() {
  CUDA_ARRAY_DESCRIPTOR shape{};
  shape.Width = 1 + below(300);
  shape.Height = below(64);
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1u << below(3);
  CUarray made = nullptr;
  if (said(cuArrayCreate(&made, &shape), "cuArrayCreate %zu x %zu", shape.Width, shape.Height) != 0) return;
  said(cuArrayDestroy(made), "cuArrayDestroy");
}

}  // namespace transcript
