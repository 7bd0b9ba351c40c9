// See foreign_file.hpp.
#include "shim/cli/report/foreign_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/base/text/bytes.hpp"
#include "core/base/text/format.hpp"

namespace gpumem::cli {
namespace {

std::string shown(std::uint64_t bytes) {
  return std::string(base::print_bytes(bytes).view());
}

foreign_text read_open(int descriptor, std::string const& path, std::size_t limit) {
  struct stat about {};
  if (descriptor < 0 || ::fstat(descriptor, &about) != 0) return {{}, path + ": " + std::strerror(errno)};
  if (!S_ISREG(about.st_mode)) return {{}, path + ": not a regular file: copy it to one"};
  auto const size = static_cast<std::uint64_t>(about.st_size);
  if (size > limit) {
    return {
        {},
        base::format("{}: {}, more than the limit of {}: is it a report?", path, shown(size), shown(limit))};
  }
  std::string text(size, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    ssize_t const got = ::read(descriptor, text.data() + done, text.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {{}, path + ": " + std::strerror(errno)};
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  text.resize(done);
  return {std::move(text), {}};
}

}  // namespace

foreign_text read_foreign(std::string const& path, std::size_t limit) {
  int const descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  foreign_text result = read_open(descriptor, path, limit);
  if (descriptor >= 0) ::close(descriptor);
  return result;
}

}  // namespace gpumem::cli
