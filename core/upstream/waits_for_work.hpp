// What upstreams share whose memory goes at once when it is given back (pages, system memory): the driver
// does not wait for the work that uses it, so this does. While a stream captures that cannot be had, and the
// memory waits for a later call. A derived class says in lost() how memory goes. Called on slow paths, from
// any thread.
#pragma once

#include <mutex>
#include <vector>

#include "core/resource/resource.hpp"
#include "core/resource/source.hpp"

namespace gpumem::upstream {

class waits_for_work : public resource::source {
 public:
  void release(resource::extent const& memory, CUstream order) noexcept override;
  void forget() noexcept override;
  std::uint64_t trim() noexcept override { return release_what_waits(); }

 protected:
  explicit waits_for_work(resource::habitat const& home) noexcept : home_(home) {}
  std::uint64_t release_what_waits() noexcept;

  resource::habitat const& home_;

 private:
  void keep(resource::extent const& memory) noexcept;

  std::mutex waiting_mutex_;
  std::vector<resource::extent> waiting_;  // given back while a capture ran
};

}  // namespace gpumem::upstream
