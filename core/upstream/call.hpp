// How every upstream calls the driver: in relaxed capture mode, with the chain's context current, counted;
// a failure is thrown with the driver's own code.
#pragma once

#include "core/base/mutant.hpp"
#include "core/base/text/bytes.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/driver/error.hpp"
#include "core/driver/question.hpp"
#include "core/recording/writer/record.hpp"
#include "core/resource/in_hand.hpp"
#include "core/resource/resource.hpp"
#include "core/resource/source.hpp"
#include "core/stats/page/in_use.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::upstream {

// The driver's code. Not asked where the context has ended, or its name is another one's by now: the memory
// went with it. Calls that may end it are waited for: most of them do not.
template <typename Call>
CUresult in_context(resource::chain_context const& home, Call make) noexcept {
  base::uncancelled const held;
  stream_order::relaxed_mode relaxed(true);
  auto const here = home.epochs.enter(stream_order::context_visits::if_ending::wait);
  return here.is_there() ? make() : here.code();
}

// Whoever gives memory back may find its context ended meanwhile, and the next one of the device in its
// place.
inline bool went_with_context(resource::chain_context const& home, std::uint32_t life) noexcept {
  return life != resource::extent::any_life && home.epochs.ended_since(life) &&
         !GPUMEM_MUTANT(freed_after_its_context);
}

template <typename Call>
void call(resource::chain_context const& home, std::size_t node, std::uint64_t bytes, char const* who,
          Call make) {
  base::uncancelled const held;
  stats::node_counters& counters = stats::local().nodes[node];
  stats::add(counters.requests, 1);
  CUresult const code = in_context(home, make);
  if (code != CUDA_SUCCESS) {
    stats::add(counters.failed, 1);
    char text[80];
    std::snprintf(text, sizeof text, "the driver refused %s",
                  bytes == 0 ? "addresses" : base::print_bytes(bytes).view().data());
    throw driver::allocation_failed(code, who, text);
  }
  stats::add(counters.bytes_in, bytes);
}

// New memory that goes with the context, which is entered still.
inline void take_in(resource::chain_context const& home, resource::allocation_request const& request,
                    std::uint32_t life, CUdeviceptr address) noexcept {
  if (request.hand != nullptr) request.hand->take_in(home.epochs, life, address, request.bytes);
}

// Memory of cuMemAlloc and its like, by `allocate`, which notes its address: asked for again where a free
// that was under way has given it back to the driver.
template <typename Allocate>
void allocate_surely(resource::chain_context const& home, std::size_t node, char const* who,
                     CUdeviceptr const& address, resource::allocation_request const& request,
                     Allocate allocate) {
  for (int i = 0; i < 3; ++i) {
    allocate();
    if (resource::wait_for_address_reuse(home, address, request.bytes, request.hand)) return;
    CUdeviceptr begin = 0;
    std::size_t bytes = 0;
    CUresult const code = in_context(
        home, [&] { return driver::asked(driver::real.cuMemGetAddressRange_v2, &begin, &bytes, address); });
    if (code != CUDA_ERROR_INVALID_VALUE && code != CUDA_ERROR_NOT_FOUND) return;
    stats::add(stats::local().nodes[node].bytes_out, request.bytes);
    if (request.hand != nullptr) request.hand->let_go();
  }
  throw driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, who, "frees under way took it");
}

// Around the call that gives memory back. Recording and ledger hear of it before, as another thread may get
// the memory at once: it is never counted for both. Without gone(), where the driver refused, it is there
// again.
class segment_leaving {
 public:
  segment_leaving(int device, std::size_t node, resource::extent const& memory,
                  resource::lies where = resource::lies::on_device) noexcept
      : device_(device), node_(node), memory_(memory), where_(where) {
    recording::note_segment(false, device_, memory_.address, memory_.bytes);
    resource::note_released(device_, memory_.bytes, where_);
  }
  ~segment_leaving() {
    if (gone_) return;
    recording::note_segment(true, device_, memory_.address, memory_.bytes);
    resource::note_kept(device_, memory_.bytes, where_);
  }
  segment_leaving(segment_leaving const&) = delete;
  // It is no longer this process's, or went with its context.
  void gone() noexcept {
    gone_ = true;
    stats::add(stats::local().nodes[node_].bytes_out, memory_.bytes);
  }

 private:
  int const device_;
  std::size_t const node_;
  resource::extent const memory_;
  resource::lies const where_;
  bool gone_ = false;
};

// Gives memory back that goes with its context, by `free`, which is called in it and says the driver's code.
// False: it was refused, and the memory is there still, or its context was ending: whoever is given its
// addresses then waits until this thread has let go of it (resource/in_hand).
template <typename Free>
bool give_back(resource::chain_context const& home, std::size_t node, resource::extent const& memory,
               resource::lies where, Free free) noexcept {
  stats::memory_move const move;
  segment_leaving leaving(home.device, node, memory, where);
  CUresult const code =
      in_context(home, [&] { return went_with_context(home, memory.life) ? CUDA_SUCCESS : free(); });
  if (code != CUDA_SUCCESS) return false;
  leaving.gone();
  return true;
}

}  // namespace gpumem::upstream
