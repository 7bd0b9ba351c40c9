// Rules over single resources, then over chains; see validate.hpp. One thread, once a load.
// Each rule runs on the values of every device that has its own; a finding is kept once.
#include "config/checks/validate.hpp"

#include <bit>

#include "config/checks/chain_rules.hpp"
#include "config/reader/sections/resource_reader.hpp"
#include "config/reader/sections/rule_checks.hpp"
#include "config/text/size_text.hpp"

namespace gpumem::config {
namespace {

size_value const* size_of(resource_plan const& resource, char const* key) {
  auto const found = resource.options.find(key);
  return found == resource.options.end() ? nullptr : std::get_if<size_value>(&found->second);
}

// Known before the device is: bytes against bytes, or parts of the same whole; free is never more than total.
bool is_surely_larger(size_value const& a, size_value const& b) noexcept {
  using unit = size_value::unit;
  if (a.kind == unit::bytes && b.kind == unit::bytes) return a.bytes > b.bytes;
  return a.kind == b.kind && a.kind != unit::bytes && a.percent > b.percent;
}

void check_pool(resource_plan const& pool, std::string const& where, draft const& all, diagnostics& out) {
  size_value const* const initial = size_of(pool, "initial_pool_size");
  size_value const* const maximum = size_of(pool, "maximum_pool_size");
  if (initial == nullptr || maximum == nullptr || !is_surely_larger(*initial, *maximum)) return;
  std::string const base = "resource." + pool.name;
  file_position const limit = all.where(where + ".maximum_pool_size", base + ".maximum_pool_size");
  out.error("E220", all.where(where + ".initial_pool_size", base + ".initial_pool_size"),
            "initial_pool_size (" + write_size(*initial) + ") is larger than maximum_pool_size (" +
                write_size(*maximum) + ", " + std::to_string(limit.line) + ":" +
                std::to_string(limit.column) + ")",
            "raise maximum_pool_size, or leave initial_pool_size out: the pool grows by itself");
}

void check_aligned(resource_plan const& aligned, std::string const& where, draft const& all,
                   diagnostics& out) {
  size_value const* const alignment = size_of(aligned, "alignment");
  if (alignment == nullptr || std::has_single_bit(alignment->bytes)) return;
  size_value up;
  up.bytes = std::bit_ceil(alignment->bytes);
  out.error("E221", all.where(where + ".alignment", "resource." + aligned.name + ".alignment"),
            "alignment (" + write_size(*alignment) + ") is no power of two",
            "the next one is " + write_size(up));
}

void check_resource(resource_plan& resource, std::string const& where, draft const& all, diagnostics& out) {
  complete(resource, where, all, out);
  if (resource.type == "pool") check_pool(resource, where, all, out);
  if (resource.type == "aligned") check_aligned(resource, where, all, out);
}

}  // namespace

void validate(draft& all, diagnostics& out) {
  for (auto& [name, resource] : all.result.resources) {
    check_resource(resource, "resource." + name, all, out);
  }
  for (auto& [number, resources] : all.result.devices) {
    for (auto& [name, resource] : resources) {
      check_resource(resource, "device." + std::to_string(number) + "." + name, all, out);
    }
  }
  check_rules(all, out);
  check_chains(all, out);
}

}  // namespace gpumem::config
