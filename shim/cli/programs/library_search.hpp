// Which files a program's needed libraries are, searched as the loader does: run paths, LD_LIBRARY_PATH,
// the folders of ld.so.conf, the default ones. For `gpumem check`. What the program opens later (dlopen) is
// not known. One thread.
#pragma once

#include <string>
#include <vector>

namespace gpumem::cli {

struct found_library {
  std::string name;  // as it is asked for
  std::string path;  // empty: not found
};

// Everything that `program` needs, directly and through others, each name once, in the loader's order.
std::vector<found_library> needed_libraries(std::string const& program, std::string const& library_path);

}  // namespace gpumem::cli
