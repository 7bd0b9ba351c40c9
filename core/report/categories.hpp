// Which category ([report.categories]) code belongs to, and what each category holds of a device: by samples,
// an estimate, and by the library that called, exact. The first name of which a pattern matches wins; what no
// pattern matches is "other", so the rows of a device add up to what was sampled, and to what all libraries
// hold. Used by make_document; pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/report/document_options.hpp"
#include "core/report/frame_names.hpp"

namespace gpumem::report {

class category_table {
 public:
  explicit category_table(std::vector<stats::category> const& categories) : categories_(categories) {}

  bool empty() const noexcept { return categories_.empty(); }
  std::size_t size() const noexcept { return categories_.size() + 1; }  // with "other", the last
  std::string name(std::size_t number) const;
  std::vector<std::string> const& patterns(std::size_t number) const { return categories_[number].patterns; }

  std::size_t of_library(std::string const& path) const;
  // By each of its frames and lines of Python.
  std::size_t of_site(document const& frames, std::vector<stats::python_place> const& python) const;

 private:
  std::size_t first_match(std::vector<std::string> const& files, std::vector<std::string> const& names) const;
  std::vector<stats::category> const& categories_;
};

// Of all sampled sites, by their numbers; empty where there are no categories.
using site_categories = std::map<unsigned, std::size_t>;
site_categories categories_of_sites(stats::snapshot const& from, frame_names const& names,
                                    category_table const& table);

// {names: [{name, patterns}], devices: [{device, rows: [{name, samples: {now_bytes, at_highest_bytes},
// libraries: {now_bytes, at_highest_bytes}}]}]}
document categories_of(stats::snapshot const& from, category_table const& table,
                       site_categories const& sites);
// Of a refusal: [{name, held_bytes}], by its sites.
document categories_of(stats::failure_note const& note, category_table const& table,
                       site_categories const& sites);

}  // namespace gpumem::report
