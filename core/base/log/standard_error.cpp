// See standard_error.hpp.
#include "core/base/log/standard_error.hpp"

#include <fcntl.h>

namespace gpumem::base {
namespace {

constexpr int looked_at = 64;  // descriptors that may be the one it was copied from

bool has_another_name(file_identity const& file, int descriptor) noexcept {
  for (int other = 0; other < looked_at; ++other) {
    if (other != descriptor && file_identity::of(other) == file) return true;
  }
  return false;
}

bool is_appended_to(int descriptor) noexcept {
  int const saved = errno;
  int const flags = ::fcntl(descriptor, F_GETFL);
  errno = saved;
  return flags >= 0 && (flags & O_APPEND) != 0;
}

}  // namespace

bool is_for_messages(file_identity const& at_start, int descriptor) noexcept {
  if (!at_start.known) return false;
  auto const now = file_identity::of(descriptor);
  if (!now.known || now == at_start) return now.known;
  if (S_ISCHR(now.mode) || S_ISFIFO(now.mode)) return true;
  return S_ISREG(now.mode) && (is_appended_to(descriptor) || has_another_name(now, descriptor));
}

}  // namespace gpumem::base
