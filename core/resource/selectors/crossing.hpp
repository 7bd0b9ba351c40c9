// `crossing`: one resource below several others (the rest of a binning, and the adaptors among its bins).
// Each of them asks through a door of its own, which leaves its number with the block: a free is then told
// only to those whom the block came through. Made by the builder where a bin needs it. No lock; a request
// and a free cost one look-up in a table.
#pragma once

#include <vector>

#include "core/driver/error.hpp"
#include "core/resource/resource.hpp"
#include "core/space/blocks/side_table.hpp"

namespace gpumem::resource {

class crossing final : public resource {
 public:
  // What one of those above stands on.
  class door final : public resource {
   public:
    door(chain_context const& home, crossing& of, std::uint32_t number) noexcept
        : resource(home, 0), of_(of), number_(number) {}
    space::handle allocate(allocation_request const& request) override { return of_.pass(request, number_); }

   private:
    crossing& of_;
    std::uint32_t const number_;
  };

  crossing(chain_context const& home, resource& below) noexcept : resource(home, 0), below_(below) {
    forks_ = true;
    below_.set_parent(*this);
  }

  // Before the first request; the chain owns the door.
  std::unique_ptr<door> make_door() {
    auto made = std::make_unique<door>(home_, *this, static_cast<std::uint32_t>(doors_.size()));
    doors_.push_back(made.get());
    return made;
  }

  // Not asked itself: who stands here came by a door.
  space::handle allocate(allocation_request const& request) override { return pass(request, 0); }

 private:
  resource* way_up(space::handle h) const noexcept override {
    std::uint32_t const* const number = came_by_.find(h);
    return doors_[number != nullptr ? *number : 0]->parent();
  }

  // A block from below, marked with the number of the door that asked.
  space::handle pass(allocation_request const& request, std::uint32_t number) {
    std::uint32_t const life = home_.epochs.life();
    space::handle const h = below_.allocate(request);
    if (std::uint32_t* const mark = came_by_.make(h); mark != nullptr) {
      *mark = number;
    } else if (number != 0) {
      give_back_unseen(home_, h, request, life, this);
      throw driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "binning", "no host memory for its tables",
                                      driver::refused_by::tables);
    }
    return h;
  }

  resource& below_;
  std::vector<door*> doors_;
  mutable space::side_table<std::uint32_t> came_by_;  // by block
};

}  // namespace gpumem::resource
