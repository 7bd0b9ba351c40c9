// Legacy IPC of memory. The 64 bytes: 4-7 exporter's pid, 8-15 driver block in the device's memory file,
// 16-23 size, 24-27 the file's descriptor in the exporter, 28-31 offset in the driver block, 32-39 size of
// the driver block, 40-43 device, 44-47 descriptor of a file that is there as long as the memory, 48-55 what
// it holds; the rest is zero and not looked at, as bytes 56-63 are by the real driver.
// Any thread; the importer opens the exporter's memory file through /proc.
// Size and offset are taken as written in the handle, which is how a piece of a driver block is shared.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <tuple>

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
  std::int32_t token_file;
  std::uint64_t token;
};
static_assert(offsetof(wire, bytes) == 16 && offsetof(wire, offset) == 28 && sizeof(wire) <= 64);
constexpr std::uint32_t magic = 0x53494d55;

// Open imports of this process: which piece of which file, at which address.
struct import {
  wire from;
  context* owner = nullptr;
  int opened = 1;  // times; each is to be closed (measured: asked_rules ipc)
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

int open_of(std::int32_t process, std::int32_t descriptor) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", process, descriptor);
  return open(path, O_RDWR | O_CLOEXEC);
}

// The descriptor may be another file's by now, which holds something else.
bool is_there(wire const& from) {
  int const file = open_of(from.process, from.token_file);
  std::uint64_t found = 0;
  bool const same = file >= 0 && pread(file, &found, sizeof found, 0) == sizeof found && found == from.token;
  if (file >= 0) close(file);
  return same;
}

// By one thread after another, with the machine locked.
void unmap(machine& m, std::uint64_t address, import const& gone) {
  m.checker_.forget(address, gone.from.bytes);
  m.memory_.erase(address);
  munmap(reinterpret_cast<void*>(gone.mapped), gone.from.block_bytes);
}

}  // namespace

// Measured: asked_rules ipc_ended.
void simulated::forget_imports(machine& m, context* owner) {
  std::erase_if(imports(), [&](auto const& each) {
    if (each.second.owner != owner) return false;
    m.run_all();
    unmap(m, each.first, each.second);
    return true;
  });
}

SIMULATED_API cuIpcGetMemHandle(CUipcMemHandle* out, CUdeviceptr address) {
  SIMULATED_CALL(after_init);
  SIMULATED_TRY(machine::under_ended());
  context* here_now = this_thread().current();
  block const* const found = m.memory_.find(address);
  // Page-locked memory is refused before it is said that there is no context (measured), plain and ordered is
  // not.
  if (here_now == nullptr && found != nullptr && found->kind == block_kind::host)
    return CUDA_ERROR_INVALID_VALUE;
  SIMULATED_TRY(m.current(here_now));
  SIMULATED_TRY(machine::fault_of(here_now));
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
  std::tie(made.token_file, made.token) = m.memory_.share(found->segment);
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
  if (!is_there(from)) return CUDA_ERROR_INVALID_VALUE;  // measured: asked_rules ipc_freed
  for (auto& [address, each] : imports()) {
    if (!overlaps(each.from, from)) continue;
    if (each.from.offset != from.offset || each.from.bytes != from.bytes) return CUDA_ERROR_ALREADY_MAPPED;
    if (each.owner != here->home()) return CUDA_ERROR_INVALID_HANDLE;  // measured: asked_rules ipc_ended
    ++each.opened;
    *out = address;
    return CUDA_SUCCESS;
  }
  int const file = open_of(from.process, from.file);
  if (file < 0) return CUDA_ERROR_INVALID_VALUE;
  void* const memory = mmap(nullptr, from.block_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                            file, static_cast<off_t>(from.position));
  close(file);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  block made;
  made.kind = block_kind::imported;
  made.base = reinterpret_cast<std::uint64_t>(memory) + from.offset;
  made.bytes = made.span = from.bytes;
  made.owner = here->home();
  made.device = here->device;
  m.memory_.insert(made);
  imports()[made.base] = {from, made.owner, 1, reinterpret_cast<std::uint64_t>(memory)};
  *out = made.base;
  return CUDA_SUCCESS;
}

SIMULATED_API cuIpcCloseMemHandle(CUdeviceptr address) {
  SIMULATED_CALL(with_context);
  auto const found = imports().find(address);
  if (found == imports().end()) return CUDA_ERROR_INVALID_VALUE;
  if (--found->second.opened != 0) return CUDA_SUCCESS;
  import const gone = found->second;
  imports().erase(found);
  m.host_wait(m.all_work(*here));
  m.run_all();
  unmap(m, address, gone);
  return CUDA_SUCCESS;
}
