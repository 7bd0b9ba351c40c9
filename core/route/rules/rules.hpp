// [[rule]]s as plain values: which chain serves a request, by calling library, function, size, device and
// kind of memory; the first match wins. Made once from the configuration, asked by the router before the
// routes, on every thread. A match takes no lock and no heap.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/driver/request.hpp"
#include "core/route/rules/calling_objects.hpp"
#include "core/stats/page/counters.hpp"

namespace gpumem::route {

// The chains of a context: one route for each kind of memory, then those that only rules name.
inline constexpr std::size_t kinds = 3;
inline constexpr std::size_t max_chains = 16;
inline constexpr std::size_t max_rules = 64;
inline constexpr std::size_t passthrough = max_chains;  // in place of a chain

struct rule {
  std::string name{};     // only of requests that ask for this one; empty: of those that ask for none
  std::string library{};  // patterns; empty: any
  std::string api{};
  std::uint64_t min_size = 0;
  std::uint64_t max_size = ~std::uint64_t{0};
  int device = -1;  // -1: any
  driver::memory_kind kind = driver::memory_kind::device;
  std::size_t chain = passthrough;
  std::string label{};  // for the report: "library libnccl*, min_size 1 GiB"
  std::string serves{};
};

class rule_set {
 public:
  static constexpr std::size_t none = max_rules;

  // `calls`: the hooked functions by number.
  rule_set(std::vector<rule> rules, std::span<std::string_view const> calls);

  std::size_t size() const noexcept { return rules_.size(); }
  rule const& operator[](std::size_t i) const noexcept { return rules_[i]; }

  // The rule that takes the request, or `none`.
  std::size_t match(driver::request const& request, int device) noexcept {
    mask open = request.named != 0 ? request.named : of_kind_[static_cast<std::size_t>(request.kind)];
    if (open == 0) return none;
    open &= of_call_[request.hook] | of_call_[request.called];
    if (by_library_ && open != 0) open &= asking_.rules_of(request.caller);
    for (; open != 0; open &= open - 1) {
      auto const i = static_cast<std::size_t>(__builtin_ctzll(open));
      rule const& r = rules_[i];
      if (request.bytes >= r.min_size && request.bytes <= r.max_size && (r.device < 0 || r.device == device))
        return i;
    }
    return none;
  }

  // Whether any may take a request that asks for no name.
  bool has_unnamed() const noexcept { return (of_kind_[0] | of_kind_[1] | of_kind_[2]) != 0; }
  // Those of this name, for driver::request::named; 0: none.
  std::uint64_t named(std::string_view name) const noexcept;

  // Whose memory a chain serves; those beyond the routes are served as their first rule says.
  driver::memory_kind kind_of(std::size_t chain) const noexcept;

 private:
  using mask = calling_objects::rule_mask;

  std::vector<rule> const rules_;
  calling_objects asking_;
  bool by_library_ = false;
  std::array<mask, kinds> of_kind_{};
  std::array<mask, stats::max_hooks> of_call_{};
};

}  // namespace gpumem::route
