// Frames on their way to the disk. The recorder's thread fills slots of the shared area, a thread of the
// spool writes them to the file: a disk that stalls holds up that thread alone. Where all slots wait, the
// recorder waits for one, and `blocked()` is true.
#pragma once

#include <pthread.h>

#include "core/base/files/kept_file.hpp"
#include "core/base/threads/doorbell.hpp"
#include "core/recording/encoder.hpp"
#include "core/recording/writer/shared_area.hpp"

namespace gpumem::recording {

class spool final : public frame_sink {
 public:
  spool(shared_area& in, base::kept_file& file) noexcept : area_(in), file_(file) {}

  // --- of the recorder's thread ---
  std::span<unsigned char> buffer() noexcept override;
  void write(std::uint64_t offset, std::size_t bytes) noexcept override;
  clock_pair now() noexcept override;
  // Frames not written yet.
  std::uint64_t waiting() const noexcept;
  bool empty() const noexcept { return waiting() == 0; }

  // --- of the spool's own thread ---
  // Until stop(); writes what is there when it comes.
  void run() noexcept;

  // --- of any ---
  void stop() noexcept;
  // Whoever waits for a place waits no more, and there is none from now on. What is there is written.
  void give_up() noexcept;
  bool blocked() const noexcept { return blocked_.load(std::memory_order_relaxed); }
  std::uint64_t written() const noexcept { return written_.load(std::memory_order_acquire); }
  // What the system said to a write that failed; 0: none did. Nothing is written any more.
  int error() const noexcept { return error_.load(std::memory_order_acquire); }

 private:
  bool write_next() noexcept;

  shared_area& area_;
  base::kept_file& file_;
  base::doorbell frames_, places_;
  std::size_t filling_ = 0;
  std::uint64_t last_ = 0;  // number of the last frame put in
  std::atomic<std::uint64_t> put_{0}, written_{0};
  std::atomic<bool> blocked_{false}, stopping_{false}, given_up_{false};
  std::atomic<int> error_{0};
};

clock_pair clock_now(bool monotonic) noexcept;
// All of it or errno.
bool write_at(int descriptor, void const* from, std::size_t bytes, std::uint64_t offset) noexcept;

}  // namespace gpumem::recording
