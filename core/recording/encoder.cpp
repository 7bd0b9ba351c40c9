// See encoder.hpp.
#include "core/recording/encoder.hpp"

#include <algorithm>

namespace gpumem::recording {
namespace {

constexpr std::size_t least_frame = 64 * 1024;
// Left in a frame: for one event with all its definitions; and for events of one stamp, which are not parted.
constexpr std::size_t room_for_one = 8 * 1024;
constexpr std::size_t room_for_equals = 2 * room_for_one;
constexpr std::size_t most_live_bytes = 40;  // of one live event, about

constexpr std::uint64_t up_to_page(std::uint64_t offset) noexcept {
  return (offset + file_page - 1) / file_page * file_page;
}

}  // namespace

encoder::encoder(frame_sink& sink, name_source& names, std::uint64_t max_bytes) noexcept
    : sink_(sink),
      names_(names),
      max_bytes_(max_bytes),
      chunk_bytes_(max_bytes == 0 ? usual_chunk
                                  : std::clamp(max_bytes / 8, std::uint64_t{2 * least_frame}, usual_chunk)) {}

void encoder::resume(encoder_position const& from) noexcept {
  position_ = from;
  last_stamp_ = from.until;
  // What the frames there have left of their chunk is not known, nor what they defined: a new one begins.
  position_.chunk_is_open = false;
  resumes_ = from.chunk != 0;
}

std::size_t encoder::most_frame() const noexcept {
  return std::min<std::size_t>(256 * 1024, chunk_bytes_ / 2);
}

// Of a third of the file, where that holds what is live: the chunk before this one then stays, wherever it
// is.
bool encoder::lay_within_limit(std::uint64_t live, extent& place) const noexcept {
  std::uint64_t const least = live + 2 * least_frame, all = max_bytes_ - file_page;
  std::uint64_t const half = all / 2 / file_page * file_page, third = all / 3 / file_page * file_page;
  if (least > half) return false;
  std::uint64_t const wanted = std::min(place.end - place.begin, least > third ? half : third);
  place.end = place.begin + wanted;
  if (place.end <= max_bytes_) return true;
  std::uint64_t const before =
      position_.chunk < first_laid_ ? max_bytes_ : laid_[position_.chunk % laid_.size()].begin;
  if (before - file_page < least && max_bytes_ > place.begin && max_bytes_ - place.begin >= least) {
    place.end = max_bytes_;
    return true;
  }
  place = {.begin = file_page, .end = file_page + wanted};
  if (before - file_page >= least) place.end = std::min(place.end, before);
  return true;
}

// Chunks before this one that nothing of it will overwrite.
std::uint16_t encoder::whole_before() const noexcept {
  std::uint16_t count = 0;
  extent const own = laid_[position_.chunk % laid_.size()];
  while (count + 1u < laid_.size() && position_.chunk - count > first_laid_) {
    extent const& other = laid_[(position_.chunk - count - 1) % laid_.size()];
    if (other.begin < own.end && own.begin < other.end) break;
    ++count;
  }
  return count;
}

void encoder::begin_chunk(std::uint64_t stamp) noexcept {
  std::uint64_t const live = live_.size() * most_live_bytes + file_page;
  extent place{.begin = up_to_page(position_.offset), .end = 0};
  place.end = place.begin + live + std::max(chunk_bytes_, 4 * live);
  if (max_bytes_ != 0 && !lay_within_limit(live, place)) {
    failure_ = "max_size is too small for what is live at once: half of it must hold that";
    return;
  }
  position_.offset = place.begin;
  chunk_end_ = place.end;
  ++position_.chunk;
  laid_[position_.chunk % laid_.size()] = place;
  first_laid_ = std::min(first_laid_, position_.chunk);
  position_.number = 0;
  position_.chunk_is_open = true;
  told_rings_.reset(), told_libraries_.reset(), told_sites_.reset(), told_modules_.reset();
  told_phases_.reset();
  open_frame(stamp, static_cast<std::uint16_t>(live_frame | (resumes_ ? resumed : 0)));
  resumes_ = false;
  live_.each([this, stamp](event const& one) {
    if (failed()) return;
    if (out_.left() < room_for_one) {
      close_frame(position_.until, live_frame);
      open_frame(stamp, live_frame);
    }
    if (!failed()) put(one);
  });
  if (!failed()) close_frame(position_.until, live_frame);
}

void encoder::open_frame(std::uint64_t stamp, std::uint16_t flags) noexcept {
  auto const place = sink_.buffer();
  if (place.size() < least_frame) {
    failure_ = "the file cannot be written";
    return;
  }
  std::size_t const size = std::min(place.size(), most_frame());
  frame_ = place.data();
  head_ = {.magic = frame_magic,
           .bytes = 0,
           .checksum = 0,
           .chunk = position_.chunk,
           .number = position_.number,
           .flags = flags,
           .whole_before = position_.number == 0 ? whole_before() : std::uint16_t{0},
           .events = position_.events,
           .first_stamp = stamp,
           .until = 0,
           .written = {}};
  out_ = byte_writer(place.subspan(sizeof head_, size - sizeof head_));
  before_ = {.stamp = stamp};
  frame_events_ = 0;
  frame_is_open_ = true;
}

void encoder::close_frame(std::uint64_t until, std::uint16_t flags) noexcept {
  std::size_t const bytes = sizeof head_ + out_.used();
  bool const is_last = (flags & live_frame) == 0 && position_.offset + bytes + most_frame() > chunk_end_;
  head_.bytes = static_cast<std::uint32_t>(bytes);
  head_.flags = static_cast<std::uint16_t>(head_.flags | flags | (is_last ? last_of_chunk : 0));
  head_.until = until;
  head_.written = sink_.now();
  std::memcpy(frame_, &head_, sizeof head_);
  head_.checksum = checksum_of({frame_ + behind_checksum, bytes - behind_checksum});
  std::memcpy(frame_, &head_, sizeof head_);
  sink_.write(position_.offset, bytes);
  position_.offset += bytes;
  position_.events += frame_events_;
  position_.until = until;
  ++position_.number;
  position_.chunk_is_open = !is_last;
  frame_is_open_ = false;
}

void encoder::put_text(char const* text) noexcept {
  std::size_t const length = std::min(std::strlen(text), std::size_t{255});
  out_.put_number(length);
  out_.put_bytes(text, length);
}

void encoder::define_library(unsigned id) noexcept {
  told_libraries_.set(id);
  char const* const path = names_.library(id);
  if (path == nullptr) return;
  out_.put(static_cast<unsigned char>(action::library));
  out_.put(static_cast<unsigned char>(id));
  put_text(path);
}

void encoder::define_site(unsigned number) noexcept {
  told_sites_.set(number);
  std::uint64_t addresses[name_source::most_frames];
  std::size_t const count = names_.site(number, addresses);
  name_source::module_name in[name_source::most_frames];
  for (std::size_t i = 0; i < count; ++i) {
    bool const known = names_.module(addresses[i], in[i]) && in[i].number < told_modules_.size();
    if (!known) in[i] = {.number = 0, .offset = addresses[i]};
    if (!known || told_modules_.test(in[i].number)) continue;
    told_modules_.set(in[i].number);
    out_.put(static_cast<unsigned char>(action::module));
    out_.put_number(in[i].number);
    put_text(in[i].path);
  }
  out_.put(static_cast<unsigned char>(action::site));
  out_.put_number(number);
  out_.put_number(count);
  for (std::size_t i = 0; i < count; ++i) {
    out_.put_number(in[i].number);
    out_.put_number(in[i].offset);
  }
}

void encoder::define_phase(unsigned number) noexcept {
  if (number >= told_phases_.size() || told_phases_.test(number)) return;
  told_phases_.set(number);
  char const* const name = names_.phase(number);
  if (name == nullptr) return;
  out_.put(static_cast<unsigned char>(action::phase));
  out_.put_number(number);
  put_text(name);
}

void encoder::put(event const& one) noexcept {
  if (one.what != action::thread && !told_rings_.test(one.ring)) {
    event const thread{
        .stamp = one.stamp, .number = owners_[one.ring], .what = action::thread, .ring = one.ring};
    encode(thread, before_, out_);
  }
  told_rings_.set(one.ring);
  if (is_taken(one.what) && !told_libraries_.test(one.library)) define_library(one.library);
  if (one.site != 0 && !told_sites_.test(one.site)) define_site(one.site);
  if (one.what == action::phase_begins) define_phase(one.number);
  encode(one, before_, out_);
}

void encoder::add(event const& one) noexcept {
  if (failed()) return;
  if (frame_is_open_) {
    bool const full =
        out_.left() < room_for_one || (out_.left() < room_for_equals && one.stamp > last_stamp_);
    if (full) close_frame(one.stamp, 0);
  }
  if (one.what == action::thread) owners_[one.ring] = one.number;
  if (!frame_is_open_) {
    if (!position_.chunk_is_open) begin_chunk(one.stamp);
    if (!failed()) open_frame(one.stamp, 0);
    if (failed()) return;
  }
  put(one);
  if (one.what != action::thread) ++frame_events_;
  last_stamp_ = one.stamp;
  live_.apply(one);
  if (live_.full()) failure_ = "no host memory for the live set";
}

void encoder::commit(std::uint64_t until) noexcept {
  if (frame_is_open_ && !failed()) close_frame(until, 0);
}

void encoder::finish(std::uint64_t until) noexcept {
  if (!frame_is_open_ && !failed()) {
    if (!position_.chunk_is_open) begin_chunk(until);
    if (!failed()) open_frame(until, 0);
  }
  if (!failed()) close_frame(until, last_of_file);
}

}  // namespace gpumem::recording
