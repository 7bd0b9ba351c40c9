// What the copy and fill functions share.
// Called by api_copy.cpp and api_copy_pitched.cpp under the machine's lock.
// A one-dimensional copy is one row.
#pragma once

#include "entry.hpp"

namespace simulated {

struct copy_shape {
  std::uint64_t target = 0, source = 0;
  std::uint64_t width = 0, rows = 1;
  std::uint64_t target_pitch = 0, source_pitch = 0;
};

struct direction {
  bool source_host = false, target_host = false;
  bool strict = true;  // an unknown address where device memory is due is an error
};

// The contexts that a copy between peers names; null: the stream's own.
struct named_contexts {
  CUcontext target = nullptr, source = nullptr;
};

CUresult copy(machine& m, CUstream on, copy_shape const& shape, direction way, bool blocking,
              named_contexts const& named = {});
CUresult fill(machine& m, CUstream on, CUdeviceptr target, std::uint64_t pitch, unsigned value,
              unsigned element, std::uint64_t width, std::uint64_t rows);
// A blocking call is unsafe while captures are watched, and never allowed on a capturing stream.
CUresult refuse_blocking(machine& m, CUstream on);

}  // namespace simulated
