// The upstream `vmm`: ranges of addresses into which pieces of whole 2 MiB pages are mapped where the
// resource above wants them, so that a pool over it grows and shrinks in place. The resource chooses size
// and place; here are the driver calls and the list of what is mapped. Called on slow paths from any
// thread. Its memory belongs to no context, and the driver refuses to export it by legacy IPC. Unmap only
// what no work uses: the driver does not wait.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/threads/heap.hpp"
#include "core/base/threads/mutex.hpp"
#include "core/upstream/deferred_release_source.hpp"

namespace gpumem::upstream {

class vmm final : public deferred_release_source, public resource::page_source {
 public:
  // `reserve`: addresses of one range; 0: eight times the device's memory, so that holes that are too small
  // for what is asked never use them up. Throws driver::allocation_failed where the device or driver has no
  // virtual memory management.
  vmm(resource::chain_context const& home, std::size_t node, std::uint64_t reserve);

  // As a source of whole extents: each has a range of its own.
  resource::extent reserve(resource::allocation_request const& request) override;
  void lost(resource::extent const& memory) noexcept override;
  void peers_changed() noexcept override;
  std::uint64_t trim(resource::give_back_scope scope) noexcept override;

  page_source* pages() noexcept override { return this; }
  std::uint64_t page() const noexcept override { return page_; }
  resource::extent claim(std::uint64_t bytes) override;
  std::uint64_t map(std::uint64_t address, std::span<std::uint64_t const> pieces, std::uint32_t life,
                    CUresult& code) noexcept override;
  bool unmap(std::uint64_t address, std::uint64_t bytes, std::uint32_t life) noexcept override;
  bool lacks(std::uint64_t bytes) noexcept override;

 private:
  using physical = CUmemGenericAllocationHandle;  // one piece
  static constexpr physical same_piece = ~physical{0};
  // The tables come from calloc, so that untouched parts take no memory.
  struct free_entries {
    void operator()(physical* p) const noexcept { base::heap::release(p); }
  };
  struct kept_piece {
    physical piece;
    std::uint64_t bytes;
  };
  // For each page the handle of the piece that begins there, `same_piece` behind it, 0 where none is mapped.
  // An entry is written only by who owns its addresses, under the mutex: others look at all of them.
  struct range {
    std::uint64_t base;
    std::uint64_t bytes;
    std::unique_ptr<physical[], free_entries> pages;
  };

  // Reserves addresses. Throws driver::allocation_failed.
  resource::extent open_range(std::uint64_t bytes);
  // The table entry of the page at this address.
  physical* entry(std::uint64_t address) noexcept;
  // Of a piece of so many bytes: its first page, and the others.
  void set_entries(physical* from, std::uint64_t bytes, physical first, physical others) noexcept;
  // Where the first piece lies that has a page here, and its bytes; 0: there is none.
  std::pair<std::uint64_t, std::uint64_t> first_piece(std::uint64_t address, std::uint64_t bytes) noexcept;
  bool give_away(resource::extent const& memory, bool may_wait) noexcept override;
  // Gives the addresses of a range back to the driver. Nothing may be mapped in them.
  void drop_range(std::uint64_t base) noexcept;
  // Makes and maps pieces one behind the other, as many as the driver has; `mapped`: their bytes.
  CUresult add_pieces(std::uint64_t address, std::span<std::uint64_t const> pieces,
                      std::uint64_t& mapped) noexcept;
  // Bytes of the piece that begins at this entry.
  std::uint64_t piece_at(physical const* first, std::uint64_t most) const noexcept;
  void note_pieces(bool taken, std::uint64_t address, std::uint64_t bytes) noexcept;
  // Unmaps these pieces, and frees their memory; false: none of them, the driver refuses now. One that it
  // refuses behind others stays in its entry, and in the ledger.
  bool take_down(std::uint64_t address, std::uint64_t bytes) noexcept;
  // Takes them down and out of the ledger.
  bool give_pieces(std::uint64_t address, std::uint64_t bytes) noexcept;
  // The same of what stayed from an earlier time, where pieces are to be mapped; false: some still does.
  bool clear_place(std::uint64_t address, std::uint64_t bytes) noexcept;
  // Memory of a piece that nothing is mapped to. Where the driver refuses it is kept, and counted, until it
  // goes with a later call.
  void free_piece(physical piece, std::uint64_t bytes) noexcept;
  void free_kept_pieces() noexcept;
  void count_as_taken(std::uint64_t bytes) noexcept;
  // Gives the chain's device, and its peers, access to what was just mapped.
  CUresult allow(std::uint64_t address, std::uint64_t bytes) noexcept;
  CUmemAccessDesc for_device(int device, bool may) const noexcept;

  std::size_t const node_;
  std::uint64_t page_ = 0;
  std::uint64_t const range_bytes_;
  CUmemAllocationProp wanted_{};
  base::mutex mutex_;
  std::vector<range> ranges_ GPUMEM_GUARDED_BY(mutex_);  // few: one for each resource that asked
  std::uint64_t granted_ GPUMEM_GUARDED_BY(mutex_) = 0;  // peers that have access to what is mapped, by bit
  std::vector<kept_piece> kept_ GPUMEM_GUARDED_BY(mutex_);
  std::atomic<bool> any_kept_{false};
};

}  // namespace gpumem::upstream
