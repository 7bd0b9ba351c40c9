// See environment.hpp. The kernel writes the variables one behind the other and the name of the executed file
// (AT_EXECFN) behind them, at the upper end of the first stack. A program may write its title over them: then
// what is left of them is read.
#include "core/base/environment.hpp"

#include <sys/auxv.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace gpumem::base {

// In a page that the loader has written already: every process notes it.
constinit char const* first_variable [[gnu::section(".data")]] = nullptr;

namespace {

constexpr std::string_view own_prefix = "GPUMEM_";

bool is_emptied() noexcept {
  for (char const* const* each = environ; each != nullptr && *each != nullptr; ++each) {
    std::string_view const entry = *each;
    if (entry.starts_with(own_prefix) || entry.starts_with("LD_PRELOAD=")) return false;
  }
  return first_variable != nullptr;
}

// Calls for each of the start until one is taken, which it returns.
template <typename Take>
char const* find_at_start(Take take) noexcept {
  constexpr std::uintptr_t most = std::uintptr_t{64} << 20;  // the kernel's limit is far below
  std::uintptr_t const end = ::getauxval(AT_EXECFN);
  auto const begin = reinterpret_cast<std::uintptr_t>(first_variable);
  if (begin == 0 || begin >= end || end - begin > most) return nullptr;
  for (char const* each = first_variable; reinterpret_cast<std::uintptr_t>(each) < end;
       each += std::strlen(each) + 1) {
    if (take(std::string_view(each))) return each;
  }
  return nullptr;
}

using variable_list = std::array<char const*, 64>;  // the last is null

variable_list own_at_start() noexcept {
  variable_list found{};
  std::size_t count = 0;
  find_at_start([&](std::string_view entry) {
    if (entry.starts_with(own_prefix)) found[count++] = entry.data();
    return count + 1 == found.size();
  });
  return found;
}

}  // namespace

char const* user_variable(char const* name) noexcept {
  char const* const now = std::getenv(name);
  if (now != nullptr || !is_emptied()) return now;
  std::size_t const length = std::strlen(name);
  char const* const found = find_at_start([&](std::string_view entry) {
    return entry.size() > length && entry[length] == '=' && entry.starts_with(name);
  });
  return found != nullptr ? found + length + 1 : nullptr;
}

char const* const* user_environment() noexcept {
  if (!is_emptied()) return environ;
  static variable_list const own = own_at_start();
  return own.data();
}

}  // namespace gpumem::base
