// The options of one resource as values of the device it is built for: percentages become bytes. Used by the
// builder's files while a chain is made, under the context's lock; cheap to copy, lives no longer than the
// plan.
#pragma once

#include <cstdint>
#include <string>

#include "config/plan/plan.hpp"

namespace gpumem::config {

class option_reader {
 public:
  option_reader(resource_plan const& plan, std::uint64_t free_bytes, std::uint64_t total_bytes) noexcept
      : plan_(plan), free_(free_bytes), total_(total_bytes) {}

  std::string const& name() const noexcept { return plan_.name; }
  std::string const& type() const noexcept { return plan_.type; }
  std::uint64_t total() const noexcept { return total_; }

  // `preset` also for words such as "max" and "auto".
  std::uint64_t bytes(char const* key, std::uint64_t preset) const {
    auto const* size = value<size_value>(key);
    return size != nullptr ? size->resolve(free_, total_) : preset;
  }
  std::int64_t number(char const* key, std::int64_t preset) const {
    auto const* held = value<std::int64_t>(key);
    return held != nullptr ? *held : preset;
  }
  // Nanoseconds; all ones for "never", and where it is not set.
  std::uint64_t duration(char const* key) const;
  bool flag(char const* key, bool preset) const {
    auto const* held = value<bool>(key);
    return held != nullptr ? *held : preset;
  }
  // Empty when the option is not set or no word.
  std::string word(char const* key) const {
    auto const* held = value<std::string>(key);
    return held != nullptr ? *held : std::string();
  }
  template <typename Type>
  Type const* value(char const* key) const {
    auto const found = plan_.options.find(key);
    return found == plan_.options.end() ? nullptr : std::get_if<Type>(&found->second);
  }

  // For the report: "block_size 1 MiB, per stream".
  std::string shown() const;

 private:
  resource_plan const& plan_;
  std::uint64_t const free_;
  std::uint64_t const total_;
};

}  // namespace gpumem::config
