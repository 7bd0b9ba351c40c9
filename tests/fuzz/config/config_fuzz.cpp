// libFuzzer on the configuration reader: any bytes give a plan or an error inside the text, and a plan's
// effective text is a file that is accepted. Built with clang only; run: config_fuzz -max_len=4096 FINDS
// config/examples, where FINDS is a folder for what it finds
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/load.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace gpumem::config;
  std::string_view const text(reinterpret_cast<char const*>(data), size);
  auto const result = load_text("fuzz.toml", text);
  auto const lines = static_cast<std::uint32_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  for (auto const& item : result.diagnostics) {
    if (item.at.line == 0 || item.at.line > lines || item.at.column == 0 || item.at.column > size + 1)
      std::abort();
  }
  if (result.failed()) {
    if (result.text(consequence::not_started).empty()) std::abort();
  } else if (load_text("fuzz.toml", result.plan.text).failed()) {
    std::abort();
  }
  return 0;
}
