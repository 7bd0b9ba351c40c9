// One event of a recording, as a thread leaves it in its ring and as a reader gives it out. Plain data, of
// one size, so that a ring may lie in a mapped file. What each action means is in docs/recording.md; numbers
// keep their meaning for ever, as they are in files.
#pragma once

#include <bit>
#include <cstdint>

namespace gpumem::recording {

enum class action : std::uint8_t {
  none = 0,
  allocate = 1,             // a chain gave the program a block
  free = 2,                 // the program gave it back
  lost = 3,                 // it ended with its context
  segment_taken = 4,        // memory that a chain took from the driver
  segment_given_back = 5,   //
  observed_taken = 6,       // memory that the driver gave the program, seen by a hook
  observed_given_back = 7,  //
  refused = 8,              // a request got an error: `number` is its code
  completed = 9,            // epochs of `address` (a context) up to `number` are done: see docs/recording.md
  phase_begins = 10,        // `address` is a number of its own, `number` its name's
  phase_ends = 11,          //
  thread = 12,              // events of this ring are of thread `number` from here on
  // of files only
  library = 32,
  module = 33,
  site = 34,
  phase = 35,
};

// Keys of different kinds may be equal numbers.
enum class key_kind : std::uint8_t {
  block = 0,
  segment = 1,
  address = 2,
  array = 3,
  mipmapped_array = 4,
  physical = 5,  // of cuMemCreate; the key is a number of ours
  phase = 6,
};

struct event {
  std::uint64_t stamp = 0;    // ticks of the recording's clock; the order of events
  std::uint64_t address = 0;  // or another key
  std::uint64_t bytes = 0;    // as asked
  std::uint64_t stream = 0;   // the handle, 0: none
  std::uint32_t rounding = 0;
  std::uint32_t number = 0;  // see action
  std::uint16_t site = 0;    // of a sample; 0: none
  action what = action::none;
  key_kind keys = key_kind::block;
  std::uint8_t device = 0;
  std::uint8_t library = 0;  // stats::library_id
  std::uint8_t ring = 0;     // which thread; set by the reader of rings
  std::uint8_t spare = 0;

  bool operator==(event const&) const = default;
};
static_assert(sizeof(event) == 48);

// The same as six words, of which the first is the stamp: a thread writes its ring so. Built of smaller
// pieces and copied, an event takes a third longer, as its bytes are not there yet when they are read.
struct event_words {
  std::uint64_t stamp, address, bytes, stream, sizes, kinds;
};
static_assert(sizeof(event_words) == sizeof(event));
constexpr std::uint64_t sizes_word(std::uint32_t rounding) noexcept {
  return rounding;
}
constexpr std::uint64_t kinds_word(action what, unsigned device, unsigned library, unsigned site) noexcept {
  return std::uint64_t{site & 0xffff} | static_cast<std::uint64_t>(what) << 16 |
         std::uint64_t{device & 0xff} << 32 | std::uint64_t{library & 0xff} << 40;
}
static_assert(std::bit_cast<event>(event_words{1, 2, 3, 4, sizes_word(5),
                                               kinds_word(action::lost, 6, 7, 8)}) ==
              event{.stamp = 1,
                    .address = 2,
                    .bytes = 3,
                    .stream = 4,
                    .rounding = 5,
                    .site = 8,
                    .what = action::lost,
                    .device = 6,
                    .library = 7});

constexpr bool is_taken(action what) noexcept {
  return what == action::allocate || what == action::segment_taken || what == action::observed_taken;
}
constexpr bool is_given_back(action what) noexcept {
  return what == action::free || what == action::lost || what == action::segment_given_back ||
         what == action::observed_given_back;
}
// What is live from here on, or no longer: memory, or a phase.
constexpr bool is_begin(action what) noexcept {
  return is_taken(what) || what == action::phase_begins;
}
constexpr bool is_end(action what) noexcept {
  return is_given_back(what) || what == action::phase_ends;
}

}  // namespace gpumem::recording
