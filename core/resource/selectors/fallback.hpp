// `fallback`: chains tried in order, the next one only when all before it are out of memory (RMM's failure
// callback, made useful). Each chain tries all of its rungs first. Stands at the end of a chain; passes
// blocks or, below a pool, segments. Frees find the owner of their block directly. Any thread; no lock on a
// request that the first chain serves.
#pragma once

#include <map>
#include <vector>

#include "core/base/threads/mutex.hpp"
#include "core/resource/counting.hpp"
#include "core/resource/source.hpp"

namespace gpumem::resource {

// Bytes that a chain after the first has given: the node's counter keeps how many there were at most.
class spill {
 public:
  // `node`: of the branch, which the next context's chain counts for as well.
  void took(std::size_t node, std::uint64_t bytes) noexcept;
  void gave(std::uint64_t bytes) noexcept { now_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> now_{0};
};

class fallback final : public counting {
 public:
  struct branch {
    resource* top;
    std::size_t node;  // of the report, for what this chain took
  };
  fallback(chain_context const& home, std::size_t node, std::vector<branch> branches)
      : counting(home, node), branches_(std::move(branches)), spills_(branches_.size()) {
    for (branch const& b : branches_) b.top->set_parent(*this);
  }

  void lost(space::handle h) noexcept override { freed(h, {}); }

 private:
  space::handle serve(allocation_request const& request) override;
  void given_back(space::handle h, free_order const&) noexcept override;
  std::size_t branch_of(space::handle h) noexcept;

  std::vector<branch> const branches_;
  std::vector<spill> spills_;
};

// The same below a pool.
class fallback_source final : public source {
 public:
  struct branch {
    source* segments;
    std::size_t node;
  };
  fallback_source(chain_context const& home, std::size_t node, std::vector<branch> branches)
      : home_(home), node_(node), branches_(std::move(branches)), spills_(branches_.size()) {}

  extent reserve(allocation_request const& request) override;
  void release(extent const& memory, release_order const& order) noexcept override;
  void lost(extent const& memory) noexcept override;
  std::uint64_t trim(give_back_scope scope) noexcept override;

 private:
  // The branch that the extent came from; the note of it is then forgotten.
  std::size_t take_note(extent const& memory) noexcept;

  chain_context const& home_;
  std::size_t const node_;
  std::vector<branch> const branches_;
  std::vector<spill> spills_;
  base::mutex mutex_;
  std::map<std::uint64_t, std::size_t> later_
      GPUMEM_GUARDED_BY(mutex_);  // addresses from branches after the first
};

}  // namespace gpumem::resource
