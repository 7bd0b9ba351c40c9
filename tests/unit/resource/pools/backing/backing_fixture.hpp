// A region and a scripted source of segments and of pages, for the tests of the two backings: addresses are
// numbers, no memory is behind them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/resource/pools/backing/backing.hpp"
#include "tests/unit/resource/fixture.hpp"

namespace gpumem::resource {

// Every call asserts that the pool's mutex is free.
class scripted_source final : public source, public page_source {
 public:
  explicit scripted_source(base::adaptive_mutex& mutex) noexcept : mutex_(mutex) {}

  std::uint64_t capacity = ~std::uint64_t{0};       // bytes it has
  CUresult refusal = CUDA_ERROR_OUT_OF_MEMORY;      // beyond that
  std::map<std::uint64_t, std::uint64_t> segments;  // by address
  std::map<std::uint64_t, std::uint64_t> pieces;    // mapped
  std::vector<std::uint64_t> asked;                 // bytes of each reserve, in order
  std::optional<std::uint64_t> left;                // what it says that the driver has
  bool at_once = false;                             // it waits for no other work of the GPU
  std::function<void()> at_release;                 // called by each release
  std::uint64_t shift = 0;                          // of the next address, from a multiple of 2 MiB
  std::function<void()> meanwhile;                  // what another thread does inside each call
  std::uint64_t most_held = 0;

  std::uint64_t held() const noexcept {
    std::uint64_t sum = 0;
    for (auto const* which : {&segments, &pieces}) {
      for (auto const& [address, bytes] : *which) sum += bytes;
    }
    return sum;
  }

  page_source* pages() noexcept override { return this; }
  std::optional<std::uint64_t> free_at_driver() noexcept override {
    expect_unlocked();
    return left;
  }
  extent reserve(allocation_request const& request) override {
    expect_unlocked();
    asked.push_back(request.bytes);
    if (request.bytes > capacity - held()) throw driver::allocation_failed(refusal, "scripted", "no more");
    extent const made{next_ + shift, request.bytes, 0};
    next_ += apart;
    segments[made.address] = made.bytes;
    most_held = std::max(most_held, held());
    return made;
  }
  bool takes_back_when_idle() const noexcept override { return at_once; }
  bool takes_back_at_once() const noexcept override { return at_once; }
  void release(extent const& memory, release_order const&) noexcept override {
    expect_unlocked();
    if (at_release) at_release();
    EXPECT_EQ(segments.erase(memory.address), 1u);
  }

  std::uint64_t page() const noexcept override { return 2 * mib; }
  extent claim(std::uint64_t bytes) override {
    expect_unlocked();
    if (bytes > range) throw driver::allocation_failed(refusal, "scripted", "no addresses");
    extent const made{next_, range, 0};
    next_ += 2 * range;
    return made;
  }
  std::uint64_t map(std::uint64_t address, std::span<std::uint64_t const> sizes, std::uint32_t,
                    CUresult& code) noexcept override {
    expect_unlocked();
    std::uint64_t mapped = 0;
    for (std::uint64_t const bytes : sizes) {
      if (bytes > capacity - held()) {
        code = refusal;
        break;
      }
      pieces[address + mapped] = bytes;
      mapped += bytes;
    }
    most_held = std::max(most_held, held());
    return mapped;
  }
  bool lacks(std::uint64_t) noexcept override {
    expect_unlocked();
    return false;
  }
  bool unmap(std::uint64_t address, std::uint64_t bytes, std::uint32_t) noexcept override {
    expect_unlocked();
    std::uint64_t gone = 0;
    while (gone < bytes) {
      auto const piece = pieces.find(address + gone);
      if (piece == pieces.end()) break;
      gone += piece->second;
      pieces.erase(piece);
    }
    EXPECT_EQ(gone, bytes) << "a piece goes whole";
    return true;
  }

 private:
  static constexpr std::uint64_t apart = 4ull << 30;
  static constexpr std::uint64_t range = 64ull << 30;

  void expect_unlocked() noexcept {
    bool const free = mutex_.try_lock();
    EXPECT_TRUE(free) << "the source is called with the mutex held";
    if (free) mutex_.unlock();
    if (!meanwhile || inside_) return;
    inside_ = true;
    meanwhile();
    inside_ = false;
  }

  base::adaptive_mutex& mutex_;
  std::uint64_t next_ = 1ull << 40;
  bool inside_ = false;  // what another thread does asks for nothing more
};

struct backing_fixture : resource_fixture {
  struct parts : space::segment_owner {
    explicit parts(world& where) : region(where.where, this) {}
    base::adaptive_mutex mutex;
    scripted_source source{mutex};
    suballocator_options options{.name = "mine"};
    refusals refuse{"pool", options};
    space::region region;
  };
  parts* pool = nullptr;
  pool_lock held;

  void SetUp() override {
    resource_fixture::SetUp();
    pool = new parts(*here);
    held = pool_lock(pool->mutex);
  }
  void TearDown() override {
    if (held) held.unlock();
    resource_fixture::TearDown();
  }
  backed_pool made_of() { return {here->home, 1, pool->options, pool->refuse, pool->region, pool->source}; }
  static std::uint32_t units(std::uint64_t bytes) { return static_cast<std::uint32_t>(bytes / space::unit); }
  // What it is refused with; empty: it was not.
  std::string refused(backing& by, growth_request const& wanted) {
    try {
      by.grow(held, wanted);
      return "";
    } catch (driver::allocation_failed const& failed) {
      EXPECT_TRUE(held.owns_lock());
      return failed.what();
    }
  }
};

}  // namespace gpumem::resource
