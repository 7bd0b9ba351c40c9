// Names of the functions of frames, read from the libraries' files, of each file once: that takes the most
// time of a report. No program is run for it. First want() for all frames, then read(), then frames_of().
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/report/document_options.hpp"
#include "core/report/names/elf_symbols.hpp"

namespace gpumem::report {

class frame_names {
 public:
  void want(std::vector<stats::code_frame> const& frames);
  void read();
  // [{library, address, symbol}], without the frames of a static CUDA runtime.
  document frames_of(std::vector<stats::code_frame> const& frames) const;

 private:
  std::map<std::string, std::vector<std::uint64_t>> offsets_;
  std::map<std::string, elf_places> places_;
};

}  // namespace gpumem::report
