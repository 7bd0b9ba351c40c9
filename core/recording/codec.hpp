// Events as bytes of a file: numbers of 7 bits a byte, addresses, streams and stamps as differences to the
// event before. 9 to 16 bytes an event. Pure; used by the encoder and by readers. A decoder believes nothing:
// what does not parse ends it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/recording/event.hpp"

namespace gpumem::recording {

// Never more bytes than this for one event (a definition adds its text).
inline constexpr std::size_t most_event_bytes = 64;

class byte_writer {
 public:
  byte_writer() = default;
  explicit byte_writer(std::span<unsigned char> into) noexcept : into_(into) {}

  std::size_t used() const noexcept { return used_; }
  std::size_t left() const noexcept { return into_.size() - used_; }
  void put(unsigned char byte) noexcept { into_[used_++] = byte; }
  void put_number(std::uint64_t number) noexcept {
    for (; number >= 128; number >>= 7) put(static_cast<unsigned char>(number | 128));
    put(static_cast<unsigned char>(number));
  }
  // Small where it is near 0 on either side, modulo 2^64.
  void put_difference(std::uint64_t difference) noexcept {
    put_number(difference << 1 ^ (std::uint64_t{0} - (difference >> 63)));
  }
  void put_bytes(void const* from, std::size_t bytes) noexcept {
    auto const* const begin = static_cast<unsigned char const*>(from);
    for (std::size_t i = 0; i < bytes; ++i) put(begin[i]);
  }

 private:
  std::span<unsigned char> into_;
  std::size_t used_ = 0;
};

class byte_reader {
 public:
  byte_reader() = default;
  explicit byte_reader(std::span<unsigned char const> from) noexcept : from_(from) {}

  bool good() const noexcept { return good_; }
  bool at_end() const noexcept { return at_ == from_.size(); }
  std::size_t at() const noexcept { return at_; }
  unsigned char get() noexcept {
    if (at_ < from_.size()) return from_[at_++];
    good_ = false;
    return 0;
  }
  std::uint64_t get_number() noexcept {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      std::uint64_t const byte = get();
      number |= (byte & 127) << shift;
      if (byte < 128) return number;
    }
    good_ = false;
    return 0;
  }
  std::uint64_t get_difference() noexcept {
    std::uint64_t const number = get_number();
    return number >> 1 ^ (std::uint64_t{0} - (number & 1));
  }
  std::span<unsigned char const> get_bytes(std::uint64_t bytes) noexcept {
    if (bytes > from_.size() - at_) {
      good_ = false;
      return {};
    }
    auto const part = from_.subspan(at_, static_cast<std::size_t>(bytes));
    at_ += part.size();
    return part;
  }

 private:
  std::span<unsigned char const> from_;
  std::size_t at_ = 0;
  bool good_ = true;
};

// What the next event of a frame is a difference to.
struct coding_context {
  std::uint64_t stamp = 0;
  std::uint64_t address = 0;
  std::uint64_t stream = 0;
};

inline constexpr unsigned char with_site = 64;
inline constexpr unsigned char in_units = 128;  // the address is one of 512 bytes

constexpr bool has_number(action what) noexcept {
  return what == action::refused || what == action::completed || what == action::phase_begins;
}

inline void encode(event const& one, coding_context& before, byte_writer& out) noexcept {
  std::uint64_t const difference = one.address - before.address;
  bool const units = one.address % 512 == 0 && before.address % 512 == 0;
  out.put(static_cast<unsigned char>(static_cast<unsigned>(one.what) | (one.site != 0 ? with_site : 0u) |
                                     (units ? in_units : 0u)));
  out.put_difference(one.stamp - before.stamp);
  out.put(one.ring);
  before.stamp = one.stamp;
  if (one.what == action::thread) return out.put_number(one.number);
  out.put(one.device);
  out.put(static_cast<unsigned char>(one.keys));
  // Divided as a signed number, so that a step back stays small.
  out.put_difference(units ? static_cast<std::uint64_t>(static_cast<std::int64_t>(difference) / 512)
                           : difference);
  before.address = one.address;
  out.put_difference(one.stream - before.stream);
  before.stream = one.stream;
  if (has_number(one.what)) out.put_number(one.number);
  if (!is_taken(one.what) && one.what != action::refused) return;
  out.put_number(one.bytes);
  out.put_number(one.rounding);
  out.put(one.library);
  if (one.site != 0) out.put_number(one.site);
}

// False: these bytes are no event. Definitions (library and up) are left to the caller, behind the
// first byte.
inline bool decode(byte_reader& in, coding_context& before, event& one) noexcept {
  one = {};
  unsigned const first = in.get();
  one.what = static_cast<action>(first & 63);
  if (one.what >= action::library) return in.good();
  if (one.what == action::none || one.what > action::thread) return false;
  before.stamp += in.get_difference();
  one.stamp = before.stamp;
  one.ring = in.get();
  if (one.what == action::thread) {
    one.number = static_cast<std::uint32_t>(in.get_number());
    return in.good();
  }
  one.device = in.get();
  one.keys = static_cast<key_kind>(in.get());
  if (one.keys > key_kind::phase) return false;
  std::uint64_t const difference = in.get_difference();
  before.address += (first & in_units) != 0 ? difference * 512 : difference;
  one.address = before.address;
  before.stream += in.get_difference();
  one.stream = before.stream;
  if (has_number(one.what)) one.number = static_cast<std::uint32_t>(in.get_number());
  if (!is_taken(one.what) && one.what != action::refused) return in.good();
  one.bytes = in.get_number();
  one.rounding = static_cast<std::uint32_t>(in.get_number());
  one.library = in.get();
  if ((first & with_site) != 0) one.site = static_cast<std::uint16_t>(in.get_number());
  return in.good();
}

}  // namespace gpumem::recording
