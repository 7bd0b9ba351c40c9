// What the report says of a device whatever is done with it: name, number and size. The driver takes longer
// to tell them than a growth takes beside its own call, so those of the first device are asked for at the
// start of the process, not inside the program's first allocation. Any thread, but for ask_ahead.
#pragma once

#include <cstddef>

namespace gpumem::route {

struct device_facts {
  int device = -1;
  char name[96] = "";
  char uuid[48] = "";  // as nvidia-smi writes it
  std::size_t total = 0;
};

// What the driver said ahead, or says now.
device_facts facts_of(int device) noexcept;

// Of the device that the program has made current, else of the first. Once, before another thread may ask.
void ask_ahead() noexcept;

}  // namespace gpumem::route
