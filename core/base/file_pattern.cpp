// See file_pattern.hpp.
#include "core/base/file_pattern.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

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

}  // namespace

std::string mpi_rank() {
  for (char const* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "RANK"}) {
    char const* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return one_component(value);
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
      char const* value = std::getenv(name.c_str());
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

created_file create_without_overwriting(std::string const& path) {
  created_file result;
  struct stat there {};
  bool const special =
      ::stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode) && !S_ISDIR(there.st_mode);
  int const flags = special ? O_WRONLY | O_CLOEXEC | O_NONBLOCK : O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  for (int number = 0; number < most_numbers; ++number) {
    result.path = number == 0 ? path : path + "." + std::to_string(number);
    do {
      result.descriptor = ::open(result.path.c_str(), flags, 0644);
    } while (result.descriptor < 0 && errno == EINTR);
    if (result.descriptor >= 0) return result;
    if (errno != EEXIST) break;
  }
  int const reason = errno;
  result.error = "cannot create " + result.path + ": " + std::strerror(reason);
  if (reason == ENOENT) result.error += "; gpumem makes no folders: create it first, or change the pattern";
  if (reason == EEXIST)
    result.error += ", nor any of its " + std::to_string(most_numbers) + " numbered names";
  return result;
}

}  // namespace gpumem::base
