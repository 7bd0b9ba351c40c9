// Reads routes; see route_reader.hpp. One thread, once a load.
#include "config/reader/sections/route_reader.hpp"

#include "config/reader/sections/chains_reader.hpp"
#include "config/reader/sections/resource_reader.hpp"
#include "config/reader/values/value_reader.hpp"
#include "config/schema/schema.hpp"

namespace gpumem::config {

void read_route(node const& value, std::string const& where, std::string const& shown, route_plan& route,
                draft& to, diagnostics& out) {
  to.places[where] = value.at;
  route.where = {out.position(value.at)};
  if (value.type == node::kind::string) {
    if (value.text == "passthrough") return;
    bool const name = find_type(value.text) != nullptr || to.result.resources.contains(value.text);
    out.error("E204", value.at, shown + " = " + quoted(value.text) + " is unknown",
              name ? "a chain stands in brackets: [\"" + value.text + "\"]"
                   : "write \"passthrough\", or a chain such as [\"pool\", \"cuda\"]");
    return;
  }
  if (value.type != node::kind::array) {
    out.error("E203", value.at, shown + " must be a chain, not " + std::string(kind_name(value.type)),
              "write [\"pool\", \"cuda\"] or \"passthrough\"");
    return;
  }
  if (value.children.empty()) {
    out.error("E306", value.at, shown + " is an empty chain",
              "write \"passthrough\" to leave this memory to the driver");
    return;
  }
  route.passthrough = false;
  route.chain = read_names(value, where, to, out);
  for (std::size_t i = 0; i < route.chain.size(); ++i) {
    resolve_name(route.chain[i], to.where(where + "." + std::to_string(i)), shown, to, out);
  }
}

}  // namespace gpumem::config
