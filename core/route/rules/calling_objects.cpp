// See calling_objects.hpp.
#include "core/route/rules/calling_objects.hpp"

#include <unistd.h>

#include <climits>

#include "core/base/text/glob.hpp"

namespace gpumem::route {

constinit thread_local std::array<calling_objects::memo_line, 2> calling_objects::memo;

calling_objects::calling_objects(std::vector<std::string> patterns) : patterns_(std::move(patterns)) {
  static constinit std::atomic<std::uint64_t> made{0};
  first_ = made.fetch_add(1, std::memory_order_relaxed) << 40;
  char path[PATH_MAX];
  ssize_t const length = ::readlink("/proc/self/exe", path, sizeof path);
  program_.assign(path, length > 0 ? static_cast<std::size_t>(length) : 0);
}

calling_objects::rule_mask calling_objects::rules_of_path(std::string_view path) const noexcept {
  std::string_view const file = path.substr(path.rfind('/') + 1);
  rule_mask rules = 0;
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    std::string_view const pattern = patterns_[i];
    bool const whole = pattern.find('/') != pattern.npos;
    if (pattern.empty() || base::matches(pattern, whole ? path : file)) rules |= rule_mask{1} << i;
  }
  return rules;
}

calling_objects::rule_mask calling_objects::look_up(std::uintptr_t address, std::uint64_t now) noexcept {
  if (auto const known = known_.find(address, now)) return known->value;
  struct {
    calling_objects const& asking;
    rule_mask rules;
  } answer{*this, 0};
  auto const take = [](std::string_view path, void* taker) {
    auto& to = *static_cast<decltype(answer)*>(taker);
    to.rules = to.asking.rules_of_path(path.empty() ? std::string_view(to.asking.program_) : path);
  };
  base::loaded_object object;
  // Code of no object is under the rules that ask for no library.
  if (!base::find_loaded_object(address, object, take, &answer)) return rules_of_path({});
  if (stats::may_remember_libraries()) known_.remember({object, answer.rules}, now);
  return answer.rules;
}

}  // namespace gpumem::route
