// One chain for one context: its resources in order, top first, and the sources below them. Built by
// config/builder/builder, used by the router. Owns everything in it; lives until the process ends. It is
// emptied when its context goes, and may then serve another one of the device.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "core/resource/resource.hpp"
#include "core/resource/source.hpp"

namespace gpumem::resource {

class chain {
 public:
  // Parts are added bottom up; the last one added is the top.
  source& add_source(std::unique_ptr<source> part) { return *sources_.emplace_back(std::move(part)); }
  template <typename Part>
  Part& add(std::unique_ptr<Part> part) {
    Part& added = *part;
    resources_.push_back(std::move(part));
    top_ = &added;
    return added;
  }

  resource& top() noexcept { return *top_; }

  // The sums over all parts, and the largest run of any.
  idle_usage measure() noexcept {
    idle_usage sum;
    for (auto const& part : resources_) {
      idle_usage const l = part->measure();
      sum.idle += l.idle;
      sum.pending += l.pending;
      sum.largest = sum.largest > l.largest ? sum.largest : l.largest;
    }
    for (auto const& part : sources_) sum.pending += part->pending();
    return sum;
  }
  // The idle bytes of that alone.
  std::uint64_t idle() noexcept {
    std::uint64_t bytes = 0;
    for (auto const& part : resources_) bytes += part->idle();
    return bytes;
  }
  // Free blocks of all parts, by size.
  void count_free(stats::free_blocks& to) noexcept {
    for (auto const& part : resources_) part->count_free(to);
  }
  // Bytes that this budget counts and a request could have.
  std::uint64_t idle_in(budget const& counted) noexcept {
    std::uint64_t idle = 0;
    for (auto const& part : resources_) {
      if (part->counts_in(counted)) idle += part->idle();
    }
    return idle;
  }
  // Top first, so that what a bin gives back to its pool goes on to the driver.
  std::uint64_t give_back(give_back_scope scope) noexcept {
    std::uint64_t bytes = 0;
    for (auto part = resources_.rbegin(); part != resources_.rend(); ++part)
      bytes += (*part)->give_back(scope);
    return bytes;
  }
  // The same of what is due by its age.
  void give_back_due(moment const& at) noexcept {
    for (auto part = resources_.rbegin(); part != resources_.rend(); ++part) (*part)->give_back_due(at);
  }
  void stream_gone(stream_order::slot s) noexcept {
    for (auto const& part : resources_) part->stream_gone(s);
  }
  void peers_changed() noexcept {
    for (auto const& part : sources_) part->peers_changed();
  }
  // The sources' own advice holds again for this memory (see source.hpp).
  void renew(std::uint64_t address, std::uint64_t bytes) noexcept {
    for (auto const& part : sources_) part->renew(address, bytes);
  }
  // Tells all of a refused free; true: one of them reported it.
  bool refused(refused_free const& what) noexcept {
    return std::any_of(resources_.begin(), resources_.end(),
                       [&](auto const& part) { return part->refused(what); });
  }
  void synchronized() noexcept {
    for (auto const& part : resources_) part->synchronized();
    for (auto const& part : sources_) part->synchronized();
  }
  // The context is gone: every part forgets its memory, top first.
  void forget() noexcept {
    for (auto part = resources_.rbegin(); part != resources_.rend(); ++part) (*part)->forget();
    for (auto const& part : sources_) part->forget();
  }
  // After that: bottom up, as it was built. Throws driver::allocation_failed, and is to forget() again then.
  void begin_again() {
    for (auto const& part : sources_) part->begin_again();
    for (auto const& part : resources_) part->begin_again();
  }

 private:
  std::vector<std::unique_ptr<source>> sources_;
  std::vector<std::unique_ptr<resource>> resources_;
  resource* top_ = nullptr;
};

}  // namespace gpumem::resource
