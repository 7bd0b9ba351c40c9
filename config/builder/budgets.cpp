// See budgets.hpp. Follows routes and rules through bins and fallbacks to every `limiting` that may stand in
// its way.
#include "config/builder/budgets.hpp"

#include <set>

#include "core/driver/error.hpp"
#include "core/driver/question.hpp"
#include "core/driver/table.hpp"

namespace gpumem::config {

namespace {

plan const* in_use = nullptr;

class search {
 public:
  explicit search(int device) : device_(device) {
    std::size_t total = 0;
    driver::real.cuDeviceTotalMem_v2(&total, device);
    total_ = total;
    CUdevice current = -1;
    std::size_t free = 0;
    CUcontext context = nullptr;
    if (driver::asked(driver::real.cuCtxGetCurrent, &context) == CUDA_SUCCESS && context != nullptr &&
        driver::asked(driver::real.cuCtxGetDevice, &current) == CUDA_SUCCESS && current == device &&
        driver::asked(driver::real.cuMemGetInfo_v2, &free, &total) == CUDA_SUCCESS) {
      free_ = free;
      free_known_ = true;
    }
  }

  void list(std::vector<std::string> const& names) {
    for (auto const& name : names) one(name);
  }
  // False: a share of free memory could not be told.
  bool complete() const noexcept { return complete_; }

 private:
  void one(std::string const& name) {
    resource_plan const* const r = in_use->find(name, device_);
    if (r == nullptr || !seen_.insert(name).second) return;
    option_reader const options(*r, free_, total_);
    if (r->type == "limiting") limit(options);
    if (auto const* bins = options.value<std::vector<bin>>("bins")) {
      for (bin const& b : *bins) {
        if (!b.to.empty()) one(b.to);
      }
    }
    if (auto const* chains = options.value<std::vector<std::vector<std::string>>>("chains")) {
      for (auto const& names : *chains) list(names);
    }
  }

  void limit(option_reader const& options) {
    auto const* size = options.value<size_value>("allocation_limit");
    bool const unknown =
        size != nullptr && ((size->kind == size_value::unit::percent_of_free && !free_known_) ||
                            (size->kind == size_value::unit::percent_of_total && total_ == 0));
    if (unknown) {
      complete_ = false;
    } else {
      budget_of(options, device_, driver::memory_kind::device);
    }
  }

  int const device_;
  std::uint64_t free_ = 0;
  std::uint64_t total_ = 0;
  bool free_known_ = false;
  bool complete_ = true;
  std::set<std::string> seen_;
};

bool make(int device) noexcept try {
  search all(device);
  all.list(in_use->device.chain);
  all.list(in_use->managed.chain);
  for (rule_plan const& rule : in_use->rules) {
    if (rule.kind != "host") all.list(rule.chain.chain);
  }
  return all.complete();
} catch (...) {
  return false;  // no host memory: asked again at the next call
}

}  // namespace

route::limit_maker use_limits(plan const& effective) noexcept {
  in_use = &effective;
  return make;
}

resource::budget& budget_of(option_reader const& options, int device, driver::memory_kind kind) {
  auto* const found =
      resource::budget::find_or_make({.name = options.name(),
                                      .device = device,
                                      .limit = options.bytes("allocation_limit", ~std::uint64_t{0}),
                                      .report_as_total = options.flag("report_as_total", false),
                                      .host = kind == driver::memory_kind::host});
  if (found == nullptr) {
    throw driver::allocation_failed(CUDA_ERROR_OUT_OF_MEMORY, "limiting", "no host memory for its tables",
                                    driver::refused_by::tables);
  }
  return *found;
}

}  // namespace gpumem::config
