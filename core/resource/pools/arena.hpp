// `arena`: a part for each stream (or thread), so that no two of them meet at a lock (RMM's
// arena_memory_resource). Each part is a suballocator; its segments, called superblocks, come from one pool
// below, which `arena_size` bounds and which serves large requests itself. A block goes back to the part it
// came from, in stream order, whoever frees it. Parts are never destroyed: the next stream or thread gets
// what one leaves behind. Called as any resource.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "core/base/threads/mutex.hpp"
#include "core/resource/counting.hpp"
#include "core/resource/pools/suballocator.hpp"

namespace gpumem::resource {

struct arena_options {
  bool per_stream = true;  // false: a request with a stream goes to its thread's part as well
  bool dump_log_on_failure = false;
  std::uint64_t release_after = ~std::uint64_t{0};  // see suballocator_options
  std::uint64_t earned_from = ~std::uint64_t{0};
};

class arena final : public resource {
 public:
  // More threads or streams than this share parts.
  static constexpr std::size_t most_parts = 64;

  // `superblocks` is part of the same chain, and below.
  arena(chain_context const& home, std::size_t node, arena_options const& o,
        suballocator& superblocks) noexcept
      : resource(home, node), options_(o), superblocks_(superblocks), large_(*this) {
    superblocks_.grow_after(
        [](resource& self, std::uint64_t bytes, bool is_short, std::size_t& asked) noexcept {
          return static_cast<arena&>(self).spare(bytes, is_short, asked);
        },
        *this);
  }

  space::handle allocate(allocation_request const& request) override;
  idle_usage measure() noexcept override;
  std::uint64_t idle() noexcept override;
  void count_free(stats::free_blocks& to) noexcept override;
  bool counts_in(budget const& b) const noexcept override { return superblocks_.counts_in(b); }
  std::uint64_t give_back(give_back_scope scope) noexcept override;
  void give_back_due(moment const& at) noexcept override;
  void stream_gone(stream_order::slot s) noexcept override;
  void forget() noexcept override;
  void begin_again() override;

 private:
  using part = std::atomic<suballocator*>;

  // Requests of which no part would keep the block: the superblocks serve them.
  class large_requests final : public counting {
   public:
    explicit large_requests(arena& of) noexcept
        : counting(of.home_, of.node_), superblocks_(of.superblocks_) {
      superblocks_.set_parent(*this);
      set_parent(of);
    }

   private:
    space::handle serve(allocation_request const& request) override {
      stats::add(count().upstream, 1);
      return superblocks_.allocate(request);
    }

    suballocator& superblocks_;
  };

  // The part of the request's stream, or of this thread.
  part& part_of(allocation_request const& request) noexcept;
  // As allocate().
  space::handle serve(allocation_request const& request);
  space::handle serve_and_log(allocation_request const& request);
  // Makes the part at its first request. Throws driver::allocation_failed.
  suballocator& make(part& place);
  // Idle memory of parts, in turn, given to the superblocks until it is so many bytes; of few parts only
  // where memory is short. `asked`: parts so far, and after; 0: none is left that has any.
  std::uint64_t spare(std::uint64_t bytes, bool is_short, std::size_t& asked) noexcept;
  // One message with what each part has, for dump_log_on_failure.
  void log_state(char const* reason) noexcept;
  template <typename Visit>
  void each(Visit visit) noexcept {
    for (auto* group : {&of_streams_, &of_threads_}) {
      for (part const& p : *group) {
        if (auto* made = p.load(std::memory_order_acquire); made != nullptr) visit(*made);
      }
    }
  }

  arena_options const options_;
  suballocator& superblocks_;
  large_requests large_;
  std::array<part, most_parts> of_streams_{};
  std::array<part, most_parts> of_threads_{};
  std::atomic<std::size_t> next_spare_{0};  // the part that is asked next
  base::mutex making_;
  std::vector<std::unique_ptr<suballocator>> made_ GPUMEM_GUARDED_BY(making_);
};

}  // namespace gpumem::resource
