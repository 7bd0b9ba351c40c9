// See settings.hpp.
#include "core/route/settings.hpp"

#include <algorithm>
#include <new>

#include "core/base/mutant.hpp"
#include "core/driver/managed_memory.hpp"
#include "core/driver/nobodys.hpp"
#include "core/driver/question.hpp"
#include "core/driver/sticky_error.hpp"
#include "core/route/router_state.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::route {
namespace {

constexpr std::uint64_t host_bit = std::uint64_t{1} << 63;
std::uint64_t bit_of(CUdevice device) noexcept {
  return device >= 0 && device < 63 ? std::uint64_t{1} << device : host_bit;
}

}  // namespace

bool settings::is_of(space::block const& b, setting const& known) noexcept {
  if (GPUMEM_MUTANT(settings_outlive_context)) return known.begin == b.begin();
  return b.is(space::altered) && known.begin == b.begin();
}

settings::setting* settings::of(router_state& s, space::handle h) noexcept try {
  space::block& b = s.where.blocks[h];
  auto const [entry, fresh] = set_.try_emplace(h);
  // One that went with its context may have left what the program set on it.
  if (fresh || !is_of(b, entry->second)) {
    entry->second = {};
    entry->second.begin = b.begin();
    entry->second.bytes = b.bytes();
  }
  b.mark(space::altered);
  return &entry->second;
} catch (std::bad_alloc const&) {
  return nullptr;
}

bool settings::wanted_within(router_state& s, std::uint64_t begin, std::uint64_t end) const noexcept {
  return std::any_of(set_.begin(), set_.end(), [&s, begin, end](auto const& entry) {
    setting const& other = entry.second;
    return is_of(s.where.blocks[entry.first], other) && other.sync_memops.value_or(false) &&
           other.begin < end && begin < other.begin + other.bytes;
  });
}

// Each allocation of the driver's that holds a part of the block; of those that others want on none is turned
// off, and none of managed memory, of which it is on from the start (measured). That is told the driver all
// the same: what it says is the program's answer. It needs no context for that (measured), but for its
// blocks.
CUresult settings::tell_driver(router_state& s, space::handle h, bool on) noexcept {
  auto const& real = driver::real;
  space::block const& b = s.where.blocks[h];
  resource::chain_context const& home = resource::owner_of(s.where, h).home();
  bool const managed = home.kind == driver::memory_kind::managed;
  if (real.cuPointerSetAttribute == nullptr || real.cuMemGetAddressRange_v2 == nullptr)
    return CUDA_ERROR_NOT_SUPPORTED;
  for (std::uint64_t at = b.begin(); at < b.end();) {
    CUdeviceptr base = 0;
    std::size_t size = 0;
    CUresult code = CUDA_ERROR_UNKNOWN;
    {
      auto const here = home.epochs.enter();
      code = here.is_there() ? driver::asked(real.cuMemGetAddressRange_v2, &base, &size, at) : here.code();
    }
    // Of a context that a fault has lost no range is told, and nothing there serves again; what is set on a
    // block is set natively (measured: dead_context faulted).
    if (code != CUDA_SUCCESS && !driver::is_sticky(code)) return code;
    if (code != CUDA_SUCCESS) base = at;
    std::uint64_t const end = base + size > at ? base + size : b.end();
    bool const stays = managed || (wanted_within(s, base, end) && !GPUMEM_MUTANT(settings_shared));
    unsigned const value = on || stays ? 1 : 0;
    code = real.cuPointerSetAttribute(&value, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at);
    // Mapped memory cannot have it on (measured: 580.159), so that off is what it is.
    if (code == CUDA_ERROR_NOT_SUPPORTED && value == 0) code = CUDA_SUCCESS;
    if (code != CUDA_SUCCESS) return code;
    at = end;
  }
  return CUDA_SUCCESS;
}

CUresult settings::set_sync_memops(router_state& s, space::handle h, bool on) noexcept {
  base::lock_guard const lock(mutex_);
  setting* const mine = of(s, h);
  if (mine == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  std::optional<bool> const before = mine->sync_memops;
  mine->sync_memops = on;
  CUresult const code = tell_driver(s, h, on);
  if (code != CUDA_SUCCESS) mine->sync_memops = before;
  return code;
}

std::optional<bool> settings::sync_memops(space::handle h) noexcept {
  base::lock_guard const lock(mutex_);
  auto const found = set_.find(h);
  return found != set_.end() ? found->second.sync_memops : std::nullopt;
}

void settings::advised(router_state& s, space::handle h, CUmem_advise what, CUdevice device) noexcept {
  base::lock_guard const lock(mutex_);
  setting* const mine = of(s, h);
  if (mine == nullptr) {
    s.where.blocks[h].mark(space::exported);  // what nobody remembers nobody can undo
    return;
  }
  // Advice that is taken back for a part of a block may still hold for the rest: only a free forgets it.
  if (what == CU_MEM_ADVISE_SET_READ_MOSTLY) mine->read_mostly = true;
  if (what == CU_MEM_ADVISE_SET_PREFERRED_LOCATION) mine->preferred = true;
  if (what == CU_MEM_ADVISE_SET_ACCESSED_BY) mine->accessed_by |= bit_of(device);
}

void settings::prefetched(router_state& s, space::handle h) noexcept {
  base::lock_guard const lock(mutex_);
  if (setting* const mine = of(s, h); mine != nullptr) mine->prefetched = true;
}

bool settings::was_prefetched(space::handle h) noexcept {
  base::lock_guard const lock(mutex_);
  auto const found = set_.find(h);
  return found != set_.end() && found->second.prefetched;
}

bool settings::take_back_advice(resource::chain_context const& home, setting const& was) noexcept {
  bool done = true;
  auto const unset = [&](CUmem_advise what, CUdevice device) {
    CUresult const code = driver::advise(was.begin, was.bytes, what, device);
    done = done && code == CUDA_SUCCESS;
  };
  if (was.read_mostly) unset(CU_MEM_ADVISE_UNSET_READ_MOSTLY, home.device);
  if (was.preferred) unset(CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, home.device);
  for (CUdevice device = 0; device < 63; ++device) {
    if ((was.accessed_by & bit_of(device)) != 0) unset(CU_MEM_ADVISE_UNSET_ACCESSED_BY, device);
  }
  if ((was.accessed_by & host_bit) != 0) unset(CU_MEM_ADVISE_UNSET_ACCESSED_BY, CU_DEVICE_CPU);
  return done;
}

bool settings::undo(router_state& s, space::handle h) noexcept {
  resource::chain_context const& home = resource::owner_of(s.where, h).home();
  base::lock_guard const lock(mutex_);
  s.where.blocks[h].unmark(space::altered);
  auto const found = set_.find(h);
  if (found == set_.end()) return true;
  setting const was = found->second;
  set_.erase(found);
  if (was.begin != s.where.blocks[h].begin() || GPUMEM_MUTANT(settings_stay)) return true;
  stream_order::relaxed_mode relaxed(true);
  auto const here = home.epochs.enter();
  bool done = !was.sync_memops.value_or(false) || tell_driver(s, h, false) == CUDA_SUCCESS;
  if (was.has_advice()) {
    done = take_back_advice(home, was) && done;
    if (auto* const chain = s.known.chain_of(home)) chain->renew(was.begin, was.bytes);
  }
  return done;
}

namespace {

// The live block that holds an address.
space::handle block_around(CUdeviceptr address) noexcept {
  block_range block;
  return find(address, block) ? live_block_at(*present, block.base) : space::none;
}

bool is_managed(space::handle h) noexcept {
  return resource::owner_of(present->where, h).home().kind == driver::memory_kind::managed;
}

}  // namespace

outcome set_sync_memops(CUdeviceptr address, bool on) noexcept {
  space::handle const h = block_around(address);
  return h != space::none ? outcome{present->set.set_sync_memops(*present, h, on)} : pass;
}

std::optional<bool> sync_memops_of(CUdeviceptr address) noexcept {
  space::handle const h = block_around(address);
  if (h == space::none) return std::nullopt;
  bool const set = present->where.blocks[h].is(space::altered);
  std::optional<bool> const known = set ? present->set.sync_memops(h) : std::nullopt;
  return known || is_managed(h) ? known : false;
}

bool leaves_block(CUdeviceptr address, std::uint64_t bytes) noexcept {
  block_range block;
  if (!find(address, block)) return is_idle(address);  // freed: natively nobody's
  return bytes > block.base + block.bytes - address;
}

void block_advised(CUdeviceptr address, CUmem_advise what, CUdevice device) noexcept {
  space::handle const h = block_around(address);
  if (h != space::none) present->set.advised(*present, h, what, device);
}

void block_prefetched(CUdeviceptr address) noexcept {
  space::handle const h = block_around(address);
  if (h != space::none) present->set.prefetched(*present, h);
}

// Of memory that advice has cut into pieces, if only for an owner before, the driver's call for several
// ranges leaves out the last piece: there nothing was prefetched (H200, driver 580.159.04). Its call for one
// range does not, and finds little left to do.
void block_prefetched(CUdeviceptr address, std::uint64_t bytes, CUmemLocation const& to,
                      CUstream stream) noexcept {
  if (block_around(address) == space::none) return;
  block_prefetched(address);
  bool const on_device = to.type == CU_MEM_LOCATION_TYPE_DEVICE;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  if (!on_device && to.type != CU_MEM_LOCATION_TYPE_HOST) return;
  if (driver::asked(driver::real.cuStreamIsCapturing, stream, &status) != CUDA_SUCCESS ||
      status != CU_STREAM_CAPTURE_STATUS_NONE)
    return;
  driver::prefetch(address, bytes, on_device ? to.id : CU_DEVICE_CPU, stream);
}

bool never_prefetched(CUdeviceptr address) noexcept {
  space::handle const h = block_around(address);
  if (h == space::none) return false;
  return !present->where.blocks[h].is(space::altered) || !present->set.was_prefetched(h);
}

// What the driver says of no block: of the stream, or of a capture, before it looks for one (measured,
// 580.159).
static CUresult refusal_to_attach(CUstream stream) noexcept {
  auto const ask = driver::real.cuStreamAttachMemAsync;
  if (ask == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return driver::refusal(ask(stream, driver::nobodys, 0, CU_MEM_ATTACH_GLOBAL));
}

outcome attach(attachment const& wanted) noexcept {
  auto const& real = driver::real;
  block_range block;
  if (!find(wanted.address, block) || !is_managed(live_block_at(*present, block.base))) return pass;
  bool const all = wanted.address == block.base && (wanted.bytes == 0 || wanted.bytes == block.bytes);
  bool const single = wanted.flags == CU_MEM_ATTACH_SINGLE;
  bool const known = single || wanted.flags == CU_MEM_ATTACH_HOST || wanted.flags == CU_MEM_ATTACH_GLOBAL;
  // "It is illegal to attach singly to the NULL stream" (cuda.h); by its other name, CU_STREAM_LEGACY, the
  // driver does it (asked_rules managed_captured, 580.159).
  if (!all || !known || (single && wanted.stream == nullptr)) return {refusal_to_attach(wanted.stream)};
  int at_once = 0;
  resource::chain_context const& home =
      resource::owner_of(present->where, live_block_at(*present, block.base)).home();
  auto const ask = real.cuDeviceGetAttribute;
  if (ask == nullptr ||
      driver::asked(ask, &at_once, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, home.device) !=
          CUDA_SUCCESS ||
      at_once == 0)
    return {CUDA_ERROR_NOT_SUPPORTED};
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  if (real.cuMemGetAddressRange_v2 == nullptr || real.cuStreamAttachMemAsync == nullptr)
    return {CUDA_ERROR_NOT_SUPPORTED};
  {
    auto const here = home.epochs.enter();  // the current one may have ended
    if (!here.is_there() ||
        driver::asked(real.cuMemGetAddressRange_v2, &base, &bytes, block.base) != CUDA_SUCCESS)
      return {CUDA_ERROR_NOT_SUPPORTED};
  }
  // As every segment is attached already: the driver has its say of the stream alone.
  return {real.cuStreamAttachMemAsync(wanted.stream, base, 0, CU_MEM_ATTACH_GLOBAL)};
}

}  // namespace gpumem::route
