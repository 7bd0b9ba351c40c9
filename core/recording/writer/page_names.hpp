// What the state page of this process knows of libraries, call sites and code. Of the recorder's thread.
#pragma once

#include "core/recording/encoder.hpp"

namespace gpumem::recording {

class page_names final : public name_source {
 public:
  char const* library(unsigned id) noexcept override;
  std::size_t site(unsigned number, std::uint64_t (&addresses)[most_frames]) noexcept override;
  bool module(std::uint64_t address, module_name& found) noexcept override;
  char const* phase(unsigned number) noexcept override;
};

}  // namespace gpumem::recording
