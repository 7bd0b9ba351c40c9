// See log_pattern.hpp.
#include "core/base/log/log_pattern.hpp"

#include <algorithm>

#include "core/base/text/bytes.hpp"
#include "core/base/text/printable.hpp"

namespace gpumem::base {
namespace {

constexpr unsigned widest = 64;  // spdlog's
constexpr std::string_view flags_of_time = "aAbhBcCYDxmdHIMSefFEprRTXz";
constexpr std::string_view other_flags = "vlLwnPt%";

std::string refused(std::string_view pattern, std::string const& why) {
  return "\"" + printable(pattern) + "\": " + why;
}

// Behind '%': "-8!l". False and an error, or `rest` is behind the flag.
bool take_flag(std::string_view& rest, log_pattern_part& part, std::string& why) {
  if (!rest.empty() && (rest.front() == '-' || rest.front() == '=')) {
    part.blanks = rest.front() == '-' ? log_pattern_part::side::right : log_pattern_part::side::center;
    rest.remove_prefix(1);
  }
  bool const padded = !rest.empty() && is_digit(rest.front());
  for (; !rest.empty() && is_digit(rest.front()); rest.remove_prefix(1)) {
    part.width = std::min(part.width * 10 + static_cast<unsigned>(rest.front() - '0'), 1000u);
  }
  if (part.width > widest) {
    why = "a width of " + (part.width == 1000 ? "1000 or more" : std::to_string(part.width)) +
          " is too much; it is at most " + std::to_string(widest);
    return false;
  }
  if (padded && !rest.empty() && rest.front() == '!') {
    part.is_cut = true;
    rest.remove_prefix(1);
  }
  part.flag = rest.empty() ? '\0' : rest.front();
  bool const known = part.flag != 0 && (flags_of_time.find(part.flag) != flags_of_time.npos ||
                                        other_flags.find(part.flag) != other_flags.npos);
  if (known) {
    rest.remove_prefix(1);
    return true;
  }
  why = "%" + std::string(rest.substr(0, 1)) +
        " is not known; write %v the message, %l its level, %w \"warning: \" or \"error: \", %n gpumem, %P "
        "process, "
        "%t thread, %% a percent sign, or of the time one of %" +
        std::string(flags_of_time) + ", as in %Y-%m-%d %H:%M:%S.%e";
  return false;
}

}  // namespace

bool log_pattern::tells_time() const noexcept {
  return std::any_of(parts.begin(), parts.end(), [](log_pattern_part const& part) {
    return part.flag != 0 && flags_of_time.find(part.flag) != flags_of_time.npos;
  });
}

log_pattern parse_log_pattern(std::string_view text) {
  log_pattern result;
  if (printable(text) != text) {
    result.error =
        refused(text, "a line has no control characters or line ends, and is UTF-8: leave them out");
    return result;
  }
  bool has_message = false;
  for (std::string_view rest = text; !rest.empty();) {
    log_pattern_part part;
    if (rest.front() != '%') {
      std::size_t const end = std::min(rest.find('%'), rest.size());
      part.text = rest.substr(0, end);
      rest.remove_prefix(end);
    } else {
      rest.remove_prefix(1);
      std::string why;
      if (!take_flag(rest, part, why)) {
        result.error = refused(text, why);
        return result;
      }
    }
    has_message = has_message || part.flag == 'v';
    result.parts.push_back(std::move(part));
  }
  if (!has_message)
    result.error = refused(text, "it has no %v, so that no line would hold its message; write \"%n: %w%v\"");
  return result;
}

}  // namespace gpumem::base
