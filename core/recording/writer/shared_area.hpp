// This process's part in the area that it shares with readers: its file, disk space for each part when it is
// first used, rings by thread. Parts are made by any thread, once each; the rest as said in area.hpp. Where
// the file cannot be had, plain memory takes its place: a kill then loses what is not written yet.
#pragma once

#include <array>

#include "core/recording/area.hpp"
#include "core/stats/page/file/page_file.hpp"

namespace gpumem::recording {

class shared_area {
 public:
  // Null: not even addresses for it. `reason`: why it is not in a file, empty where it is.
  area* open(bool monotonic, char const*& reason) noexcept;
  area* get() const noexcept { return area_; }
  char const* path() const noexcept { return file_.path; }

  // The thread's own.
  ring_state& ring(std::size_t number) noexcept {
    if (!ring_made_[number].load(std::memory_order_acquire)) [[unlikely]]
      make_ring(number);
    return area_->rings[number];
  }
  // The same where it is there; else null.
  ring_state* ring_if_made(std::size_t number) noexcept {
    return ring_made_[number].load(std::memory_order_acquire) ? &area_->rings[number] : nullptr;
  }
  // False: no room for it.
  bool make_slot(std::size_t number) noexcept;

  void remove_file() noexcept;
  // In a forked child: the parent's goes on without it.
  void drop() noexcept;

 private:
  void make_ring(std::size_t number) noexcept;
  bool back(void const* part, std::size_t bytes) noexcept;

  area* area_ = nullptr;
  stats::page_file file_;
  std::atomic_flag making_{};
  std::array<std::atomic<bool>, max_rings> ring_made_{};
  std::array<bool, spool_slots> slot_made_{};
};

}  // namespace gpumem::recording
