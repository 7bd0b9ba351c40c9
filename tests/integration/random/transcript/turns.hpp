// A second thread that works only while the first one waits for it. Used by the first thread alone.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

namespace transcript {

class turns {
 public:
  turns() { start(); }
  ~turns() { stop(); }
  turns(turns const&) = delete;
  turns& operator=(turns const&) = delete;

  void run(std::function<void()> work) {
    std::unique_lock lock(mutex_);
    work_ = std::move(work);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !work_; });
  }
  // The thread ends, with what it left behind; another one takes its place.
  void renew() {
    stop();
    start();
  }

 private:
  void start() {
    over_ = false;
    thread_ = std::thread([this] { serve(); });
  }
  void stop() {
    {
      std::lock_guard const lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return over_ || work_; });
      if (over_) return;
      work_();
      work_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace transcript
