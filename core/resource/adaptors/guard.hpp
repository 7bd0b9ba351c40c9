// `guard`, for debugging: fills new and freed blocks with patterns, and checks a red zone behind each block
// when it is freed and when the program has waited for the whole context. Damage is reported; the program
// goes on. A write in front of a block usually hits the zone of the block before it. Must stand above the
// resource that makes blocks. Slow: a fill of memory without a stream is waited for; a free waits for the
// work that may use the block (native cudaFree does, cudaFreeAsync does not). Does nothing while a stream
// of the context captures. Any thread; takes locks and the heap.
#pragma once

#include <unordered_map>
#include <vector>

#include "core/base/threads/mutex.hpp"
#include "core/resource/adaptors/adaptor.hpp"
#include "core/stats/callers/call_sites.hpp"

namespace gpumem::resource {

struct guard_options {
  bool fill_on_alloc = true;
  bool fill_on_free = true;
  std::uint64_t redzone = 512;
};

class guard final : public adaptor {
 public:
  static constexpr unsigned char new_pattern = 0xcd;
  static constexpr unsigned char freed_pattern = 0xdd;
  static constexpr unsigned char zone_pattern = 0xfd;

  guard(chain_context const& home, std::size_t node, guard_options const& options, resource& below) noexcept
      : adaptor(home, node, below), options_(options) {
    stats::open_caller_tables();
  }

  bool has_zones() const noexcept override { return options_.redzone != 0; }
  void before_overwrite(space::handle h, free_order const& order) noexcept override;
  void synchronized() noexcept override;
  void forget() noexcept override;

 private:
  space::handle serve(allocation_request const& request) override;
  void given_back(space::handle h, free_order const& order) noexcept override;

  // What is known of a live block.
  struct guarded {
    std::uint64_t bytes = 0;     // as asked
    std::uint32_t life = 0;      // of the context, before it was asked for
    std::uint64_t zone = 0;      // bytes behind it that hold the pattern
    space::epoch_id filled = 0;  // once this one is done
    stats::call_site from = stats::no_site;
    bool reported = false;
  };
  // What of a zone no longer holds the pattern.
  struct damage {
    std::uint64_t bytes = 0;
    std::uint64_t first = 0;  // offset in the zone
  };

  // Where the zone of a new block ends that has these bytes: at a whole unit, or before another guard's.
  std::uint64_t end_of_zone(space::handle h, std::uint64_t end) noexcept;
  // Fills a new block and its zone; false: that cannot be now.
  bool prepare(space::handle h, allocation_request const& request, guarded& block) noexcept;
  // Sets the bytes in the order of this stream; false: the driver refused. Waits for nothing.
  bool fill(CUstream on, std::uint64_t address, std::uint64_t bytes, unsigned char pattern) noexcept;
  // Waits for what fill() put on a stream of its own; false: that cannot be now.
  bool wait_for_fill(CUstream on) noexcept;
  // Waits for the work that may use the freed block; false: that cannot be now.
  bool settle(free_order const& order) noexcept;
  // Copies the zone to the host and compares it.
  damage look_at_zone(std::uint64_t address, std::uint64_t bytes) noexcept;
  // Reports the block once if its zone is damaged.
  void look(space::handle h, void const* caller) noexcept;
  bool report_once(space::handle h) noexcept;
  bool has_ended(std::uint32_t life) const noexcept;
  bool is_known(space::handle h) noexcept;
  // Blocks whose zone holds the pattern by now; none where there is no host memory for the list.
  std::vector<space::handle> filled_ones() noexcept;
  // The lock is tried in a loop, which clang's analysis cannot follow.
  void take_unchecked(space::handle h, std::uint32_t life) noexcept
      GPUMEM_ANNOTATE(no_thread_safety_analysis);
  // It is known no more; what was known of it, if it is of that life.
  guarded take(space::handle h, std::uint32_t life) noexcept;
  CUstream own_stream() noexcept;

  guard_options const options_;
  base::mutex looking_;  // by whoever looks at zones, while it waits for the GPU; before the other
  base::mutex mutex_;
  std::unordered_map<space::handle, guarded> live_ GPUMEM_GUARDED_BY(mutex_);
  std::atomic<CUstream> own_{nullptr};  // work on it is waited for at once
};

}  // namespace gpumem::resource
