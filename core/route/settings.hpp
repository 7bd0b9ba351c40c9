// What the program has set on blocks: SYNC_MEMOPS, advice, prefetches. Natively that ends with the
// allocation; here the memory serves others afterwards, so it is undone when the block is freed, and each
// block answers for itself meanwhile. Such a block is marked `altered`; no other block comes here. Any
// thread, under a lock of its own, also around its driver calls, so that one block cannot undo what another
// one just set.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "core/base/threads/mutex.hpp"
#include "core/route/router.hpp"
#include "core/space/blocks/block.hpp"

namespace gpumem::resource {
struct chain_context;
}

namespace gpumem::route {

struct router_state;

class settings {
 public:
  // SYNC_MEMOPS is a property of the driver's allocation, which holds other blocks as well: it is on while
  // one of them wants it. A copy of the others waits a little longer then, and gets the same answer.
  CUresult set_sync_memops(router_state& s, space::handle h, bool on) noexcept;
  // As the program set it; nothing: it did not.
  std::optional<bool> sync_memops(space::handle h) noexcept;

  // After the driver took the advice, or the prefetch. `device`: CU_DEVICE_CPU for the host.
  void advised(router_state& s, space::handle h, CUmem_advise what, CUdevice device) noexcept;
  void prefetched(router_state& s, space::handle h) noexcept;
  bool was_prefetched(space::handle h) noexcept;

  // The block was freed, and nobody has it yet. False: its memory cannot serve others.
  bool undo(router_state& s, space::handle h) noexcept;

 private:
  // What the program has set on one block.
  struct setting {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
    std::optional<bool> sync_memops;
    bool prefetched = false;
    bool read_mostly = false;
    bool preferred = false;
    std::uint64_t accessed_by = 0;  // bit d: device d; the last: the host, and what has no bit

    bool has_advice() const noexcept { return read_mostly || preferred || accessed_by != 0; }
  };

  // That block's, and not one's that had its handle before.
  static bool is_of(space::block const& b, setting const& known) noexcept;
  // Null: no host memory.
  setting* of(router_state& s, space::handle h) noexcept GPUMEM_REQUIRES(mutex_);
  // A block that shares bytes with these addresses wants SYNC_MEMOPS on.
  bool wanted_within(router_state& s, std::uint64_t begin, std::uint64_t end) const noexcept
      GPUMEM_REQUIRES(mutex_);
  // Sets SYNC_MEMOPS of each driver allocation that holds a part of the block, with regard to other blocks.
  CUresult tell_driver(router_state& s, space::handle h, bool on) noexcept GPUMEM_REQUIRES(mutex_);
  // Takes the program's advice off the block's memory; false: the driver refused.
  static bool take_back_advice(resource::chain_context const& home, setting const& was) noexcept;

  base::mutex mutex_;
  std::unordered_map<space::handle, setting> set_ GPUMEM_GUARDED_BY(mutex_);
};

// What the hooks ask, of any address. Pass, false, nothing: it lies in no live block of ours.
outcome set_sync_memops(CUdeviceptr address, bool on) noexcept;
std::optional<bool> sync_memops_of(CUdeviceptr address) noexcept;
// The range begins in a block and ends beyond it: natively no range of one allocation.
bool leaves_block(CUdeviceptr address, std::uint64_t bytes) noexcept;
// After the driver took the advice or the prefetch for memory of a block.
void block_advised(CUdeviceptr address, CUmem_advise what, CUdevice device) noexcept;
void block_prefetched(CUdeviceptr address) noexcept;
// The same after one of several ranges that the driver took in one call, on this stream.
void block_prefetched(CUdeviceptr address, std::uint64_t bytes, CUmemLocation const& to,
                      CUstream stream) noexcept;
bool never_prefetched(CUdeviceptr address) noexcept;
// cuStreamAttachMemAsync of a block, which natively is one of the whole allocation: where host and devices
// may use managed memory at once it changes nothing that a program could see, and is only checked.
struct attachment {
  CUdeviceptr address = 0;
  std::uint64_t bytes = 0;
  unsigned flags = 0;
  CUstream stream = nullptr;
};
outcome attach(attachment const& wanted) noexcept;

}  // namespace gpumem::route
