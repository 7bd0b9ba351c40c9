// See preload.hpp.
#include "shim/cli/programs/preload.hpp"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <string_view>

namespace gpumem::cli {
namespace {

std::string own_folder() {
  char path[PATH_MAX];
  ssize_t const length = ::readlink("/proc/self/exe", path, sizeof path);
  std::string_view const whole(path, length > 0 ? static_cast<std::size_t>(length) : 0);
  return std::string(whole.substr(0, whole.rfind('/')));
}

}  // namespace

library find_library() {
  std::string const folder = own_folder();
  library result;
  for (char const* place :
       {"/libgpumem.so", "/../lib/gpumem/libgpumem.so", "/../lib/libgpumem.so", "/../lib64/libgpumem.so"}) {
    std::string const path = folder + place;
    if (::access(path.c_str(), R_OK) != 0) {
      result.error += (result.error.empty() ? "" : ", ") + path;
      continue;
    }
    char* const real = ::realpath(path.c_str(), nullptr);
    result.path = real == nullptr ? path : real;
    std::free(real);
    result.error.clear();
    // ld.so splits LD_PRELOAD at both, and knows no way to quote them.
    if (result.path.find_first_of(" :") != std::string::npos) {
      result.error =
          "\"" + result.path + "\" has a blank or colon in its path, which LD_PRELOAD cannot hold: move it";
    }
    return result;
  }
  result.error = "libgpumem.so was not found; looked for " + result.error;
  return result;
}

std::string examples_folder() {
  std::string const folder = own_folder();
  for (char const* place : {"/../share/gpumem/examples", "/../examples", "/../config/examples"}) {
    char* const real = ::realpath((folder + place).c_str(), nullptr);
    if (real == nullptr) continue;
    std::string const found = std::string(real) + "/";
    std::free(real);
    if (::access((found + "default.toml").c_str(), R_OK) == 0) return found;
  }
  return "examples/";
}

std::vector<std::string> environment_of(char const* const* from, run_settings const& settings) {
  std::vector<std::string> result;
  std::string preload = "LD_PRELOAD=" + settings.library;
  auto const replaced = [&settings](std::string_view item) {
    auto const named = [item](auto const& variable) {
      return item.size() > variable.first.size() && item.starts_with(variable.first) &&
             item[variable.first.size()] == '=';
    };
    return std::any_of(settings.variables.begin(), settings.variables.end(), named) ||
           (!settings.config.empty() && item.starts_with("GPUMEM_CONFIG=")) ||
           item.starts_with("GPUMEM_RUN_ID=") ||
           (!settings.state_directory.empty() && item.starts_with("GPUMEM_STATE_DIR="));
  };
  for (; *from != nullptr; ++from) {
    std::string_view const item(*from);
    constexpr std::string_view name = "LD_PRELOAD=";
    if (item.starts_with(name)) {
      if (item.size() > name.size()) preload += ":" + std::string(item.substr(name.size()));
    } else if (!replaced(item)) {
      result.emplace_back(item);
    }
  }
  result.push_back(preload);
  result.push_back("GPUMEM_RUN_ID=" + settings.run_id);
  if (!settings.config.empty()) result.push_back("GPUMEM_CONFIG=" + settings.config);
  if (!settings.state_directory.empty()) result.push_back("GPUMEM_STATE_DIR=" + settings.state_directory);
  for (auto const& [name, value] : settings.variables) result.push_back(name + "=" + value);
  return result;
}

}  // namespace gpumem::cli
