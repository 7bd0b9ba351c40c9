// See file_pattern.hpp.
#include "core/base/files/file_pattern.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/base/environment.hpp"
#include "core/base/files/file_identity.hpp"

namespace gpumem::base {
namespace {

constexpr int most_numbers = 10000;

// A value from outside must not add folders to the name.
std::string one_component(std::string_view value) {
  std::string name(value);
  for (char& letter : name) {
    if (letter == '/' || static_cast<unsigned char>(letter) < ' ') letter = '_';
  }
  return name;
}

std::string base_name(std::string_view path) {
  auto const slash = path.rfind('/');
  return one_component(slash == path.npos ? path : path.substr(slash + 1));
}

bool is_set(char const* name) noexcept {
  char const* const value = user_variable(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

// torchrun starts workers of its own inside a task of srun or mpirun, whose rank they all inherit. A RANK
// alone may be anything.
std::string mpi_rank() {
  bool const torchrun = is_set("TORCHELASTIC_RUN_ID"), like_torch = is_set("WORLD_SIZE");
  char const* const first = torchrun ? "RANK" : "OMPI_COMM_WORLD_RANK";
  char const* const late = like_torch ? "RANK" : "SLURM_PROCID";
  for (char const* name :
       {first, "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", late, "SLURM_PROCID", "RANK"}) {
    if (is_set(name)) return one_component(user_variable(name));
  }
  return {};
}

expansion expand_pattern(std::string_view pattern, pattern_values const& values) {
  expansion result;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      result.text += pattern[i];
      continue;
    }
    char const letter = i + 1 < pattern.size() ? pattern[++i] : '\0';
    if (letter == '%') {
      result.text += '%';
    } else if (letter == 'e') {
      result.text += values.program.empty() ? "unknown" : base_name(values.program);
    } else if (letter == 'p') {
      result.text += std::to_string(values.pid);
    } else if (letter == 'h') {
      result.text += values.host.empty() ? "unknown" : one_component(values.host);
    } else if (letter == 'x') {
      result.text += std::to_string(values.exec_no);
    } else if (letter == 'r') {
      std::string const rank = mpi_rank();
      result.text += rank.empty() ? "0" : rank;
    } else if (letter == 'q') {
      auto const close = pattern.find('}', i);
      if (i + 1 >= pattern.size() || pattern[i + 1] != '{' || close == pattern.npos) {
        result.error = "\"" + std::string(pattern) + "\": %q needs a variable in braces, as in %q{JOB_ID}";
        return result;
      }
      std::string const name(pattern.substr(i + 2, close - i - 2));
      char const* value = user_variable(name.c_str());
      if (value != nullptr) result.text += one_component(value);
      i = close;
    } else {
      result.error =
          "\"" + std::string(pattern) + "\": %" + (letter == '\0' ? std::string() : std::string(1, letter)) +
          " is not known; write %e program, %p pid, %h host, %r rank, %x exec/fork number, %q{VAR} or %%";
      return result;
    }
  }
  if (result.text.empty()) result.error = "\"" + std::string(pattern) + "\" gives an empty file name";
  return result;
}

namespace {

// The number behind /dev/stdout and its like, which are links to what is open already; else -1.
int descriptor_behind(std::string_view path) noexcept {
  if (path == "/dev/stdout" || path == "stdout" || path == "-") return STDOUT_FILENO;
  if (path == "/dev/stderr" || path == "stderr") return STDERR_FILENO;
  for (std::string_view const folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    auto const digits = path.substr(folder.size());
    bool const number =
        !digits.empty() && digits.size() < 8 && digits.find_first_not_of("0123456789") == digits.npos;
    if (number) return std::atoi(digits.data());
  }
  return -1;
}

int open_or_errno(char const* path, int flags) noexcept {
  int descriptor = -1;
  do {
    descriptor = ::open(path, flags | O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

// A device or a FIFO of ours, which is there to be written to. Judged when it is open: a name may be another
// file's a moment later. Else -1 and errno: EEXIST for what only has the name.
int open_special(char const* path) noexcept {
  int const descriptor = open_or_errno(path, 0);
  if (descriptor < 0) {
    if (errno != EISDIR && errno != ENXIO && errno != EMFILE && errno != ENFILE) errno = EEXIST;
    return -1;
  }
  auto const file = file_identity::of(descriptor);
  struct stat there {};
  if (S_ISCHR(file.mode) ||
      (S_ISFIFO(file.mode) && ::fstat(descriptor, &there) == 0 && there.st_uid == ::geteuid())) {
    return descriptor;
  }
  ::close(descriptor);
  errno = EEXIST;
  return -1;
}

}  // namespace

bool is_standard_stream(std::string_view path) noexcept {
  return path == "stdout" || path == "-" || path == "stderr";
}

std::string pattern_in_folder(std::string const& pattern, std::string_view folder) {
  bool const word = pattern.empty() || pattern == "none" || is_standard_stream(pattern);
  if (word || folder.empty() || pattern.front() == '/') return pattern;
  std::string result;
  for (char letter : folder) result += letter == '%' ? "%%" : std::string(1, letter);
  return result + "/" + pattern;
}

created_file create_without_overwriting(std::string const& path, standard_streams streams) {
  created_file result;
  if (int const open = descriptor_behind(path); open >= 0) {
    int const from = open == STDERR_FILENO ? streams.error : open == STDOUT_FILENO ? streams.out : open;
    result.path = path;
    result.descriptor = ::fcntl(from, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (result.descriptor < 0) result.error = "cannot write to " + path + ": " + std::strerror(errno);
    return result;
  }
  for (int number = 0; number < most_numbers; ++number) {
    result.path = number == 0 ? path : path + "." + std::to_string(number);
    result.descriptor = open_or_errno(result.path.c_str(), O_CREAT | O_EXCL);
    result.is_new = result.descriptor >= 0;
    if (result.descriptor < 0 && errno == EEXIST && number == 0)
      result.descriptor = open_special(path.c_str());
    if (result.descriptor >= 0) return result;
    if (errno != EEXIST) break;
  }
  int const reason = errno;
  result.error = "cannot create " + result.path + ": " + std::strerror(reason);
  if (reason == ENOENT) result.error += "; gpumem makes no folders: create it first, or change the pattern";
  if (reason == EISDIR) result.error += ": name a file in it";
  if (reason == ENXIO) result.error += ": nobody reads this FIFO";
  if (reason == EEXIST)
    result.error += ", nor any of its " + std::to_string(most_numbers) + " numbered names";
  return result;
}

}  // namespace gpumem::base
