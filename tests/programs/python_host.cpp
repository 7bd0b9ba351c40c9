// A program that embeds Python, begins and ends interpreters again and again while threads of its own and of
// Python take and free memory, forks, executes itself and cancels threads. It knows no Python at build time:
// the library of a version is preloaded in front. Run plain and preloaded by ledger/python_soak.py;
// arguments: seconds, seed, how many interpreters a round has beside the main one at most (-1: one Python
// from begin to end); or `child`, which it executes.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>

#include "tests/programs/support.hpp"

namespace {

template <typename Function>
struct python_function {
  explicit python_function(char const* name)
      : call(reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name))) {
    if (call != nullptr) return;
    std::printf("no %s: preload a libpython\n", name);
    std::exit(2);
  }
  template <typename... Arguments>
  auto operator()(Arguments... arguments) const {
    return call(arguments...);
  }
  Function* call;
};

struct python {
  python_function<void(int)> initialize{"Py_InitializeEx"};
  python_function<int()> finalize{"Py_FinalizeEx"};
  python_function<int(char const*, void*)> run{"PyRun_SimpleStringFlags"};
  python_function<void*()> new_interpreter{"Py_NewInterpreter"};
  python_function<void(void*)> end_interpreter{"Py_EndInterpreter"};
  python_function<void*()> current{"PyThreadState_Get"};
  python_function<void*(void*)> swap{"PyThreadState_Swap"};
  python_function<void*()> save{"PyEval_SaveThread"};
  python_function<void(void*)> restore{"PyEval_RestoreThread"};
  python_function<int()> ensure{"PyGILState_Ensure"};
  python_function<void(int)> release{"PyGILState_Release"};
};

constexpr char take_and_give[] = R"(
import ctypes
cuda = ctypes.CDLL("libcudart.so")
def take_and_give(size, depth):
    if depth:
        return take_and_give(size, depth - 1)
    block = ctypes.c_void_p()
    if cuda.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(size)) == 0:
        cuda.cudaFree(block)
def keep(size):
    return cuda.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(size))
def pieces(size):
    for n in range(3):
        take_and_give(size + n, 2)
        yield n
async def later(size):
    for _ in pieces(size):
        pass
class Late:
    def __del__(self):
        take_and_give(70000, 0)
)";

constexpr char with_threads[] = R"(
import threading, time
stop = threading.Event()
def work(number):
    keep(300000)
    while not stop.is_set():
        names = dict(globals())
        exec(f"def made{number}(n):\n    take_and_give(n, 3)\n", names)
        names[f"made{number}"](100000 + number)
        list(pieces(5000))
        one = later(3000)
        try:
            one.send(None)
        except StopIteration:
            pass
        kept = [Late()]
        kept.append(kept)
        try:
            take_and_give(-1 if False else 4096, 5000)
        except RecursionError as error:
            text = error.__traceback__
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
for one in threads:
    one.start()
time.sleep(0.02)
)";

constexpr char ends_threads[] = R"(
stop.set()
for one in threads:
    one.join()
import gc
gc.collect()
)";

std::atomic<bool> at_work{true};

void take_and_free(std::size_t bytes) {
  void* block = nullptr;
  if (cudaMalloc(&block, bytes) == cudaSuccess) cudaFree(block);
}

void* until_cancelled(void*) {
  for (;;) {
    take_and_free(30'000);
    pthread_testcancel();
  }
}

void fork_once(unsigned kind, char const* self) {
  pid_t const child = ::fork();
  if (child == 0) {
    if (kind % 3 == 0) ::execl(self, self, "child", static_cast<char*>(nullptr));
    if (kind % 3 == 1) take_and_free(4096);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE_CODE(::waitpid(child, &status, 0) == child && status == 0, true);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "child") == 0) {
    take_and_free(100'000);
    return 0;
  }
  if (argc != 4) return 2;
  bool const once = std::atoi(argv[3]) < 0;
  auto const most_interpreters = static_cast<std::uint64_t>(once ? 0 : std::atoi(argv[3]));
  python const py;
  auto const ends = std::chrono::steady_clock::now() + std::chrono::duration<double>(std::atof(argv[1]));
  programs::sequence random(static_cast<std::uint64_t>(std::atoi(argv[2])));
  std::vector<std::thread> native;
  for (int i = 0; i < 2; ++i) {
    native.emplace_back([i] {
      for (std::size_t n = 1; at_work; ++n) take_and_free(n % 7 * 40'000 + static_cast<std::size_t>(i) + 1);
    });
  }
  unsigned rounds = 0, interpreters = 0, cancelled = 0;
  while (std::chrono::steady_clock::now() < ends) {
    if (++rounds == 1 || !once) py.initialize(0);
    REQUIRE_CODE(py.run(take_and_give, nullptr), 0);
    REQUIRE_CODE(py.run(with_threads, nullptr), 0);
    void* const main_state = py.current();
    for (std::uint64_t n = random.next(most_interpreters + 1); n != 0; --n, ++interpreters) {
      void* const made = py.new_interpreter();
      REQUIRE_CODE(made != nullptr, true);
      REQUIRE_CODE(py.run(take_and_give, nullptr) +
                       py.run("keep(200000); take_and_give(200000, 5); list(pieces(9))", nullptr),
                   0);
      py.end_interpreter(made);
      py.swap(main_state);
    }
    void* const saved = py.save();
    std::thread visitor([&py] {
      for (int i = 0; i < 20; ++i) {
        int const state = py.ensure();
        py.run("take_and_give(300000, 1)", nullptr);
        py.release(state);
        take_and_free(1000);
      }
    });
    pthread_t victim;
    REQUIRE_CODE(pthread_create(&victim, nullptr, until_cancelled, nullptr), 0);
    fork_once(static_cast<unsigned>(random.next(1000)), argv[0]);
    pthread_cancel(victim), ++cancelled;
    pthread_join(victim, nullptr);
    visitor.join();
    py.restore(saved);
    REQUIRE_CODE(py.run(ends_threads, nullptr), 0);
    if (once && std::chrono::steady_clock::now() < ends) continue;
    py.finalize();  // threads of the program's own are at work while it ends
    take_and_free(50'000);
  }
  at_work = false;
  for (auto& one : native) one.join();
  std::printf("initialized %u interpreters %u cancelled %u\n", rounds, interpreters, cancelled);
}
