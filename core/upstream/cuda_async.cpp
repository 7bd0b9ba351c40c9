// See cuda_async.hpp.
#include "core/upstream/cuda_async.hpp"

#include <array>
#include <atomic>
#include <optional>
#include <utility>

#include "core/driver/managed_memory.hpp"
#include "core/driver/question.hpp"
#include "core/upstream/call.hpp"
#include "core/upstream/decompression.hpp"
#include "core/upstream/known_refusals.hpp"

namespace gpumem::upstream {

namespace {

// Of all contexts that are gone. Never destroyed: the process may end at any time.
struct leftover {
  space::segment* segment;
  int device;
  std::size_t node;  // that took it
  resource::lies where;
};
struct leftovers {
  base::mutex mutex;
  std::vector<leftover> segments GPUMEM_GUARDED_BY(mutex);
};
leftovers& left_behind() noexcept {
  static leftovers& all = *new leftovers;
  return all;
}

// By device; those beyond share the last.
std::array<std::atomic<std::uint64_t>, stats::max_devices> taken_from_default{};

bool has(CUdevice device, CUdevice_attribute what) noexcept {
  int value = 0;
  auto const ask = driver::real.cuDeviceGetAttribute;
  return ask != nullptr && driver::asked(ask, &value, what, device) == CUDA_SUCCESS && value != 0;
}

}  // namespace

// Said when the chain is built, before anything is served: the requests then go to the driver.
cuda_async::cuda_async(resource::chain_context const& home, std::size_t node, options const& o)
    : home_(home), node_(node), options_(o), waiting_(home) {
  if (!options_.managed) return;
  auto const refuse = [this](char const* why) {
    throw driver::allocation_failed(CUDA_ERROR_NOT_SUPPORTED, name(), why);
  };
  if (driver::real.cuMemGetDefaultMemPool == nullptr || driver::real.cuMemAllocFromPoolAsync == nullptr)
    refuse(
        "the driver has no managed memory pools (CUDA 13.0 or newer does); use a pool over managed instead");
  stream_order::relaxed_mode relaxed(true);
  if (!has(home.device, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) ||
      !has(home.device, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) || find_pool() != CUDA_SUCCESS)
    refuse("the device has no managed memory pool; use a pool over managed instead");
}

CUresult cuda_async::find_pool() noexcept {
  note_driver_keeps_memory();
  auto const& real = driver::real;
  CUmemLocation here{CU_MEM_LOCATION_TYPE_DEVICE, {home_.device}};
  CUmemoryPool found = nullptr;
  auto const keep = [&](CUresult code) {
    if (code == CUDA_SUCCESS) pool_ = found;
    return code;
  };
  if (options_.managed)
    return keep(driver::asked(real.cuMemGetDefaultMemPool, &found, &here, CU_MEM_ALLOCATION_TYPE_MANAGED));
  if (!options_.own_pool) return keep(driver::asked(real.cuDeviceGetDefaultMemPool, &found, home_.device));
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = here;
  if (decompresses(home_.device)) properties.usage = for_decompression;
  return keep(real.cuMemPoolCreate(&found, &properties));
}

std::uint64_t cuda_async::in_default_pool(int device) noexcept {
  return taken_from_default[stats::device_slot(device)].load(std::memory_order_relaxed);
}

void cuda_async::count(std::uint64_t bytes, bool taken) const noexcept {
  if (options_.own_pool || options_.managed) return;
  auto& sum = taken_from_default[home_.device_slot];
  sum.fetch_add(taken ? bytes : ~bytes + 1, std::memory_order_relaxed);
}

void cuda_async::open() {
  auto const& real = driver::real;
  base::lock_guard lock(mutex_);
  if (stream_ != nullptr) return;
  free_left_behind();
  if (real.cuMemAllocFromPoolAsync == nullptr || real.cuMemPoolCreate == nullptr ||
      real.cuStreamCreate == nullptr) {
    throw driver::allocation_failed(CUDA_ERROR_NOT_SUPPORTED, name(), "needs driver 11.2 or newer");
  }
  stream_order::relaxed_mode relaxed(true);
  auto const here = home_.epochs.enter(stream_order::context_visits::if_ending::wait);
  CUresult code = here.is_there() ? find_pool() : here.code();
  if (code != CUDA_SUCCESS) throw driver::allocation_failed(code, name(), "no memory pool");
  cuuint64_t threshold = options_.release_threshold;
  real.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold);
  CUstream stream = nullptr;
  code = real.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (code != CUDA_SUCCESS) throw driver::allocation_failed(code, name(), "no stream");
  stream_ = stream;
  grant_access();
  if (options_.initial_pool_size == 0) return;
  CUdeviceptr address = 0;  // the driver's pool has no initial size: take and give back once
  std::uint64_t const bytes = options_.initial_pool_size;
  if (real.cuMemAllocFromPoolAsync(&address, bytes, pool_, stream_) != CUDA_SUCCESS ||
      real.cuMemFreeAsync(address, stream_) == CUDA_SUCCESS)
    return;
  resource::note_reserved(home_, address, bytes, where());  // it goes with a later call
  stats::add(stats::local().nodes[node_].bytes_in, bytes);
  count(bytes, true);
  free_or_keep({.address = address, .bytes = bytes, .contextless = true}, nullptr);
}

// Enabling peer access covers what cuMemAlloc made, but no pool; a program that asked for cudaMalloc relies
// on it all the same. What the default pool has been given may be the program's own doing: it is not taken
// back. Managed memory is open to all.
void cuda_async::grant_access() noexcept {
  if (options_.managed) return;
  std::uint64_t const wanted = home_.peers != nullptr ? home_.peers->load(std::memory_order_acquire) : 0;
  if (driver::real.cuMemPoolSetAccess == nullptr) return;
  for (int device = 0; device < 64; ++device) {
    std::uint64_t const bit = std::uint64_t{1} << device;
    bool const give = (wanted & ~granted_ & bit) != 0;
    bool const take = options_.own_pool && (granted_ & ~wanted & bit) != 0;
    if (!give && !take) continue;
    CUmemAccessDesc access{};
    access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
    access.flags = give ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (driver::asked(driver::real.cuMemPoolSetAccess, pool_.load(), &access, 1) == CUDA_SUCCESS)
      granted_ ^= bit;
  }
}

// A call that a capture forbids (measured, 580.159), for one of the program's that may be none.
void cuda_async::peers_changed() noexcept {
  base::lock_guard lock(mutex_);
  stream_order::relaxed_mode const relaxed(true);
  if (stream_ != nullptr && pool_ != nullptr) grant_access();  // otherwise open() does
}

void cuda_async::allocate(CUdeviceptr* address, std::uint64_t bytes,
                          resource::allocation_request const& request) {
  call(home_, node_, bytes, name(), [&] {
    CUmemoryPool const pool = pool_;
    CUstream const own = stream_;
    if (pool == nullptr || own == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    bool const ordered = request.slot != stream_order::no_slot;
    return driver::real.cuMemAllocFromPoolAsync(address, bytes, pool, ordered ? request.stream : own);
  });
}

resource::extent cuda_async::reserve(resource::allocation_request const& request) {
  open();
  free_what_waits();
  stats::memory_move const move;
  CUdeviceptr address = 0;
  bool const ordered = request.slot != stream_order::no_slot;
  // Whole pages of managed memory: advice for a block must not reach its neighbour.
  std::uint64_t const step = options_.managed ? driver::managed_page : 1;
  std::uint64_t const bytes = (request.bytes + step - 1) / step * step;
  allocate(&address, bytes, request);
  resource::extent const memory{.address = address, .bytes = bytes, .contextless = true};
  resource::wait_for_address_reuse(home_, address, bytes);
  resource::note_reserved(home_, address, bytes, where());
  count(bytes, true);
  if (!ordered) wait_until_anyone_may_use(memory);
  return memory;
}

// Without a stream of the program's, the memory must be usable at once.
void cuda_async::wait_until_anyone_may_use(resource::extent const& memory) {
  CUresult const code = in_context(home_, [this] {
    CUstream const own = stream_;
    return own != nullptr ? driver::asked(driver::real.cuStreamSynchronize, own)
                          : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  });
  if (code == CUDA_SUCCESS) return;
  free_or_keep(memory, stream_);
  throw driver::allocation_failed(code, name(), "the driver does not wait for it");
}

bool cuda_async::order_after_all(bool may_wait) noexcept {
  stream_order::epoch_id const now = home_.epochs.open();
  CUstream const own = stream_;
  if (own == nullptr) return false;  // it went with the context
  if (home_.epochs.wait_on_device(own, now)) return true;
  // Work of another context is waited for by nobody: it may wait for this thread.
  return may_wait && !home_.epochs.awaits_others() && home_.epochs.wait(now);
}

// Should the list find no memory, the block is lost: better than one that serves others too early.
void cuda_async::free_or_keep(resource::extent const& memory, CUstream order) noexcept {
  waiting_.release(
      memory, [&](auto const& m) { return order != nullptr && give_away(m, order); },
      [this](auto const& m) { lost(m); });
}

void cuda_async::free_what_waits(bool may_wait) noexcept {
  if (home_.epochs.capturing()) return;
  std::optional<bool> ordered;  // after all that is in the list, so not before it was taken from there
  waiting_.retry(
      [&](auto const& m) {
        if (!ordered) ordered = order_after_all(may_wait);
        return *ordered && give_away(m, stream_);
      },
      [this](auto const& m) { lost(m); });
}

bool cuda_async::give_away(resource::extent const& memory, CUstream order) noexcept {
  stats::memory_move const move;
  segment_leaving leaving(home_.device, node_, memory, where());
  CUresult const code = in_context(home_, [&] { return driver::real.cuMemFreeAsync(memory.address, order); });
  if (code != CUDA_SUCCESS) return false;
  leaving.gone();
  count(memory.bytes, false);
  return true;
}

void cuda_async::release(resource::extent const& memory, resource::release_order const& order) noexcept {
  // Nobody said which stream used it last: the free comes after everything, on the device if that can be had.
  // While a stream captures it cannot; then the free waits, for nothing else keeps the driver from handing
  // the memory out.
  free_what_waits(order.may_wait);
  bool const all_before = order.stream == nullptr && (memory.done || order_after_all(order.may_wait));
  free_or_keep(memory, all_before ? stream_.load() : order.stream);
}

// Memory of the driver's pools outlives a reset or destroyed context (measured: driver 580, explicit and
// default pool), but cannot be freed while its device has no context: it waits, as a segment of nobody, so
// that a free of an old address is refused, for the next context that uses this upstream. Until then it is
// reserved.
void cuda_async::lost(resource::extent const& memory) noexcept {
  stats::memory_move const move;
  count(memory.bytes, false);
  stream_order::relaxed_mode relaxed(true);
  segment_leaving leaving(home_.device, node_, memory, where());
  if (driver::real.cuMemFree_v2(memory.address) != CUDA_SUCCESS) return leave_behind(memory);
  leaving.gone();
}

void cuda_async::leave_behind(resource::extent const& memory) noexcept try {
  leftovers& left = left_behind();
  base::lock_guard lock(left.mutex);
  left.segments.reserve(left.segments.size() + 1);
  space::segment* const nobodys = home_.where.segments.add(memory.address, memory.bytes, nullptr);
  if (nobodys != nullptr) left.segments.push_back({nobodys, home_.device, node_, where()});
} catch (std::bad_alloc const&) {
}

void cuda_async::free_left_behind() noexcept {
  leftovers& left = left_behind();
  base::lock_guard lock(left.mutex);
  stream_order::relaxed_mode relaxed(true);
  std::erase_if(left.segments, [this](leftover& each) {
    stats::memory_move const move;
    // Removed before it is freed: from then on the address may be somebody else's.
    std::uint64_t const base = each.segment->base;
    std::uint64_t const bytes = each.segment->bytes;
    home_.where.segments.remove(each.segment);
    segment_leaving leaving(each.device, each.node, {.address = base, .bytes = bytes}, each.where);
    if (driver::real.cuMemFree_v2(base) == CUDA_SUCCESS) {
      leaving.gone();
      return true;
    }
    each.segment = home_.where.segments.add(base, bytes, nullptr);
    return each.segment == nullptr;
  });
}

// One that is destroyed with memory in it, in use or freed behind work, crashes the driver at a later such
// call in processes whose contexts come and go (580.159, tests/gpu/pools_that_end.cu). It stays, and keeps
// nothing of what is freed later.
void cuda_async::end_pool() noexcept {
  auto const& real = driver::real;
  if (real.cuMemPoolTrimTo != nullptr) real.cuMemPoolTrimTo(pool_, 0);
  cuuint64_t held = 1, none = 0;
  bool const known =
      real.cuMemPoolGetAttribute != nullptr &&
      real.cuMemPoolGetAttribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &held) == CUDA_SUCCESS;
  if (known && held == 0) {
    real.cuMemPoolDestroy(pool_);
  } else {
    real.cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &none);
  }
}

void cuda_async::forget() noexcept {
  base::lock_guard lock(mutex_);
  stream_order::relaxed_mode relaxed(true);
  waiting_.forget([this](auto const& m) { lost(m); });
  if (options_.own_pool && pool_ != nullptr) end_pool();
  pool_ = nullptr;
  stream_ = nullptr;  // it went with the context
  granted_ = 0;
}

void cuda_async::begin_again() noexcept {
  base::lock_guard lock(mutex_);
  waiting_.begin_again();  // pool and stream are made at the first use
}

std::uint64_t cuda_async::trim(resource::give_back_scope scope) noexcept {
  free_what_waits(scope == resource::give_back_scope::all);
  if (home_.epochs.capturing()) return 0;
  in_context(home_, [&] {
    CUmemoryPool const pool = pool_;
    CUstream const own = stream_;
    if (pool == nullptr || own == nullptr) return CUDA_SUCCESS;
    // Frees that the host has not seen complete count as in use, so wait for them before trimming: those of
    // memory that was done take some microseconds.
    constexpr std::uint64_t most_ns = 1'000'000;
    std::uint64_t const begun = base::now_ns();
    while (driver::real.cuStreamQuery(own) == CUDA_ERROR_NOT_READY && base::now_ns() - begun < most_ns) {
    }
    if (scope == resource::give_back_scope::all) driver::real.cuStreamSynchronize(own);
    return driver::real.cuMemPoolTrimTo(pool, 0);
  });
  return 0;
}

}  // namespace gpumem::upstream
