// The loaded file that a code address lies in, by the loader's list. Any thread, with none of our locks held:
// the walk is under the loader's lock (recursive in glibc, and not held while constructors run).
#pragma once

#include <cstdint>
#include <string_view>

namespace gpumem::base {

struct loaded_object {
  std::uintptr_t low = 0, high = 0;  // from its first byte to behind its last
};

// Called with the file's path, under the loader's lock: nothing that could wait, allocate or load. The loader
// gives the program itself no name.
using take_object = void (*)(std::string_view path, void* taker);

// False: the code lies in no file (it was made at run time).
bool find_loaded_object(std::uintptr_t address, loaded_object& found, take_object take, void* taker) noexcept;

}  // namespace gpumem::base
