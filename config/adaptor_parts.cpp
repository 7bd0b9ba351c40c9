// See parts.hpp. Here: the adaptors.
#include "config/parts.hpp"

namespace gpumem::config {

resource::resource* make_adaptor(option_reader const&, site const&, resource::resource&) {
  return nullptr;
}

resource::source* make_source_adaptor(option_reader const&, site const&, resource::source&) {
  return nullptr;
}

}  // namespace gpumem::config
