// Legacy IPC of memory. The 64 bytes: 4-7 exporter's pid, 8-15 driver block in the device's memory file,
// 16-23 size, 24-27 the file's descriptor in the exporter, 28-31 offset in the driver block, 32-39 size of
// the driver block, 40-43 device; the rest is zero and not looked at, as bytes 56-63 are by the real driver.
// Any thread; the importer opens the exporter's memory file through /proc.
// Size and offset are taken as written in the handle, which is how a piece of a driver block is shared.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "entry.hpp"

using namespace simulated;

namespace {

struct wire {
  std::uint32_t magic;
  std::int32_t process;
  std::uint64_t position;
  std::uint64_t bytes;
  std::int32_t file;
  std::uint32_t offset;
  std::uint64_t block_bytes;
  std::int32_t device;
};
static_assert(offsetof(wire, bytes) == 16 && offsetof(wire, offset) == 28 && sizeof(wire) <= 64);
constexpr std::uint32_t magic = 0x53494d55;

// Open imports of this process: which piece of which file, at which address.
struct import {
  wire from;
  std::uint64_t mapped = 0;
};
std::map<std::uint64_t, import>& imports() {
  static auto* const one = new std::map<std::uint64_t, import>;
  return *one;
}

bool overlaps(wire const& a, wire const& b) {
  return a.process == b.process && a.file == b.file && a.position == b.position &&
         a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

}  // namespace

SIMULATED_API cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  SIMULATED_CALL(with_context);
  block const* const found = m.memory_.find(address);
  if (out == nullptr || found == nullptr || found->kind != block_kind::device)
    return CUDA_ERROR_INVALID_VALUE;
  space& device = m.memory_.of(found->device);
  wire made = {};
  made.magic = magic;
  made.process = getpid();
  made.position = device.export_from(found->segment);
  made.bytes = found->bytes;
  made.file = device.file();
  made.offset = static_cast<std::uint32_t>(found->base - found->segment);
  made.block_bytes = found->segment_bytes;
  made.device = found->device;
  std::memset(out, 0, sizeof *out);
  std::memcpy(out->reserved, &made, sizeof made);
  return CUDA_SUCCESS;
}

SIMULATED_API cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle, unsigned flags) {
  SIMULATED_CALL(with_context);
  wire from;
  std::memcpy(&from, handle.reserved, sizeof from);
  if (out == nullptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || from.magic != magic) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (from.process == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  if (from.bytes == 0 || from.offset > from.block_bytes || from.bytes > from.block_bytes - from.offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (auto const& [address, each] : imports()) {
    if (overlaps(each.from, from)) return CUDA_ERROR_ALREADY_MAPPED;
  }
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", from.process, from.file);
  int const file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  void* const memory = mmap(nullptr, from.block_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                            file, static_cast<off_t>(from.position));
  close(file);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  block made;
  made.kind = block_kind::imported;
  made.base = reinterpret_cast<std::uint64_t>(memory) + from.offset;
  made.bytes = made.span = from.bytes;
  made.owner = here;
  made.device = here->device;
  m.memory_.insert(made);
  imports()[made.base] = {from, reinterpret_cast<std::uint64_t>(memory)};
  *out = made.base;
  return CUDA_SUCCESS;
}

SIMULATED_API cuIpcCloseMemHandle(CUdeviceptr address) {
  SIMULATED_CALL(with_context);
  auto const gone = imports().extract(address);
  if (gone.empty()) return CUDA_ERROR_INVALID_VALUE;
  m.host_wait(m.all_work(*here));
  m.run_all();
  m.checker_.forget(address, gone.mapped().from.bytes);
  m.memory_.erase(address);
  munmap(reinterpret_cast<void*>(gone.mapped().mapped), gone.mapped().from.block_bytes);
  return CUDA_SUCCESS;
}
