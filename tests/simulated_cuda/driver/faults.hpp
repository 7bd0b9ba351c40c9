// Calls that fail as they are told to: GPUMEM_SIMULATED_FAULT=FUNCTION[@PLACE]:N[+]:CODE[,...] fails the Nth
// call of a driver function, N+ that one and all after it, before anything is done. Only calls that a library
// under test makes count, by where they return to: the program's own go through. PLACE, in hexadecimal: only
// those that return to this place in the library. GPUMEM_SIMULATED_FAULT_COUNTS names a file that says at the
// end how many calls of which function there were, GPUMEM_SIMULATED_FAULT_PLACES one that has them by place.
// Asked at the entry of every function by any thread; costs a look at a flag where none is set.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace simulated {

class faults {
 public:
  static faults& get();

  // CUDA_SUCCESS: this call is not to fail.
  CUresult of(char const* function, void const* returns_to) {
    return active_ ? count(function, returns_to) : CUDA_SUCCESS;
  }

 private:
  struct plan {
    std::string function;
    std::uint64_t place = 0;  // 0: any
    std::uint64_t at = 0;
    bool on = false;  // and all after it
    CUresult code = CUDA_SUCCESS;
    std::uint64_t calls = 0;
  };

  faults();
  static plan read(std::string const& text);
  void write() const;
  CUresult count(char const* function, void const* returns_to);

  bool active_ = false;
  std::string counts_file_, places_file_;
  std::mutex lock_;
  std::vector<plan> plans_;
  std::unordered_map<void const*, std::uint64_t> places_;  // of what returns where
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> calls_;
};

}  // namespace simulated
