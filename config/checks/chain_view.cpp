// See chain_view.hpp.
#include "config/checks/chain_view.hpp"

#include "config/text/suggest.hpp"

namespace gpumem::config {

file_position chain_view::at(std::size_t index) const {
  std::string const i = "." + std::to_string(index);
  return all.where(device_where + i, where + i, device_where, where);
}

resource_plan const* chain_view::resource(std::string const& id) const {
  return all.broken.contains(id) ? nullptr : all.result.find(id, device);
}

type_info const* chain_view::type(std::string const& id) const {
  auto const* found = resource(id);
  return found == nullptr ? nullptr : find_type(found->type);
}

std::vector<bin> const* bins_of(resource_plan const& resource) {
  auto const found = resource.options.find("bins");
  return found == resource.options.end() ? nullptr : std::get_if<std::vector<bin>>(&found->second);
}

std::vector<std::vector<std::string>> const* chains_of(resource_plan const& resource) {
  auto const found = resource.options.find("chains");
  return found == resource.options.end() ? nullptr
                                         : std::get_if<std::vector<std::vector<std::string>>>(&found->second);
}

file_position bin_position(draft const& all, int device, std::string const& binning, std::size_t index) {
  std::string const bin = binning + ".bins." + std::to_string(index) + ".to";
  return all.where("device." + std::to_string(device) + "." + bin, "resource." + bin, "resource." + binning);
}

std::vector<chain_view> branches(resource_plan const& fallback, chain_view const& user) {
  std::vector<chain_view> result;
  auto const* const chains = chains_of(fallback);
  for (std::size_t i = 0; chains != nullptr && i < chains->size(); ++i) {
    std::string const key = fallback.name + ".chains." + std::to_string(i);
    result.push_back({"resource." + key, "device." + std::to_string(user.device) + "." + key,
                      "chain " + std::to_string(i + 1) + " of " + quoted(fallback.name), user.route,
                      (*chains)[i], user.device, true, user.all, user.out});
  }
  return result;
}

std::string drivers_of(std::string_view route) {
  std::vector<std::string_view> names;
  for (auto const& type : all_types()) {
    if (type.part == role::driver && holds_word(type.routes, route)) names.push_back(type.name);
  }
  return "its drivers are: " + joined(names);
}

}  // namespace gpumem::config
