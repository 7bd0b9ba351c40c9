// Calls that fail as they are told to: GPUMEM_SIMULATED_FAULT=FUNCTION:N:CODE fails the Nth call of a driver
// function, N+ that one and all after it, before anything is done. Only calls that a library under test makes
// count, by where they return to: the program's own go through. GPUMEM_SIMULATED_FAULT_COUNTS names a file
// that says at the end how many calls of which function there were. Asked at the entry of every function by
// any thread; costs a look at a flag where neither is set.
#pragma once

#include <cuda.h>

#include <map>
#include <mutex>
#include <string>

namespace simulated {

class faults {
 public:
  static faults& get();

  // CUDA_SUCCESS: this call is not to fail.
  CUresult of(char const* function, void const* returns_to) {
    return active_ ? count(function, returns_to) : CUDA_SUCCESS;
  }

 private:
  faults();
  void write() const;
  CUresult count(char const* function, void const* returns_to);

  bool active_ = false;
  std::string function_;
  unsigned long long at_ = 0;
  bool on_ = false;  // and all after it
  CUresult code_ = CUDA_SUCCESS;
  std::string file_;
  std::mutex lock_;
  std::map<std::string, unsigned long long> counts_;
};

}  // namespace simulated
