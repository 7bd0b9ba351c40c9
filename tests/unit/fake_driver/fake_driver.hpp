// A hand-made driver for tests of core: fills driver::real with functions over host memory and scripted
// events. Events become done when the test says so; calls that a capture forbids fail with 900 and say that
// they hurt it. Thread-safe, one for the process; reset() makes it fresh. Pages of large allocations appear
// only when touched.
#pragma once

#include <cuda.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/driver/table.hpp"

namespace gpumem::tests {

class fake_driver {
 public:
  static fake_driver& instance();
  // Everything as at the start: one context (1) on device 0, current nowhere but in calls that ask; all
  // functions real.
  void reset();

  // --- what the test says ---
  void manual_events(bool manual);  // false (the start): an event is done as soon as it is asked for
  void finish_all();                // all recorded events of contexts are done
  void finish_streams();            // and of streams, which are nobody else's
  bool has_work(CUstream stream);
  void finish(CUevent upto);               // this one and those recorded before it
  void finish_oldest();                    // the one recorded first of those not done
  void set_capacity(std::uint64_t bytes);  // of the device
  void fail(std::string const& name, CUresult code, int times = 1);
  void set_context(CUcontext context, int device);
  // The context has ended, and its memory with it; `again`: its handle names another one at once.
  void end_context(CUcontext context, bool again);
  void capture(CUstream stream);  // the real begin of a global-mode capture
  void end_capture(CUstream stream);
  // A stream made anew with this handle has another id.
  void new_stream(CUstream stream);
  // Called inside each call, with its name, without the lock of this driver.
  void at_call(std::function<void(char const*)> hook);
  // Called inside cuCtxRecordEvent, without the lock of this driver.
  void at_record(std::function<void()> hook);
  // The same inside cuEventQuery.
  void at_query(std::function<void()> hook);
  // The same inside cuCtxSynchronize and cuEventSynchronize, which then wait.
  void at_wait(std::function<void()> hook);
  // The same at the begin of cuMemFree.
  void at_free(std::function<void()> hook);

  // --- what the test asks ---
  int calls(std::string const& name);
  int frees();  // of device memory, at once or in the order of a stream
  int calls_in_all();
  bool capture_hurt();  // a forbidden call was made while a capture ran
  std::uint64_t used();
  std::size_t allocations();
  std::vector<std::pair<CUstream, CUevent>> stream_waits();
  std::set<int> pool_users();  // devices that cuMemPoolSetAccess gave access, to any pool

  // --- the functions ---
  CUresult enter(char const* name);   // counts, and says the scripted failure
  CUresult unsafe(char const* name);  // the same for what a global-mode capture forbids
  CUresult allocate(CUdeviceptr* address, std::uint64_t bytes);
  CUresult release(CUdeviceptr address);
  CUresult record(CUevent event);
  CUresult record_on_stream(CUevent event);
  CUresult query(CUevent event);
  CUresult synchronize();
  void wait_begins() { run(at_wait_); }
  void free_begins() { run(at_free_); }

  // Virtual memory (fake_pages.cpp). Pages are host memory of their address: what is moved loses its content.
  static constexpr std::uint64_t page = 2ull << 20;
  void install_pages();
  std::size_t pages_mapped();
  struct physical {
    std::uint64_t bytes;
    int references;  // the handle and its map
  };
  std::map<CUdeviceptr, std::uint64_t> ranges;
  std::map<CUmemGenericAllocationHandle, physical> physicals;
  std::map<CUdeviceptr, CUmemGenericAllocationHandle> mapped;
  std::map<CUdevice_attribute, int> attributes;  // others are 1

  std::mutex mutex;
  std::map<CUcontext, int> devices;
  std::map<CUcontext, unsigned long long> context_ids;  // others are their handle's number; 0: it has ended
  std::map<CUstream, unsigned long long> stream_ids;
  std::set<CUstream> capturing;
  std::set<CUstream> idle_streams;  // of manual events: those that have no work
  std::set<CUstream> blocking_streams;
  std::vector<std::pair<CUstream, CUevent>> waits;
  std::map<CUevent, bool> events;  // done?
  std::set<int> granted;
  std::uint64_t next_handle = 0x100;
  std::uint64_t capacity = 0;
  std::uint64_t in_use = 0;

 private:
  struct failure {
    CUresult code;
    int times;
  };
  std::map<CUdeviceptr, std::uint64_t> memory_;
  std::map<CUdeviceptr, std::uint64_t> ended_;  // of contexts that have: no address is given twice
  std::vector<CUevent> recorded_;               // not done, in order
  std::set<CUevent> of_streams_;                // not done
  std::map<std::string, int> calls_;
  std::map<std::string, failure> failures_;
  void run(std::function<void()> const& its_hook);

  std::function<void(char const*)> at_call_;
  std::function<void()> at_record_, at_query_, at_wait_, at_free_;
  bool manual_ = false;
  bool hurt_ = false;
};

// Of this thread.
inline thread_local std::vector<CUcontext> current_contexts;

// This thread has a context current by the program's choice: nothing is counted.
class in_context {
 public:
  explicit in_context(CUcontext context) { current_contexts.push_back(context); }
  ~in_context() { current_contexts.pop_back(); }
  in_context(in_context const&) = delete;
};

inline CUcontext const first_context = reinterpret_cast<CUcontext>(0x1);
inline CUcontext const second_context = reinterpret_cast<CUcontext>(0x2);
inline CUstream stream(std::uint64_t number) {
  return reinterpret_cast<CUstream>(0x10000 + number * 0x100);
}

}  // namespace gpumem::tests
