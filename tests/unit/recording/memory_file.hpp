// A recording's file in memory, as tests make it: what the encoder writes, and events of a random program.
#pragma once

#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "core/recording/encoder.hpp"

namespace gpumem::recording {

class no_names final : public name_source {
 public:
  char const* library(unsigned id) noexcept override { return id == 1 ? "/lib/libone.so" : nullptr; }
  std::size_t site(unsigned, std::uint64_t (&addresses)[most_frames]) noexcept override {
    addresses[0] = 0x1234;
    addresses[1] = 0x9999;
    return 2;
  }
  bool module(std::uint64_t address, module_name& found) noexcept override {
    found = {.number = 3, .offset = address, .path = "/bin/program"};
    return address == 0x1234;
  }
};

class memory_file final : public frame_sink {
 public:
  std::span<unsigned char> buffer() noexcept override { return frame_; }
  void write(std::uint64_t offset, std::size_t size) noexcept override {
    if (bytes.size() < offset + size) bytes.resize(offset + size);
    std::memcpy(bytes.data() + offset, frame_.data(), size);
  }
  clock_pair now() noexcept override { return {++ticks_ * 1000, ticks_ * 1000}; }

  void save(std::string const& path, std::uint64_t max_bytes, end_state state = end_state::complete) {
    file_head head{};
    std::memcpy(head.magic, file_magic, sizeof head.magic);
    head.version = format_version;
    head.state = state;
    head.max_bytes = max_bytes;
    if (bytes.size() < file_page) bytes.resize(file_page);
    std::memcpy(bytes.data(), &head, sizeof head);
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<char const*>(bytes.data()), static_cast<long>(bytes.size()));
  }

  std::vector<unsigned char> bytes;

 private:
  std::vector<unsigned char> frame_ = std::vector<unsigned char>(256 * 1024);
  std::uint64_t ticks_ = 0;
};

// Takes and gives back; keeps what is live.
class random_events {
 public:
  explicit random_events(unsigned seed) : random_(seed) {}

  event next() {
    stamp_ += 1 + random_() % 1000;
    bool const gives = !live.empty() && random_() % 100 < (live.size() > 500 ? 60u : 45u);
    event one{.stamp = stamp_,
              .device = static_cast<std::uint8_t>(random_() % 2),
              .ring = static_cast<std::uint8_t>(random_() % 3)};
    if (gives) {
      std::size_t const place = random_() % keys_.size();
      auto const which = live.find(keys_[place]);
      one.address = which->second.address;
      one.keys = which->second.keys;
      one.device = which->second.device;
      one.what = which->second.what == action::allocate        ? action::free
                 : which->second.what == action::segment_taken ? action::segment_given_back
                                                               : action::observed_given_back;
      live.erase(which);
      keys_[place] = keys_.back();
      keys_.pop_back();
      return one;
    }
    auto const kind = static_cast<unsigned>(random_() % 10);
    one.what = kind < 8 ? action::allocate : kind == 8 ? action::segment_taken : action::observed_taken;
    one.keys = kind < 8 ? key_kind::block : kind == 8 ? key_kind::segment : key_kind::array;
    do {
      one.address = (0x7f0000000000 + random_() % 4096 * 512) | (kind == 9 ? random_() % 512 : 0);
    } while (live.contains({one.keys, one.address}));
    one.bytes = 1 + random_() % (1u << 20);
    one.rounding = kind < 8 ? static_cast<std::uint32_t>(random_() % 512) : 0;
    one.stream = random_() % 2 == 0 ? 0 : 0x55550000 + random_() % 4;
    one.library = static_cast<std::uint8_t>(random_() % 3);
    one.site = random_() % 50 == 0 ? static_cast<std::uint16_t>(1 + random_() % 9) : std::uint16_t{0};
    live[{one.keys, one.address}] = one;
    keys_.push_back({one.keys, one.address});
    return one;
  }
  std::uint64_t stamp() const { return stamp_; }

  std::map<std::pair<key_kind, std::uint64_t>, event> live;

 private:
  std::mt19937 random_;
  std::vector<std::pair<key_kind, std::uint64_t>> keys_;  // of `live`, in no order: for the choice of one
  std::uint64_t stamp_ = 1000;
};

}  // namespace gpumem::recording
