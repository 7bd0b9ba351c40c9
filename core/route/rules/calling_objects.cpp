// See calling_objects.hpp.
#include "core/route/rules/calling_objects.hpp"

#include <link.h>
#include <unistd.h>

#include <climits>

#include "core/base/text/glob.hpp"

namespace gpumem::route {

constinit thread_local std::array<calling_objects::memo_line, 2> calling_objects::memo;

struct calling_objects::found_object {
  calling_objects const& asking;
  std::uintptr_t address;
  std::uintptr_t low = 0, high = 0;
  rule_mask rules = 0;

  // Runs under the loader's lock: nothing that could wait, allocate or load.
  static int visit(dl_phdr_info* info, std::size_t, void* search) noexcept {
    auto& self = *static_cast<found_object*>(search);
    std::uintptr_t low = ~std::uintptr_t{0};
    std::uintptr_t high = 0;
    bool inside = false;
    for (ElfW(Half) i = 0; i < info->dlpi_phnum; ++i) {
      auto const& part = info->dlpi_phdr[i];
      if (part.p_type != PT_LOAD) continue;
      std::uintptr_t const begin = info->dlpi_addr + part.p_vaddr;
      std::uintptr_t const end = begin + part.p_memsz;
      low = begin < low ? begin : low;
      high = end > high ? end : high;
      inside = inside || (begin <= self.address && self.address < end);
    }
    if (!inside) return 0;
    self.low = low;
    self.high = high;
    std::string_view const name = info->dlpi_name != nullptr ? info->dlpi_name : "";
    self.rules = self.asking.rules_of_path(name.empty() ? std::string_view(self.asking.program_) : name);
    return 1;
  }
};

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
  for (entry const& known : table_) {
    if (known.since.load(std::memory_order_acquire) != now) continue;
    std::uintptr_t const low = known.low.load(std::memory_order_acquire);
    std::uintptr_t const high = known.high.load(std::memory_order_acquire);
    rule_mask const rules = known.rules.load(std::memory_order_acquire);
    bool const whole = known.since.load(std::memory_order_relaxed) == now;
    if (whole && low <= address && address < high) return rules;
  }
  found_object object{*this, address};
  // Code of no object (made at run time) is under the rules that ask for no library.
  if (::dl_iterate_phdr(found_object::visit, &object) == 0) return rules_of_path({});
  remember(object, now);
  return object.rules;
}

// When another thread writes, or the table is full, the next caller of that library walks again.
void calling_objects::remember(found_object const& object, std::uint64_t now) noexcept {
  if (writing_.test_and_set(std::memory_order_acquire)) return;
  for (entry& place : table_) {
    if (place.since.load(std::memory_order_relaxed) == now) continue;  // in use
    place.since.store(0, std::memory_order_relaxed);
    place.low.store(object.low, std::memory_order_release);
    place.high.store(object.high, std::memory_order_release);
    place.rules.store(object.rules, std::memory_order_release);
    place.since.store(now, std::memory_order_release);
    break;
  }
  writing_.clear(std::memory_order_release);
}

}  // namespace gpumem::route
