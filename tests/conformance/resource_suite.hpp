// What a resource's file of this folder gives to resource_suite.cpp, which holds what every resource promises
// and is compiled once for all: the chains to test. A chain has: build(chain_context), largest (bytes it
// serves), keeps_blocks (frees go to a cache of its own) and outlives_context (the driver's memory does). The
// factory runs on the router's slow path, as config/builder/builder's does. No header of the test framework
// is needed here.
#pragma once

#include <typeinfo>
#include <vector>

#include "core/resource/chain.hpp"
#include "core/resource/pools/direct.hpp"
#include "core/resource/pools/fixed_size.hpp"
#include "core/resource/pools/pool.hpp"
#include "core/resource/selectors/binning.hpp"
#include "core/route/requests/hot_path.hpp"
#include "core/route/router.hpp"
#include "core/upstream/cuda.hpp"
#include "core/upstream/cuda_async.hpp"

namespace gpumem::conformance {

struct chain_case {
  char const* name;
  route::chain_factory build;
  std::uint64_t largest;
  bool keeps_blocks;
  bool outlives_context;
};

template <typename... Chains>
std::vector<chain_case> cases_of() {
  return {chain_case{typeid(Chains).name(), Chains::build, Chains::largest, Chains::keeps_blocks,
                     Chains::outlives_context}...};
}

// NAME_conformance.cpp defines NAME_chains, with cases_of.
#define GPUMEM_CONFORMANCE(name) std::vector<chain_case> name##_chains();
#include "conformance_list.hpp"  // made by CMakeLists.txt
#undef GPUMEM_CONFORMANCE

}  // namespace gpumem::conformance
