// How every upstream calls the driver: in relaxed capture mode, with the chain's context current, counted;
// a failure is thrown with the driver's own code.
#pragma once

#include "core/base/text/bytes.hpp"
#include "core/base/threads/uncancelled.hpp"
#include "core/driver/error.hpp"
#include "core/recording/writer/record.hpp"
#include "core/resource/resource.hpp"
#include "core/resource/source.hpp"
#include "core/stats/page/in_use.hpp"
#include "core/stream_order/relaxed_mode.hpp"

namespace gpumem::upstream {

template <typename Call>
void call(resource::chain_context const& home, std::size_t node, std::uint64_t bytes, char const* who,
          Call make) {
  base::uncancelled const held;
  stats::node_counters& counters = stats::local().nodes[node];
  stats::add(counters.requests, 1);
  CUresult code;
  {
    stream_order::relaxed_mode relaxed(true);
    stream_order::scoped_context here(home.context);
    code = make();
  }
  if (code != CUDA_SUCCESS) {
    stats::add(counters.failed, 1);
    char text[80];
    std::snprintf(text, sizeof text, "the driver refused %s",
                  bytes == 0 ? "addresses" : base::print_bytes(bytes).view().data());
    throw driver::allocation_failed(code, who, text);
  }
  stats::add(counters.bytes_in, bytes);
}

template <typename Call>
void give(resource::chain_context const& home, Call make) noexcept {
  base::uncancelled const held;
  stream_order::relaxed_mode relaxed(true);
  stream_order::scoped_context here(home.context);
  make();
}

// Around the call that gives memory back: the recording hears of it before, as another thread may get the
// address at once. Not gone() where the driver refused: then it is there again.
class segment_leaving {
 public:
  segment_leaving(int device, resource::extent const& memory) noexcept : device_(device), memory_(memory) {
    recording::note_segment(false, device_, memory_.address, memory_.bytes);
  }
  ~segment_leaving() {
    if (!gone_) recording::note_segment(true, device_, memory_.address, memory_.bytes);
  }
  segment_leaving(segment_leaving const&) = delete;
  void gone() noexcept { gone_ = true; }

 private:
  int const device_;
  resource::extent const memory_;
  bool gone_ = false;
};

// The memory is no longer this process's, or went with its context.
inline void note_gone(resource::chain_context const& home, std::size_t node, resource::extent const& memory,
                      resource::lies where = resource::lies::on_device) noexcept {
  stats::add(stats::local().nodes[node].bytes_out, memory.bytes);
  resource::note_released(home, memory.bytes, where);
}

}  // namespace gpumem::upstream
