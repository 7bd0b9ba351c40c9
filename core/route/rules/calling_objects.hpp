// Which rules apply to a piece of code, by the file of the library it lies in. Asked by the router with a
// return address, any thread, no lock held. A known caller is found in the thread's own memo, a known
// library in a table without a lock. The first call from a library walks the loader's list under the
// loader's lock (recursive in glibc, and not held while constructors run), with none of ours held.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/files/object_values.hpp"
#include "core/stats/callers/libraries.hpp"

namespace gpumem::route {

class calling_objects {
 public:
  using rule_mask = std::uint64_t;  // bit n: rule n

  // One pattern a rule; empty: any library. Those without a slash look at the file name only.
  explicit calling_objects(std::vector<std::string> patterns);

  // The rules that the code at this return address falls under.
  rule_mask rules_of(void const* code) noexcept {
    auto const address = reinterpret_cast<std::uintptr_t>(code);
    std::uint64_t const now = stats::libraries_changed.load(std::memory_order_acquire) + first_;
    memo_line& line = memo[(address * 0x9e3779b97f4a7c15ull) >> 63];
    if (line.address == address && line.since == now) return line.rules;
    rule_mask const rules = look_up(address, now);
    if (stats::may_remember_libraries()) line = {address, now, rules};
    return rules;
  }

  // The rules that a library of this path falls under.
  rule_mask rules_of_path(std::string_view path) const noexcept;

 private:
  // The rules of a code address that this thread's calls came from before.
  struct memo_line {
    std::uintptr_t address = 0;
    std::uint64_t since = 0;  // 0: unused
    rule_mask rules = 0;
  };
  // As rules_of, where this thread's memo does not know the code.
  rule_mask look_up(std::uintptr_t address, std::uint64_t now) noexcept;

  static constinit thread_local std::array<memo_line, 2> memo;

  std::vector<std::string> const patterns_;
  std::string program_;  // the loader gives the program itself no name
  std::uint64_t first_;  // no memo of another object of this class holds for this one
  base::object_values known_;
};

}  // namespace gpumem::route
