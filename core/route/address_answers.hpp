// What the driver says of an address inside a block of ours, without asking it: its answers about device
// memory are the same for all of a segment, but for the address itself. Each is learnt from the driver's own,
// once for each segment and attribute, and only where it is what it should be. Called by the hooks of
// questions on any thread; whatever is not known here is the driver's to answer.
#pragma once

#include <cuda.h>

#include <span>

#include "core/route/router.hpp"
#include "core/space/segment.hpp"

namespace gpumem::route {

class address_answers {
 public:
  // `current`: the thread's context; null: nothing is known.
  address_answers(CUdeviceptr address, CUcontext current) noexcept;

  // There is a block around the address, and the driver would not refuse the question.
  bool is_known() const noexcept { return segment_ != nullptr; }
  block_range const& block() const noexcept { return block_; }
  // Writes what the driver would, had the program the block of it: memory of a pool is in no context. False:
  // not all of it is known, and nothing was written.
  bool tell(std::span<CUpointer_attribute const> attributes, void* const* values) const noexcept;
  // The driver has answered so, with success.
  void learn(std::span<CUpointer_attribute const> attributes, void* const* values) const noexcept;

 private:
  CUdeviceptr const address_;
  block_range block_;
  space::handle handle_ = space::none;
  CUcontext context_ = nullptr;
  int device_ = 0;
  space::segment* segment_ = nullptr;
};

}  // namespace gpumem::route
