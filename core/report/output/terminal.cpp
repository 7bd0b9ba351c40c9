// See terminal.hpp.
#include "core/report/output/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace gpumem::report {
namespace {

// What fits into no less: the figures of a table, and the words of its head.
constexpr std::size_t narrowest = 80, widest = 160;

bool colours_are_wanted() noexcept {
  char const* const off = std::getenv("NO_COLOR");
  if (off != nullptr && *off != '\0') return false;
  char const* const terminal = std::getenv("TERM");
  return terminal != nullptr && *terminal != '\0' && std::string_view(terminal) != "dumb";
}

}  // namespace

std::size_t columns_of_terminal(int descriptor, std::size_t otherwise) noexcept {
  int const saved = errno;
  winsize size{};
  bool const known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col != 0;
  errno = saved;
  return known ? std::clamp<std::size_t>(size.ws_col, narrowest, widest) : otherwise;
}

void look_at_terminal(text_options& look, int descriptor) noexcept {
  int const saved = errno;
  bool const terminal = ::isatty(descriptor) == 1;
  errno = saved;
  if (!terminal) return;
  look.colour = colours_are_wanted();
  look.width = columns_of_terminal(descriptor, look.width);
}

}  // namespace gpumem::report
