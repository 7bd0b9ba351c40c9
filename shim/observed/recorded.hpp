// What the recording is told of memory that is seen and not routed. Called where it is remembered, by the
// tables of this folder: after the driver gave it, before the driver takes it back. Any thread.
#pragma once

#include "core/recording/writer/record.hpp"
#include "core/route/limits.hpp"

namespace gpumem::shim {

inline void record_observed(bool taken, recording::key_kind kind, std::uint64_t key,
                            route::observed_bytes const& held) noexcept {
  if (!recording::is_on()) [[likely]]
    return;
  recording::note({.address = key,
                   .bytes = held.bytes,
                   .site = static_cast<std::uint16_t>(held.sampled.site),
                   .what = taken ? recording::action::observed_taken : recording::action::observed_given_back,
                   .keys = kind,
                   .device = static_cast<std::uint8_t>(held.device),
                   .library = static_cast<std::uint8_t>(held.library)});
}

}  // namespace gpumem::shim
