// See vmm.hpp.
#include "core/upstream/vmm.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <numeric>

#include "core/base/threads/heap.hpp"
#include "core/base/threads/interleave.hpp"
#include "core/driver/question.hpp"
#include "core/stats/page/state_page.hpp"
#include "core/upstream/call.hpp"
#include "core/upstream/decompression.hpp"
#include "core/upstream/known_refusals.hpp"

namespace gpumem::upstream {

namespace {

bool attribute(CUdevice device, CUdevice_attribute which) noexcept {
  int value = 0;
  return driver::real.cuDeviceGetAttribute != nullptr &&
         driver::asked(driver::real.cuDeviceGetAttribute, &value, which, device) == CUDA_SUCCESS &&
         value != 0;
}

bool driver_can() noexcept {
  auto const& real = driver::real;
  return real.cuMemAddressReserve != nullptr && real.cuMemAddressFree != nullptr &&
         real.cuMemCreate != nullptr && real.cuMemRelease != nullptr && real.cuMemMap != nullptr &&
         real.cuMemUnmap != nullptr && real.cuMemSetAccess != nullptr &&
         real.cuMemGetAllocationGranularity != nullptr;
}

std::uint64_t range_for(int device, std::uint64_t reserve) noexcept {
  std::size_t total = 0;
  if (reserve == 0 && driver::real.cuDeviceTotalMem_v2(&total, device) == CUDA_SUCCESS) reserve = 8 * total;
  // A segment's blocks count 512 B units in 32 bits.
  return std::min(reserve, (std::uint64_t{1} << 41) - (std::uint64_t{1} << 30));
}

std::uint64_t up(std::uint64_t bytes, std::uint64_t page) noexcept {
  return (bytes + page - 1) / page * page;
}

void note_mapped(resource::chain_context const& home, std::uint64_t bytes) noexcept {
  stats::gauge_add(stats::gauges(home.device).reserved, bytes);
  resource::note_change(home.device);
}

void note_unmapped(resource::chain_context const& home, std::uint64_t bytes) noexcept {
  stats::gauge_subtract(stats::gauges(home.device).reserved, bytes);
  resource::note_change(home.device);
}

}  // namespace

vmm::vmm(resource::chain_context const& home, std::size_t node, std::uint64_t reserve)
    : deferred_release_source(home, false), node_(node), range_bytes_(range_for(home.device, reserve)) {
  if (!driver_can() || !attribute(home.device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)) {
    throw driver::allocation_failed(
        CUDA_ERROR_NOT_SUPPORTED, "vmm",
        "the device or its driver has no virtual memory management; use cuda instead");
  }
  wanted_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted_.location.id = home.device;
  // As cuMemAlloc's memory is: network cards may read and write it.
  if (attribute(home.device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED))
    wanted_.allocFlags.gpuDirectRDMACapable = 1;
  if (decompresses(home.device)) wanted_.allocFlags.usage = for_decompression;
  std::size_t page = 0;
  CUresult const code = driver::asked(driver::real.cuMemGetAllocationGranularity, &page, &wanted_,
                                      CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (code != CUDA_SUCCESS) throw driver::allocation_failed(code, "vmm", "no page size");
  page_ = page;
  if (home.peers != nullptr) granted_ = home.peers->load(std::memory_order_acquire);
}

resource::extent vmm::open_range(std::uint64_t bytes) {
  // Untouched entries take no memory.
  std::unique_ptr<physical[], free_entries> pages(
      static_cast<physical*>(base::heap::allocate_zeroed(bytes / page_, sizeof(physical))));
  if (pages == nullptr) {
    throw driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "vmm", "no host memory for its tables",
                                    driver::refused_by::tables);
  }
  CUdeviceptr address = 0;
  call(home_, node_, 0, "vmm",
       [&] { return driver::real.cuMemAddressReserve(&address, bytes, page_, 0, 0); });
  if (!GPUMEM_MUTANT(addresses_go_before_blocks)) resource::wait_for_address_reuse(home_, address, bytes);
  try {
    base::lock_guard lock(mutex_);
    ranges_.push_back({address, bytes, std::move(pages)});
  } catch (std::bad_alloc const&) {
    driver::real.cuMemAddressFree(address, bytes);
    throw driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "vmm", "no host memory for its tables",
                                    driver::refused_by::tables);
  }
  stats::gauge_add(stats::gauges(home_.device).segments, 1);
  return {.address = address, .bytes = bytes, .contextless = true};
}

resource::extent vmm::claim(std::uint64_t bytes) {
  return open_range(up(std::max(bytes, range_bytes_), page_));
}

vmm::physical* vmm::entry(std::uint64_t address) noexcept {
  base::lock_guard lock(mutex_);
  for (range& r : ranges_) {
    if (address - r.base < r.bytes) return &r.pages[(address - r.base) / page_];
  }
  return nullptr;
}

// Whoever looks at all that is mapped, as for a peer, has the mutex, and takes what it finds for a piece.
void vmm::set_entries(physical* from, std::uint64_t bytes, physical first, physical others) noexcept {
  base::lock_guard lock(mutex_);
  *from = first;
  std::fill(from + 1, from + bytes / page_, others);
}

CUmemAccessDesc vmm::for_device(int device, bool may) const noexcept {
  return {{CU_MEM_LOCATION_TYPE_DEVICE, {device}},
          may ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE};
}

// New pages are nobody's until they are given to the device, and to the peers that the program enabled.
CUresult vmm::allow(std::uint64_t address, std::uint64_t bytes) noexcept {
  std::array<CUmemAccessDesc, 65> access{for_device(home_.device, true)};
  std::size_t count = 1;
  base::lock_guard lock(mutex_);
  for (std::uint64_t left = granted_; left != 0; left &= left - 1)
    access[count++] = for_device(std::countr_zero(left), true);
  return driver::asked(driver::real.cuMemSetAccess, address, bytes, access.data(), count);
}

CUresult vmm::add_pieces(std::uint64_t address, std::span<std::uint64_t const> pieces,
                         std::uint64_t& mapped) noexcept {
  auto const& real = driver::real;
  physical* const pages = entry(address);
  CUresult code = CUDA_SUCCESS;
  mapped = 0;
  free_kept_pieces();
  if (!clear_place(address, std::accumulate(pieces.begin(), pieces.end(), std::uint64_t{0})))
    return CUDA_ERROR_UNKNOWN;
  for (std::uint64_t const bytes : pieces) {
    physical made = 0;
    code = real.cuMemCreate(&made, bytes, &wanted_, 0);
    if (code != CUDA_SUCCESS) break;
    code = real.cuMemMap(address + mapped, bytes, 0, made, 0);
    if (code != CUDA_SUCCESS) {
      free_piece(made, bytes);
      break;
    }
    set_entries(pages + mapped / page_, bytes, made, same_piece);
    recording::note_segment(true, home_.device, address + mapped, bytes);
    mapped += bytes;
  }
  if (mapped == 0) return code;
  CUresult const allowed = allow(address, mapped);
  if (allowed == CUDA_SUCCESS) return code;
  if (!take_down(address, mapped)) count_as_taken(mapped);  // until it goes with a later call
  mapped = 0;
  return allowed;
}

std::uint64_t vmm::map(std::uint64_t address, std::span<std::uint64_t const> pieces, std::uint32_t life,
                       CUresult& code) noexcept {
  stats::memory_move const move;
  std::uint64_t mapped = 0;
  stats::node_counters& counters = stats::local().nodes[node_];
  stats::add(counters.requests, 1);
  CUresult const answer = in_context(home_, [&] {
    return went_with_context(home_, life) ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                          : add_pieces(address, pieces, mapped);
  });
  if (answer != CUDA_SUCCESS) {
    code = answer;
    stats::add(counters.failed, 1);
  }
  stats::add(counters.bytes_in, mapped);
  if (mapped != 0) stats::gauge_add(stats::gauges(home_.device).growths, 1);
  note_mapped(home_, mapped);
  return mapped;
}

bool vmm::lacks(std::uint64_t bytes) noexcept {
  return in_context(home_, [bytes] {
           return known_refusals::has_less_than(bytes) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
         }) == CUDA_ERROR_OUT_OF_MEMORY;
}

// Bytes of the piece that begins at this entry, of `most` that may belong to it.
std::uint64_t vmm::piece_at(physical const* first, std::uint64_t most) const noexcept {
  std::uint64_t pages = 1;
  while (pages < most / page_ && first[pages] == same_piece) ++pages;
  return pages * page_;
}

// The recording hears of pieces before they go, as others may map memory there at once.
void vmm::note_pieces(bool taken, std::uint64_t address, std::uint64_t bytes) noexcept {
  if (!recording::is_on()) return;
  physical* const pages = entry(address);
  for (std::uint64_t at = 0, size = 0; at < bytes; at += size) {
    size = piece_at(pages + at / page_, bytes - at);
    recording::note_segment(taken, home_.device, address + at, size);
  }
}

// The driver unmaps what was mapped, as a whole; several neighbours in one call where it lets us. It lets
// nobody in a callback of a stream.
bool vmm::take_down(std::uint64_t address, std::uint64_t bytes) noexcept {
  auto const& real = driver::real;
  physical* const pages = entry(address);
  note_pieces(false, address, bytes);
  CUresult code = real.cuMemUnmap(address, bytes);
  std::uint64_t const first = piece_at(pages, bytes);
  bool const one_by_one = code == CUDA_ERROR_INVALID_VALUE && first != bytes;
  if (one_by_one) code = real.cuMemUnmap(address, first);
  if (code != CUDA_SUCCESS) {
    note_pieces(true, address, bytes);
    return false;
  }
  for (std::uint64_t at = 0, size = 0; at < bytes; at += size) {
    physical* const piece = pages + at / page_;
    size = piece_at(piece, bytes - at);
    bool const stays =
        one_by_one && at != 0 && driver::asked(real.cuMemUnmap, address + at, size) != CUDA_SUCCESS;
    if (stays) {
      note_pieces(true, address + at, size);
      count_as_taken(size);
      continue;
    }
    physical const which = *piece;
    set_entries(piece, size, 0, 0);
    free_piece(which, size);
  }
  return true;
}

// It never left, or came back.
void vmm::count_as_taken(std::uint64_t bytes) noexcept {
  stats::add(stats::local().nodes[node_].bytes_in, bytes);
  note_mapped(home_, bytes);
}

void vmm::free_piece(physical piece, std::uint64_t bytes) noexcept try {
  if (driver::asked(driver::real.cuMemRelease, piece) == CUDA_SUCCESS) return;
  if (GPUMEM_MUTANT(kept_piece_forgotten)) return;
  count_as_taken(bytes);
  base::lock_guard lock(mutex_);
  kept_.push_back({piece, bytes});
  any_kept_.store(true, std::memory_order_release);
} catch (std::bad_alloc const&) {  // lost for good, and counted
}

void vmm::free_kept_pieces() noexcept {
  if (!any_kept_.load(std::memory_order_acquire)) return;
  std::vector<kept_piece> pieces;
  {
    base::lock_guard lock(mutex_);
    pieces.swap(kept_);
    any_kept_.store(false, std::memory_order_relaxed);
  }
  for (kept_piece const& each : pieces) {
    stats::add(stats::local().nodes[node_].bytes_out, each.bytes);
    note_unmapped(home_, each.bytes);
    free_piece(each.piece, each.bytes);
  }
}

std::uint64_t vmm::trim(resource::give_back_scope scope) noexcept {
  free_kept_pieces();
  return deferred_release_source::trim(scope);
}

// A piece may reach beyond the place, where the next entry is another thread's to write.
std::pair<std::uint64_t, std::uint64_t> vmm::first_piece(std::uint64_t address,
                                                         std::uint64_t bytes) noexcept {
  base::lock_guard lock(mutex_);
  for (range const& r : ranges_) {
    if (address - r.base >= r.bytes) continue;
    std::uint64_t at = (address - r.base) / page_;
    std::uint64_t const end = at + bytes / page_, count = r.bytes / page_;
    while (at < end && r.pages[at] == 0) ++at;
    if (at == end) break;
    while (at > 0 && r.pages[at] == same_piece) --at;
    return {r.base + at * page_, piece_at(&r.pages[at], (count - at) * page_)};
  }
  return {};
}

bool vmm::clear_place(std::uint64_t address, std::uint64_t bytes) noexcept {
  bool clear = true;
  for (std::uint64_t const end = address + bytes; address < end;) {
    auto const [at, size] = first_piece(address, end - address);
    if (size == 0) break;
    clear = give_pieces(at, size) && clear;
    address = at + size;
  }
  return clear;
}

// The ledger hears of it before, as the recording does.
bool vmm::give_pieces(std::uint64_t address, std::uint64_t bytes) noexcept {
  note_unmapped(home_, bytes);
  if (!take_down(address, bytes)) {
    note_mapped(home_, bytes);
    return false;
  }
  stats::add(stats::local().nodes[node_].bytes_out, bytes);
  return true;
}

bool vmm::unmap(std::uint64_t address, std::uint64_t bytes, std::uint32_t life) noexcept {
  stats::memory_move const move;
  // As long as the end of a context and the begin of the next one take.
  for (int i = 0; GPUMEM_MUTANT(freed_after_its_context) && i < 20; ++i) base::interleave_surely();
  return in_context(home_, [&] {
           bool const gone = !went_with_context(home_, life) && give_pieces(address, bytes);
           return gone ? CUDA_SUCCESS : CUDA_ERROR_NOT_PERMITTED;
         }) == CUDA_SUCCESS;
}

resource::extent vmm::reserve(resource::allocation_request const& request) {
  release_what_is_done();
  resource::extent const made = open_range(up(request.bytes, page_));
  CUresult code = CUDA_SUCCESS;
  if (map(made.address, {&made.bytes, 1}, resource::extent::any_life, code) == made.bytes) return made;
  lost(made);
  throw driver::allocation_failed(code, "vmm", "the driver refused");
}

void vmm::peers_changed() noexcept {
  if (home_.peers == nullptr) return;
  base::lock_guard lock(mutex_);
  std::uint64_t const now = home_.peers->load(std::memory_order_acquire);
  stream_order::relaxed_mode relaxed(true);
  for (std::uint64_t left = now ^ granted_; left != 0; left &= left - 1) {
    int const device = std::countr_zero(left);
    CUmemAccessDesc const access = for_device(device, (now >> device & 1) != 0);
    for (range const& r : ranges_) {
      std::uint64_t const count = r.bytes / page_;
      for (std::uint64_t at = 0; at < count; ++at) {
        if (r.pages[at] == 0 || r.pages[at] == same_piece) continue;
        std::uint64_t const bytes = piece_at(&r.pages[at], (count - at) * page_);
        driver::asked(driver::real.cuMemSetAccess, r.base + at * page_, bytes, &access, 1);
      }
    }
  }
  granted_ = now;
}

// Needs no context: memory of cuMemCreate belongs to the process.
void vmm::lost(resource::extent const& memory) noexcept {
  give_away(memory, true);
}

// What the driver does not unmap now stays mapped, and reserved; a second call goes on with that.
bool vmm::give_away(resource::extent const& memory, bool) noexcept {
  stats::memory_move const move;
  physical* const pages = entry(memory.address);
  std::uint64_t const count = memory.bytes / page_;
  bool all = true;
  for (std::uint64_t first = 0; first < count;) {
    if (pages[first] == 0) {
      ++first;
      continue;
    }
    std::uint64_t last = first;
    while (last < count && pages[last] != 0) ++last;
    all = give_pieces(memory.address + first * page_, (last - first) * page_) && all;
    first = last;
  }
  if (!all) return false;
  drop_range(memory.address);
  stats::gauge_subtract(stats::gauges(home_.device).segments, 1);
  return true;
}

void vmm::drop_range(std::uint64_t base) noexcept {
  base::lock_guard lock(mutex_);
  auto const found =
      std::find_if(ranges_.begin(), ranges_.end(), [&](range const& r) { return r.base == base; });
  if (found == ranges_.end()) return;
  driver::real.cuMemAddressFree(found->base, found->bytes);
  *found = std::move(ranges_.back());
  ranges_.pop_back();
}

}  // namespace gpumem::upstream
