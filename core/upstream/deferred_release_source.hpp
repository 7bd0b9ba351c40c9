// Base of upstreams whose memory must not go back while work uses it. Memory freed without a stream goes
// back at once: the driver waits for its work (cuMemFree), or this does (pages, system memory), except
// while a stream captures. Memory freed in stream order waits for nobody: it is kept until its work is
// done, and goes with a later call, at the latest when the program synchronises. Meanwhile it is pending in
// the ledger, and a segment of `leaving`, so that a second free is refused. Slow paths, any thread.
#pragma once

#include <atomic>
#include <list>
#include <vector>

#include "core/base/threads/mutex.hpp"
#include "core/resource/in_hand.hpp"
#include "core/resource/resource.hpp"
#include "core/resource/source.hpp"
#include "core/upstream/leaving.hpp"

namespace gpumem::upstream {

class deferred_release_source : public resource::source {
 public:
  void release(resource::extent const& memory, resource::release_order const& order) noexcept override;
  void forget() noexcept override;
  void begin_again() noexcept override;
  std::uint64_t trim(resource::give_back_scope scope) noexcept override;
  void synchronized() noexcept override { release_done(false, false); }
  std::uint64_t pending() noexcept override;

 protected:
  // `driver_waits`: give_away() of memory that is in use waits for its work.
  deferred_release_source(resource::chain_context const& home, bool driver_waits) noexcept
      : home_(home), owner_(home), driver_waits_(driver_waits) {}
  // How memory goes whose context is there; lost(): of one that is gone. `may_wait`: see release_order.
  // False: the driver takes nothing back now, as in a host function of a stream.
  virtual bool give_away(resource::extent const& memory, bool /*may_wait*/) noexcept {
    return lost(memory), true;
  }
  // It would wait for work that the memory, which is done, has nothing to do with.
  virtual bool would_wait() noexcept { return false; }
  // Whether the GPU has work of this context, or may have; asked of the driver once a millisecond.
  bool has_work() noexcept;
  // What is done of what waits, without a wait for anything: inside requests.
  std::uint64_t release_what_is_done() noexcept { return release_done(true, false); }

  resource::chain_context const& home_;

 private:
  // Memory that was freed, with the epoch of the free.
  struct waiting {
    resource::extent memory;
    stream_order::epoch_id freed;
    space::segment* segment;  // null: there was no room for it
  };
  // Keeps memory until the work before this call is done.
  void defer(resource::extent const& memory) noexcept { keep(memory, home_.epochs.open(), false); }
  // The same of a free in this epoch; `first`: before all others. After forget() it is lost.
  void keep(resource::extent const& memory, stream_order::epoch_id freed, bool first) noexcept;
  // False: after forget().
  bool add(resource::extent const& memory, stream_order::epoch_id freed, bool first) noexcept;
  // What is done of what waits, in the hand of this thread.
  struct taken_out {
    waiting what;
    resource::in_hand hand;
  };
  std::list<taken_out> take_done(bool asks) noexcept;
  // `asks`: the driver is asked what is done by now, else that counts which is known.
  std::uint64_t release_done(bool asks, bool may_wait) noexcept;

  leaving owner_;
  bool const driver_waits_;
  std::atomic<bool> any_waits_{false};
  base::mutex waiting_mutex_;
  bool forgotten_ GPUMEM_GUARDED_BY(waiting_mutex_) = false;
  std::vector<waiting> waiting_ GPUMEM_GUARDED_BY(waiting_mutex_);
  std::atomic<std::uint64_t> had_work_{0};  // ns: when the GPU had some
};

}  // namespace gpumem::upstream
