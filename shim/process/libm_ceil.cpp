// ceil() for fmt's formatting of numbers in the report. It is the only function of libm that this library
// uses, and loading libm costs every process 0.04 ms, also those without CUDA (measured).
#include <cstdint>

extern "C" [[gnu::visibility("hidden")]] double ceil(double value) noexcept {
  constexpr double all_whole = 4503599627370496.0;  // 2^52: from here on a double has no fraction
  if (!(value > -all_whole && value < all_whole)) return value;
  auto const whole = static_cast<double>(static_cast<std::int64_t>(value));
  return whole < value ? whole + 1.0 : whole;
}
