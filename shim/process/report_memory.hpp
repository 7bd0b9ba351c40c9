// Heap for the writing of a report. A program may call _exit from a signal handler that interrupted malloc,
// and the report must not wait for malloc's lock. While a `report_memory` lives, what this thread takes by
// `new` inside this library comes from fresh pages that are never given back; the program's own operators
// are not touched.
#pragma once

namespace gpumem::shim {

class report_memory {
 public:
  report_memory() noexcept;
  ~report_memory();
  report_memory(report_memory const&) = delete;
  report_memory& operator=(report_memory const&) = delete;
};

}  // namespace gpumem::shim
