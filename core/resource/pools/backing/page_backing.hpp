// Memory of a suballocator by pages, over a source that maps them where one wants them (source::pages). New
// memory goes where it closes a gap: into the hole that fits best together with its idle neighbours, else
// behind the last page. It comes in few pieces of many pages (the driver takes as long for 2 MiB as for
// 256 MiB), all inside that one block, so that its free makes them idle whole. At the maximum, when memory is
// short, or when the driver has no more, idle pieces from anywhere go back for new ones here. Called as
// backing.hpp says; what driver calls work on is live and hidden meanwhile.
#pragma once

#include <span>

#include "core/resource/pools/backing/backing.hpp"

namespace gpumem::resource {

class page_backing final : public backing {
 public:
  // `pages`: of pool.upstream.
  page_backing(backed_pool const& pool, page_source& pages) noexcept : backing(pool), pages_(pages) {}

  void prepare(pool_lock& held) override;
  // Always with the block: the place is made for it.
  space::handle grow(pool_lock& held, growth_request const& wanted) override;
  std::uint64_t release_empty(pool_lock& held, std::uint64_t keep_idle, bool may_wait) noexcept override;
  bool waits_for_gpu() const noexcept override { return false; }
  bool has_due(due_memory const& due) noexcept override { return due_bytes(due) > 0; }
  bool release_due(pool_lock& held, due_memory const& due, going_back& age) noexcept override;

 private:
  // Whole pages of what stayed idle, less what is to be kept.
  std::uint64_t due_bytes(due_memory const& due) const noexcept;
  space::handle grow_in_pieces(pool_lock& held, growth_request const& wanted, std::uint64_t largest_piece);
  // Throws where the context has ended that had this life.
  void expect_context(std::uint32_t life) const;
  // Finds the place, claiming a new range of addresses when there is none. False: no host memory.
  bool open_place(pool_lock& held, std::uint32_t needed, std::uint32_t wished, bool whole,
                  space::region::opening& place);
  // Maps what the place needs, and what it is larger while the maximum allows; bytes that are mapped from its
  // begin, which are then in `growing_`, and the code if that is not all.
  std::uint64_t fill_place(pool_lock& held, space::region::opening const& place, std::uint64_t largest_piece,
                           CUresult& code);
  // Bytes that may still be reserved below the maximum, in whole pages.
  std::uint64_t left() const noexcept;
  // Gives idle pieces back until `bytes` fit below the maximum; false: they do not.
  bool make_room(pool_lock& held, std::uint64_t bytes);
  // The device has less than so many bytes more, with all that is idle here.
  bool is_lacking(pool_lock& held, std::uint64_t needed);
  // Gives back idle pieces that lie together, of `wanted` bytes at most or one that is larger; their bytes.
  std::uint64_t release_next(pool_lock& held, std::uint64_t wanted) noexcept;
  // Gives back idle pieces of `wanted` bytes or a little more, where there are so many; bytes given back.
  std::uint64_t release_pieces(pool_lock& held, std::uint64_t wanted) noexcept;

  page_source& pages_;
};

}  // namespace gpumem::resource
