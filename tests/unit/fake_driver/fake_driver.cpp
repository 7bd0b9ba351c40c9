// See fake_driver.hpp.
#include "tests/unit/fake_driver/fake_driver.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace gpumem::tests {

namespace {

thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

fake_driver& fake() {
  return fake_driver::instance();
}

CUresult get_current(CUcontext* context) {
  if (CUresult const code = fake().enter("cuCtxGetCurrent"); code != CUDA_SUCCESS) return code;
  *context = current_contexts.empty() ? nullptr : current_contexts.back();
  return CUDA_SUCCESS;
}
CUresult push_current(CUcontext context) {
  if (CUresult const code = fake().enter("cuCtxPushCurrent_v2"); code != CUDA_SUCCESS) return code;
  current_contexts.push_back(context);
  return CUDA_SUCCESS;
}
CUresult pop_current(CUcontext* context) {
  if (CUresult const code = fake().enter("cuCtxPopCurrent_v2"); code != CUDA_SUCCESS) return code;
  if (current_contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = current_contexts.back();
  current_contexts.pop_back();
  return CUDA_SUCCESS;
}
CUresult get_device(CUdevice* device) {
  if (CUresult const code = fake().enter("cuCtxGetDevice"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  auto const found = fake().devices.find(current_contexts.empty() ? first_context : current_contexts.back());
  if (found == fake().devices.end()) return CUDA_ERROR_INVALID_CONTEXT;
  *device = found->second;
  return CUDA_SUCCESS;
}
CUresult context_id(CUcontext asked, unsigned long long* id) {
  if (CUresult const code = fake().enter("cuCtxGetId"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  auto const found = fake().context_ids.find(asked);
  *id = found != fake().context_ids.end() ? found->second : reinterpret_cast<std::uintptr_t>(asked);
  return *id != 0 ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}
CUresult exchange_mode(CUstreamCaptureMode* wanted) {
  if (CUresult const code = fake().enter("cuThreadExchangeStreamCaptureMode"); code != CUDA_SUCCESS)
    return code;
  std::swap(mode, *wanted);
  return CUDA_SUCCESS;
}
CUresult alloc(CUdeviceptr* address, size_t bytes) {
  CUresult const code = fake().unsafe("cuMemAlloc_v2");
  return code != CUDA_SUCCESS ? code : fake().allocate(address, bytes);
}
CUresult alloc_managed(CUdeviceptr* address, size_t bytes, unsigned) {
  CUresult const code = fake().unsafe("cuMemAllocManaged");
  return code != CUDA_SUCCESS ? code : fake().allocate(address, bytes);
}
CUresult alloc_host(void** address, size_t bytes, unsigned) {
  CUresult const code = fake().unsafe("cuMemHostAlloc");
  return code != CUDA_SUCCESS ? code : fake().allocate(reinterpret_cast<CUdeviceptr*>(address), bytes);
}
CUresult free_device(CUdeviceptr address) {
  fake().free_begins();
  CUresult const code = fake().unsafe("cuMemFree_v2");
  return code != CUDA_SUCCESS ? code : fake().release(address);
}
CUresult free_host(void* address) {
  CUresult const code = fake().unsafe("cuMemFreeHost");
  return code != CUDA_SUCCESS ? code : fake().release(reinterpret_cast<CUdeviceptr>(address));
}
CUresult memory_info(size_t* free_bytes, size_t* total) {
  if (CUresult const code = fake().enter("cuMemGetInfo_v2"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  *total = fake().capacity;
  *free_bytes = fake().capacity - fake().in_use;
  return CUDA_SUCCESS;
}
CUresult pool_create(CUmemoryPool* pool, CUmemPoolProps const*) {
  if (CUresult const code = fake().unsafe("cuMemPoolCreate"); code != CUDA_SUCCESS) return code;
  *pool = reinterpret_cast<CUmemoryPool>(0x77);
  return CUDA_SUCCESS;
}
CUresult pool_destroy(CUmemoryPool) {
  return fake().enter("cuMemPoolDestroy");
}
CUresult default_pool(CUmemoryPool* pool, CUdevice device) {
  if (CUresult const code = fake().enter("cuDeviceGetDefaultMemPool"); code != CUDA_SUCCESS) return code;
  if (device > 1) return CUDA_ERROR_INVALID_DEVICE;
  *pool = reinterpret_cast<CUmemoryPool>(0x78 + static_cast<std::uintptr_t>(device));
  return CUDA_SUCCESS;
}
CUresult managed_pool(CUmemoryPool* pool, CUmemLocation* where, CUmemAllocationType) {
  if (CUresult const code = fake().enter("cuMemGetDefaultMemPool"); code != CUDA_SUCCESS) return code;
  *pool = reinterpret_cast<CUmemoryPool>(0x80 + static_cast<std::uintptr_t>(where->id));
  return CUDA_SUCCESS;
}
CUresult pool_access(CUmemoryPool, CUmemAccessDesc const* access, size_t count) {
  CUresult const code = fake().unsafe("cuMemPoolSetAccess");  // measured (nvidia-h100-simulated_answers.md)
  std::lock_guard lock(fake().mutex);
  for (size_t i = 0; code == CUDA_SUCCESS && i < count; ++i) {
    if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      fake().granted.insert(access[i].location.id);
    } else {
      fake().granted.erase(access[i].location.id);
    }
  }
  return code;
}
CUresult pool_attribute(CUmemoryPool, CUmemPool_attribute, void*) {
  return fake().unsafe("cuMemPoolSetAttribute");  // measured, as the one before
}
CUresult pool_figure(CUmemoryPool, CUmemPool_attribute which, void* value) {
  if (CUresult const code = fake().enter("cuMemPoolGetAttribute"); code != CUDA_SUCCESS) return code;
  if (which != CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<cuuint64_t*>(value) = fake().used();
  return CUDA_SUCCESS;
}
CUresult pool_trim(CUmemoryPool, size_t) {
  return fake().enter("cuMemPoolTrimTo");
}
CUresult alloc_from_pool(CUdeviceptr* address, size_t bytes, CUmemoryPool, CUstream) {
  CUresult const code = fake().enter("cuMemAllocFromPoolAsync");
  return code != CUDA_SUCCESS ? code : fake().allocate(address, bytes);
}
CUresult free_async(CUdeviceptr address, CUstream) {
  CUresult const code = fake().enter("cuMemFreeAsync");
  return code != CUDA_SUCCESS ? code : fake().release(address);
}
CUresult event_create(CUevent* event, unsigned) {
  if (CUresult const code = fake().enter("cuEventCreate"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  *event = reinterpret_cast<CUevent>(++fake().next_handle);
  fake().events[*event] = true;
  return CUDA_SUCCESS;
}
CUresult event_destroy(CUevent event) {
  fake().enter("cuEventDestroy_v2");
  std::lock_guard lock(fake().mutex);
  return fake().events.erase(event) == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult record_context(CUcontext, CUevent event) {
  return fake().record(event);
}
CUresult record_event(CUevent event, CUstream) {
  return fake().record_on_stream(event);
}
CUresult event_query(CUevent event) {
  return fake().query(event);
}
CUresult context_synchronize() {
  return fake().synchronize();
}
CUresult stream_create(CUstream* made, unsigned) {
  if (CUresult const code = fake().unsafe("cuStreamCreate"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  *made = reinterpret_cast<CUstream>(++fake().next_handle << 20);
  return CUDA_SUCCESS;
}
CUresult stream_wait(CUstream waits, CUevent event, unsigned) {
  if (CUresult const code = fake().enter("cuStreamWaitEvent"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  fake().waits.emplace_back(waits, event);
  return CUDA_SUCCESS;
}
CUresult stream_query(CUstream stream) {
  if (CUresult const code = fake().unsafe("cuStreamQuery"); code != CUDA_SUCCESS) return code;
  return fake().has_work(stream) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult stream_flags(CUstream stream, unsigned* flags) {
  *flags = fake().blocking_streams.contains(stream) ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;
  return CUDA_SUCCESS;
}
CUresult stream_synchronize(CUstream) {
  CUresult const code = fake().unsafe("cuStreamSynchronize");
  if (code == CUDA_SUCCESS) fake().finish_all();
  return code;
}
CUresult event_synchronize(CUevent event) {
  CUresult const code = fake().unsafe("cuEventSynchronize");
  fake().wait_begins();
  if (code == CUDA_SUCCESS) fake().finish(event);
  return code;
}
CUresult stream_capturing(CUstream asked, CUstreamCaptureStatus* status) {
  if (CUresult const code = fake().enter("cuStreamIsCapturing"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  *status =
      fake().capturing.contains(asked) ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
CUresult stream_id(CUstream asked, unsigned long long* id) {
  if (CUresult const code = fake().enter("cuStreamGetId"); code != CUDA_SUCCESS) return code;
  std::lock_guard lock(fake().mutex);
  auto& known = fake().stream_ids[asked];
  if (known == 0) known = ++fake().next_handle;
  *id = known;
  return CUDA_SUCCESS;
}
CUresult memset_async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream on) {
  // Work on the legacy stream is drawn into a capture of any blocking stream.
  CUresult const code =
      on == CU_STREAM_LEGACY ? fake().unsafe("cuMemsetD8Async") : fake().enter("cuMemsetD8Async");
  if (code == CUDA_SUCCESS) std::memset(reinterpret_cast<void*>(to), value, bytes);
  return code;
}
CUresult copy_to_host(void* to, CUdeviceptr from, size_t bytes, CUstream) {
  CUresult const code = fake().unsafe("cuMemcpyDtoHAsync_v2");
  if (code == CUDA_SUCCESS) std::memcpy(to, reinterpret_cast<void const*>(from), bytes);
  return code;
}
CUresult device_name(char* name, int length, CUdevice) {
  std::strncpy(name, "fake device", static_cast<std::size_t>(length));
  return fake().enter("cuDeviceGetName");
}
CUresult device_uuid(CUuuid* uuid, CUdevice) {
  std::memset(uuid, 7, sizeof *uuid);
  return fake().enter("cuDeviceGetUuid");
}
CUresult device_total(size_t* bytes, CUdevice) {
  *bytes = fake().capacity;
  return fake().enter("cuDeviceTotalMem_v2");
}

}  // namespace

fake_driver& fake_driver::instance() {
  static auto* const only = new fake_driver;
  return *only;
}

void fake_driver::reset() {
  std::lock_guard lock(mutex);
  memory_.merge(ended_);
  for (auto const& [address, bytes] : memory_) munmap(reinterpret_cast<void*>(address), bytes);
  memory_.clear();
  devices = {{first_context, 0}};
  context_ids.clear();
  stream_ids.clear();
  capturing.clear();
  idle_streams.clear();
  blocking_streams.clear();
  waits.clear();
  granted.clear();
  events.clear();
  recorded_.clear();
  of_streams_.clear();
  calls_.clear();
  failures_.clear();
  at_call_ = nullptr;
  at_record_ = at_query_ = at_wait_ = at_free_ = nullptr;
  capacity = 8ull << 30;
  in_use = 0;
  manual_ = hurt_ = false;
  driver::table& real = driver::real;
  real = {};
  real.cuCtxGetCurrent = get_current;
  real.cuCtxPushCurrent_v2 = push_current;
  real.cuCtxPopCurrent_v2 = pop_current;
  real.cuCtxGetDevice = get_device;
  real.cuCtxGetId = context_id;
  real.cuThreadExchangeStreamCaptureMode = exchange_mode;
  real.cuMemAlloc_v2 = alloc;
  real.cuMemAllocManaged = alloc_managed;
  real.cuMemHostAlloc = alloc_host;
  real.cuMemFree_v2 = free_device;
  real.cuMemFreeHost = free_host;
  real.cuMemGetInfo_v2 = memory_info;
  real.cuMemPoolCreate = pool_create;
  real.cuMemPoolDestroy = pool_destroy;
  real.cuDeviceGetDefaultMemPool = default_pool;
  real.cuMemGetDefaultMemPool = managed_pool;
  real.cuMemPoolSetAttribute = pool_attribute;
  real.cuMemPoolTrimTo = pool_trim;
  real.cuMemPoolGetAttribute = pool_figure;
  real.cuMemPoolSetAccess = pool_access;
  real.cuMemAllocFromPoolAsync = alloc_from_pool;
  real.cuMemFreeAsync = free_async;
  real.cuEventCreate = event_create;
  real.cuEventDestroy_v2 = event_destroy;
  real.cuEventQuery = event_query;
  real.cuEventSynchronize = event_synchronize;
  real.cuCtxRecordEvent = record_context;
  real.cuEventRecord = record_event;
  real.cuCtxSynchronize = context_synchronize;
  real.cuStreamCreate = stream_create;
  real.cuStreamWaitEvent = stream_wait;
  real.cuStreamSynchronize = stream_synchronize;
  real.cuStreamQuery = stream_query;
  real.cuStreamGetFlags = stream_flags;
  real.cuStreamIsCapturing = stream_capturing;
  real.cuStreamGetId = stream_id;
  real.cuMemsetD8Async = memset_async;
  real.cuMemcpyDtoHAsync_v2 = copy_to_host;
  real.cuDeviceGetName = device_name;
  real.cuDeviceGetUuid = device_uuid;
  real.cuDeviceTotalMem_v2 = device_total;
  install_pages();
}

void fake_driver::manual_events(bool manual) {
  std::lock_guard lock(mutex);
  manual_ = manual;
}

void fake_driver::set_capacity(std::uint64_t bytes) {
  std::lock_guard lock(mutex);
  capacity = bytes;
}

void fake_driver::fail(std::string const& name, CUresult code, int times) {
  std::lock_guard lock(mutex);
  failures_[name] = {code, times};
}

void fake_driver::set_context(CUcontext context, int device) {
  std::lock_guard lock(mutex);
  devices[context] = device;
}

void fake_driver::end_context(CUcontext context, bool again) {
  std::lock_guard lock(mutex);
  context_ids[context] = again ? ++next_handle : 0;
  ended_.insert(memory_.begin(), memory_.end());
  memory_.clear();
  in_use = 0;
}

void fake_driver::capture(CUstream origin) {
  std::lock_guard lock(mutex);
  capturing.insert(origin);
}

void fake_driver::end_capture(CUstream origin) {
  std::lock_guard lock(mutex);
  capturing.erase(origin);
}

void fake_driver::new_stream(CUstream handle) {
  std::lock_guard lock(mutex);
  stream_ids[handle] = ++next_handle;
}

void fake_driver::at_call(std::function<void(char const*)> hook) {
  std::lock_guard lock(mutex);
  at_call_ = std::move(hook);
}

void fake_driver::at_record(std::function<void()> hook) {
  std::lock_guard lock(mutex);
  at_record_ = std::move(hook);
}

void fake_driver::at_query(std::function<void()> hook) {
  std::lock_guard lock(mutex);
  at_query_ = std::move(hook);
}

void fake_driver::at_wait(std::function<void()> hook) {
  std::lock_guard lock(mutex);
  at_wait_ = std::move(hook);
}

void fake_driver::at_free(std::function<void()> hook) {
  std::lock_guard lock(mutex);
  at_free_ = std::move(hook);
}

void fake_driver::run(std::function<void()> const& its_hook) {
  std::function<void()> hook;
  {
    std::lock_guard lock(mutex);
    hook = its_hook;
  }
  if (hook) hook();
}

int fake_driver::calls(std::string const& name) {
  std::lock_guard lock(mutex);
  return calls_[name];
}

int fake_driver::frees() {
  return calls("cuMemFree_v2") + calls("cuMemFreeAsync");
}

int fake_driver::calls_in_all() {
  std::lock_guard lock(mutex);
  int sum = 0;
  for (auto const& [name, count] : calls_) sum += count;
  return sum;
}

bool fake_driver::capture_hurt() {
  std::lock_guard lock(mutex);
  return hurt_;
}

std::uint64_t fake_driver::used() {
  std::lock_guard lock(mutex);
  return in_use;
}

std::size_t fake_driver::allocations() {
  std::lock_guard lock(mutex);
  return memory_.size();
}

std::vector<std::pair<CUstream, CUevent>> fake_driver::stream_waits() {
  std::lock_guard lock(mutex);
  return waits;
}

std::set<int> fake_driver::pool_users() {
  std::lock_guard lock(mutex);
  return granted;
}

CUresult fake_driver::enter(char const* name) {
  std::unique_lock lock(mutex);
  if (at_call_) {
    std::function<void(char const*)> const hook = at_call_;
    lock.unlock();
    hook(name);
    lock.lock();
  }
  ++calls_[name];
  auto const found = failures_.find(name);
  if (found == failures_.end() || found->second.times == 0) return CUDA_SUCCESS;
  --found->second.times;
  return found->second.code;
}

CUresult fake_driver::unsafe(char const* name) {
  CUresult const code = enter(name);
  std::lock_guard lock(mutex);
  if (capturing.empty() || mode == CU_STREAM_CAPTURE_MODE_RELAXED) return code;
  hurt_ = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult fake_driver::allocate(CUdeviceptr* address, std::uint64_t bytes) {
  std::lock_guard lock(mutex);
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > capacity || in_use > capacity - bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  memory_[*address] = bytes;
  in_use += bytes;
  return CUDA_SUCCESS;
}

CUresult fake_driver::release(CUdeviceptr address) {
  std::lock_guard lock(mutex);
  auto const found = memory_.find(address);
  if (found == memory_.end()) return CUDA_ERROR_INVALID_VALUE;
  in_use -= found->second;
  munmap(reinterpret_cast<void*>(address), found->second);
  memory_.erase(found);
  return CUDA_SUCCESS;
}

// What a capture hurts is looked at where the call enters the driver: one that begins while it waits is no
// matter (measured).
CUresult fake_driver::synchronize() {
  CUresult const code = enter("cuCtxSynchronize");
  {
    std::lock_guard lock(mutex);
    if (!capturing.empty()) {
      hurt_ = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  wait_begins();
  if (code == CUDA_SUCCESS) finish_all();
  return code;
}

}  // namespace gpumem::tests
