// `tracking`: which of the program's blocks were not given back, and who asked for them (RMM's
// tracking_resource_adaptor); also frees of what is no block, or no longer one. Must stand above the
// resource that makes blocks. Counts by call site are in the state page, so that leaks are known after a
// kill too. Any thread; a call costs a look-up of its site and two atomic additions, with capture_stacks
// also a stack walk (a few microseconds).
#pragma once

#include <array>
#include <atomic>

#include "core/resource/adaptors/adaptor.hpp"
#include "core/space/blocks/side_table.hpp"
#include "core/stats/callers/call_sites.hpp"

namespace gpumem::resource {

class tracking final : public adaptor {
 public:
  tracking(chain_context const& home, std::size_t node, bool capture_stacks, resource& below) noexcept
      : adaptor(home, node, below), capture_stacks_(capture_stacks) {
    stats::open_caller_tables();
  }

  bool refused(refused_free const& what) noexcept override;
  void lost(space::handle h) noexcept override;
  void begin_again() noexcept override;

 private:
  space::handle serve(allocation_request const& request) override;
  void given_back(space::handle h, free_order const& order) noexcept override;

  // What is known of a block that the program has.
  struct live_block {
    std::uint64_t bytes;  // as asked; 0: not live
    stats::call_site from;
    std::uint32_t life;  // of the context, once the block was there: in another one the handle is another's
  };
  // Blocks freed not long ago, by address: where they came from and went. Newer ones take the place of older.
  struct freed_block {
    std::atomic<std::uint64_t> address;
    std::atomic<std::uint64_t> sites;  // allocated at, and in the upper half: freed at
  };
  static constexpr std::size_t remembered = 1 << 14;

  stats::call_site site(void const* caller) noexcept;
  freed_block& slot_of(std::uint64_t address) noexcept {
    return recent_[(address >> 9) * 0x9e3779b97f4a7c15ull >> 50];
  }

  bool const capture_stacks_;
  space::side_table<live_block> live_;
  std::array<freed_block, remembered> recent_{};
};

}  // namespace gpumem::resource
