// Arithmetic over a suballocator's options: how much to take when it grows, how long a request waits for
// freed memory first, how many blocks of a size take turns. Called by suballocator under its mutex; holds
// no state and makes no call.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "core/space/blocks/block.hpp"

namespace gpumem::resource {

struct suballocator_options {
  char const* name = "";  // in the configuration; kept, not copied
  char const* maximum_option = "maximum_pool_size";
  std::uint64_t round_to = space::unit;       // sizes become multiples of this, a multiple of 512
  std::uint64_t largest = ~std::uint64_t{0};  // bigger requests are refused
  std::uint64_t initial = 0;                  // reserved at the start
  std::uint64_t maximum = ~std::uint64_t{0};  // never reserve more
  std::uint64_t growth = 0;                   // smallest growth step; 0: 1/32 of what is reserved
  // Give empty segments back while more than this is idle.
  std::uint64_t release_threshold = ~std::uint64_t{0};
  // Reserve beyond this only after waiting, and giving back, what is idle.
  std::uint64_t sparing_beyond = ~std::uint64_t{0};
  bool takes_no_more = false;  // there than a request needs, whatever comes and goes
  // Empty segments go back when nothing of them was in use for so long (going_back), in nanoseconds; ~0:
  // never.
  std::uint64_t release_after = ~std::uint64_t{0};
  std::uint64_t kept_idle = 0;  // never so that less than this is idle
  // Blocks of this size and more go back at once, unless their size has earned to be kept.
  std::uint64_t earned_from = ~std::uint64_t{0};
  bool one_magazine = false;  // for all threads, where one thread or stream has this suballocator for itself
};

class growth_policy {
 public:
  static constexpr std::uint32_t most_in_rotation = 128;
  static constexpr std::uint64_t price_of_growth_ns = 100'000;
  static constexpr std::uint64_t of_small = 32ull << 20;  // a segment for them where memory is scarce

  explicit constexpr growth_policy(suballocator_options const& options) noexcept : options_(options) {}

  // Bytes that may be reserved without waiting first.
  constexpr std::uint64_t spare() const noexcept {
    return std::min(options_.sparing_beyond, options_.maximum);
  }
  // So many bytes more are to be had only after what is idle was waited for, and went.
  constexpr bool spares(std::uint64_t reserved, std::uint64_t bytes) const noexcept {
    return reserved + bytes > options_.sparing_beyond;
  }
  // While memory is plentiful nothing waits for the GPU without bound: a kernel may itself be waiting for the
  // host, and cudaMalloc natively does not wait for it.
  constexpr bool would_exceed(std::uint64_t reserved, std::uint64_t bytes) const noexcept {
    return reserved + bytes > spare();
  }

  // Over pages: no idle piece may be cut from half of that on. Far below its bounds a pool has no need of
  // them.
  constexpr bool keeps_pieces_whole(std::uint64_t reserved, std::uint64_t bytes) const noexcept {
    return reserved + bytes > spare() / 2;
  }
  // Units of a piece that may stay idle beside a block of `units`, far below those bounds: of its last page,
  // as new pages would leave it; where many share a pool a part of the block, as to get just as many pages is
  // what most of their time goes to. More of stream-ordered blocks: natively they take more as well.
  static constexpr std::uint32_t left_over(std::uint32_t units, std::uint32_t page, bool of_many,
                                           bool of_stream) noexcept {
    return page - 1 + (of_many ? units / (of_stream ? 3 : 8) : 0);
  }

  // Bytes of the smallest block that has a place in a segment made for a request of `bytes`; 0: any has. A
  // segment that is much larger than its request is for many of them.
  static constexpr std::uint64_t least_in(std::uint64_t segment, std::uint64_t bytes) noexcept {
    return segment > driver_page && bytes >= segment / blocks_in_a_segment ? segment / blocks_in_a_segment
                                                                           : 0;
  }
  // Whether a request may grow the pool although segments for larger blocks have room for it: as long as
  // those that admit any block (`admitting`) are a small part, which is what this can cost.
  constexpr bool keeps_kinds_apart(std::uint64_t reserved, std::uint64_t admitting) const noexcept {
    return options_.growth == 0 && options_.round_to == space::unit && reserved >= many_segments &&
           admitting <= reserved / 8;
  }

  // Bytes at least for the superblocks of an arena's parts, which are many: all of them wait for a growth's
  // lock in the driver, and what is cut out of even segments lies less apart.
  constexpr std::uint64_t step_of_superblocks(std::uint64_t reserved) const noexcept {
    bool const may =
        options_.growth == 0 && reserved >= many_segments && !would_exceed(reserved, superblock_bytes);
    return may ? superblock_bytes : 0;
  }

  // Bytes to reserve for a request of `bytes`, rounded up as a driver takes them. While a stream captures
  // nothing that is freed serves again, so that growths come one after the other and each is larger. `idle`:
  // bytes that are done, and do not fit, of a pool that many share.
  constexpr std::uint64_t step(std::uint64_t bytes, std::uint64_t reserved, bool capturing,
                               std::uint64_t idle = 0) const noexcept {
    std::uint64_t step = options_.growth;
    // What is a good part of the whole is not rounded up to more: there cannot be many such growths.
    if (step == 0 && bytes < reserved / 64 && !would_exceed(reserved, bytes))
      step = std::min(reserved / (capturing ? 16 : 32), largest_step);
    // A driver takes as long for 2 MiB as for this.
    if (capturing && step < beside_a_capture && options_.growth == 0 && !options_.one_magazine &&
        !would_exceed(reserved, beside_a_capture))
      step = beside_a_capture;
    std::uint64_t const unit = options_.round_to > space::unit ? options_.round_to : driver_page;
    std::uint64_t const exact = round_up(std::max(step, bytes), unit);
    if (!is_in_pieces(reserved, idle)) return exact;
    std::uint64_t const even = round_up(exact, std::min(std::bit_floor(reserved / 16), largest_step));
    return would_exceed(reserved, even) ? exact : even;
  }

  // The same where memory is scarce, of which `left` is to be had: small blocks lie together.
  static constexpr std::uint64_t step_by_itself(std::uint64_t bytes, std::uint64_t left) noexcept {
    return bytes < driver_page && of_small < left ? of_small : round_up(bytes, driver_page);
  }

  // How long, in nanoseconds, a request that finds only memory whose work still runs looks for its end before
  // the pool grows. Between two growths as long as a growth takes, in all (`waited`: since the last one): the
  // GPU would otherwise wait each time. The more waits to be reused (`pending`) beside what is in use, the
  // further the host runs ahead of the GPU: then a wait costs little that the GPU is not behind already, and
  // a growth would be for good. Each may wait so long there; with the growth that may follow that is less
  // than twice what natively the longest request takes, and how far the host is ahead is for frees to bound
  // (stream_order/free_pace).
  constexpr std::uint64_t patience_ns(bool of_stream, std::uint64_t waited, std::uint64_t in_use,
                                      std::uint64_t pending, std::uint64_t bytes) const noexcept {
    std::uint64_t const left = price_of_growth_ns - std::min(waited, price_of_growth_ns);
    if (of_stream || is_little_work(pending, bytes)) return left;
    return pending > std::max<std::uint64_t>(32ull << 20, in_use / 8) ? price_of_growth_ns : left;
  }

  // So much that was freed waits for the GPU beside what is in use.
  constexpr bool is_far_ahead(std::uint64_t in_use, std::uint64_t pending,
                              std::uint64_t bytes) const noexcept {
    return pending > std::max(far_ahead, in_use / 4) && !is_little_work(pending, bytes);
  }
  // A large pool that is nearly as large as it may be: its next requests will wait for what is freed. Not
  // where that goes back, and leaves room.
  constexpr bool is_near_bound(std::uint64_t reserved) const noexcept {
    return reserved >= 4 * far_ahead && would_exceed(reserved, reserved / 8) &&
           options_.release_threshold == ~std::uint64_t{0};
  }
  // Bytes of it at most once frees keep the GPU's pace (stream_order/free_pace).
  constexpr std::uint64_t most_at_pace(std::uint64_t in_use, std::uint64_t reserved) const noexcept {
    return is_near_bound(reserved) ? far_ahead : std::max(far_ahead, in_use / 64);
  }

  // Bytes of blocks of one size that a program may have ahead of the GPU before its requests wait for it.
  // Measured (H100): with kernels of 20 us on four streams, eight blocks keep the GPU at work.
  constexpr std::uint64_t most_ahead(std::uint64_t bytes) const noexcept {
    return std::min(std::max(16 * bytes, little_memory), spare() / 32);
  }

  // So few blocks of the size asked for wait for the GPU that it may run out of work while the host waits.
  constexpr bool is_little_work(std::uint64_t pending, std::uint64_t bytes) const noexcept {
    return pending < most_ahead(bytes);
  }
  // Bytes to take then: as much again, so that a few growths do.
  constexpr std::uint64_t more_ahead(std::uint64_t pending, std::uint64_t bytes) const noexcept {
    return is_little_work(pending, bytes) ? std::min(pending, most_ahead(bytes) - pending) : 0;
  }

  // How many blocks of `bytes` take turns. An event costs 0.3 us, and 1.6 us and more where the GPU had work,
  // as much as many pairs without one: so many that it is shared by many. A batch of them is a small part of
  // the device's memory; of large blocks two, so that every other round has one. None where idle memory is to
  // be given back.
  constexpr std::uint32_t rotation_size(std::uint64_t bytes) const noexcept {
    if (2 * bytes > options_.release_threshold) return 1;
    std::uint64_t const batch =
        std::min({most_to_rotate(bytes), spare() / 256, options_.release_threshold}) / bytes;
    if (batch >= 2) return static_cast<std::uint32_t>(std::min<std::uint64_t>(batch, most_in_rotation));
    return bytes <= most_beside() ? 2 : 1;
  }
  // Bytes to take for `wanted` blocks in turn of which `there` exist, where `taken` bytes were taken so
  // before.
  constexpr std::uint64_t more_to_rotate(std::uint64_t bytes, std::uint32_t wanted, std::uint32_t there,
                                         std::uint64_t taken, std::uint64_t reserved) const noexcept {
    std::uint64_t const most = most_to_rotate(bytes), left = most - std::min(most, taken);
    std::uint64_t more = std::min((wanted - there) * bytes, left / bytes * bytes);
    // Two are worth most, so the second has room of its own.
    if (wanted >= 2 && there * bytes + more < 2 * bytes) more = (2 - there) * bytes;
    return taken + more > batch_bytes + most_beside() || would_exceed(reserved, more) ? 0 : more;
  }

 private:
  static constexpr std::uint64_t driver_page = 2ull << 20;    // the driver's own granularity
  static constexpr std::uint64_t little_memory = 4ull << 20;  // not worth an event each few blocks
  static constexpr std::uint64_t far_ahead = 256ull << 20;
  static constexpr std::uint64_t largest_step = 256ull << 20;
  static constexpr std::uint64_t many_segments = 64ull << 20;
  static constexpr std::uint64_t superblock_bytes = 32ull << 20;
  static constexpr std::uint64_t blocks_in_a_segment = 16;
  static constexpr std::uint64_t beside_a_capture = 16ull << 20;
  static constexpr std::uint64_t batch_bytes = 256ull << 20;

  // Nothing merges across the ends of segments, and of what one thread brought together others cut. Where
  // much is idle and does not fit, segments of a few even sizes serve more requests than those that were each
  // made for one.
  constexpr bool is_in_pieces(std::uint64_t reserved, std::uint64_t idle) const noexcept {
    return options_.growth == 0 && options_.round_to == space::unit && !options_.one_magazine &&
           reserved >= many_segments && idle > reserved / 4;
  }
  static constexpr std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) noexcept {
    return (bytes + unit - 1) / unit * unit;
  }

  static constexpr std::uint64_t most_to_rotate(std::uint64_t bytes) noexcept {
    return batch_bytes + 2 * bytes;
  }
  // What second blocks of large sizes may take.
  constexpr std::uint64_t most_beside() const noexcept {
    return std::min(spare() / 32, std::uint64_t{2} << 30);
  }

  suballocator_options const& options_;
};

}  // namespace gpumem::resource
