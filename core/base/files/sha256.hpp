// SHA-256, to name a configuration by its content in reports. Slow path, any thread; no heap but the result.
// Not for secrets.
#pragma once

#include <string>
#include <string_view>

namespace gpumem::base {

// 64 lower-case hexadecimal digits.
std::string sha256(std::string_view text);

}  // namespace gpumem::base
