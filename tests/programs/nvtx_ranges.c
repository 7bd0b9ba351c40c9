/* A program with ranges of NVTX of every kind, and blocks of known sizes in them: nvtx_ranges SCENARIO. What
 * NVTX returns is not printed, but for "values": a tool may answer what it likes. Each scenario allocates by
 * cudaMalloc, on the simulated CUDA; run plain, preloaded, with and without another tool. */
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1u << 20)

static void* take(size_t mib) {
  void* block = NULL;
  if (cudaMalloc(&block, mib * MIB) != cudaSuccess) printf("cudaMalloc of %zu MiB failed\n", mib);
  return block;
}
static void give(void* block) {
  if (cudaFree(block) != cudaSuccess) printf("cudaFree failed\n");
}
static void use(size_t mib) {
  give(take(mib));
}

static nvtxEventAttributes_t with_message(int type, const void* message) {
  nvtxEventAttributes_t event;
  memset(&event, 0, sizeof event);
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = type;
  event.message.ascii = (const char*)message;
  return event;
}

/* The default domain: push and pop, numbers in names, nesting. */
static void plain(void) {
  nvtxRangePushA("load"); /* before the first call of CUDA */
  void* kept = take(10);
  nvtxRangePop();
  for (int step = 0; step < 20; ++step) {
    char name[32];
    snprintf(name, sizeof name, "step %d", step);
    nvtxRangePushA(name);
    nvtxRangePushA("forward");
    void* activations = take(30);
    use(20);
    nvtxRangePop();
    nvtxRangePushA("backward");
    use(5);
    nvtxRangePop();
    give(activations);
    nvtxRangePop();
  }
  give(kept);
}

static nvtxRangeId_t across;
static nvtxDomainHandle_t solver;
static void* ends_it(void* nothing) {
  use(7);
  nvtxRangeEnd(across);
  return nothing;
}

static void domains(void) {
  solver = nvtxDomainCreateA("solver");
  nvtxDomainHandle_t again = nvtxDomainCreateA("solver"), wide = nvtxDomainCreateW(L"w\u00e9it");
  nvtxStringHandle_t iterate = nvtxDomainRegisterStringA(solver, "iterate 3");
  nvtxStringHandle_t wide_string = nvtxDomainRegisterStringW(solver, L"r\u00e4nge");
  nvtxEventAttributes_t event = with_message(NVTX_MESSAGE_TYPE_REGISTERED, iterate);
  for (int i = 0; i < 3; ++i) {
    nvtxDomainRangePushEx(solver, &event);
    nvtxRangePushA("between"); /* of another domain: its end may come after */
    use(40);
    nvtxDomainRangePop(again);
    use(1);
    nvtxRangePop();
  }
  event = with_message(NVTX_MESSAGE_TYPE_REGISTERED, wide_string);
  nvtxRangeId_t range = nvtxDomainRangeStartEx(solver, &event);
  use(12);
  nvtxDomainRangeEnd(solver, range);
  event = with_message(NVTX_MESSAGE_TYPE_ASCII, "in wide domain");
  nvtxDomainRangePushEx(wide, &event);
  use(2);
  nvtxDomainRangePop(wide);
  nvtxDomainMarkEx(solver, &event);
  nvtxDomainDestroy(wide);
  nvtxDomainDestroy(solver);
}

/* Start and end, on two threads; wide names. */
static void ranges(void) {
  across = nvtxRangeStartA("across threads");
  pthread_t other;
  pthread_create(&other, NULL, ends_it, NULL);
  pthread_join(other, NULL);
  use(50);
  nvtxRangeId_t first = nvtxRangeStartW(L"\u4e00\U0001f600"), second = nvtxRangeStartA("second");
  use(3);
  nvtxRangeEnd(first);
  use(4);
  nvtxRangeEnd(second);
  nvtxRangePushW(L"wide");
  use(6);
  nvtxRangePop();
}

/* What a program should not do. */
static void wrong(void) {
  static char endless[200000];
  memset(endless, 'x', sizeof endless - 1);
  nvtxRangePop();
  nvtxRangeEnd(0);
  nvtxRangeEnd(12345);
  nvtxRangeEnd(~(nvtxRangeId_t)0);
  nvtxRangePushA(NULL);
  nvtxRangePushW(NULL);
  nvtxRangePushEx(NULL);
  use(1);
  nvtxEventAttributes_t event = with_message(NVTX_MESSAGE_TYPE_ASCII, NULL);
  nvtxRangePushEx(&event);
  event = with_message(NVTX_MESSAGE_TYPE_REGISTERED, NULL);
  nvtxRangePushEx(&event);
  event = with_message(NVTX_MESSAGE_UNKNOWN, "x");
  nvtxRangePushEx(&event);
  event = with_message(77, "x");
  nvtxRangePushEx(&event);
  event.size = 4;
  nvtxRangePushEx(&event);
  nvtxRangePushA(endless);
  use(9);
  for (int i = 0; i < 20; ++i) nvtxRangePop();
  nvtxDomainHandle_t none = nvtxDomainCreateA(NULL);
  event = with_message(NVTX_MESSAGE_TYPE_ASCII, "of no domain");
  nvtxDomainRangePushEx(none, &event);
  nvtxDomainRangePop(none);
  nvtxDomainRangePop(NULL);
  event = with_message(NVTX_MESSAGE_TYPE_REGISTERED, nvtxDomainRegisterStringA(none, NULL));
  nvtxRangePushEx(&event);
  nvtxRangePop();
  nvtxRangePushA("last");
  use(2);
  nvtxRangePop();
}

static void many(void) {
  for (int i = 0; i < 100000; ++i) {
    char name[32];
    snprintf(name, sizeof name, "name%d", i);
    nvtxRangePushA(name);
    if (i % 10000 == 0) use(1 + (unsigned)i / 10000);
    nvtxRangePop();
  }
  for (int i = 0; i < 3000; ++i) nvtxRangePushA("deep");
  use(1);
  for (int i = 0; i < 3000; ++i) nvtxRangePop();
}

static void* left_open(void* cancelled) {
  nvtxRangePushA("of a thread");
  nvtxRangePushA("inner");
  use(8);
  while (cancelled != NULL) pause();
  return NULL;
}
static void threads(void) {
  take(1);
  for (int cancelled = 0; cancelled < 2; ++cancelled) {
    pthread_t made;
    pthread_create(&made, NULL, left_open, cancelled ? &made : NULL);
    if (cancelled) {
      usleep(50000);
      pthread_cancel(made);
    }
    pthread_join(made, NULL);
  }
}

/* A thread that is cancelled in the middle of a tool, which pauses at that name. */
static void* pauses(void* nothing) {
  nvtxRangePushA("outer");
  nvtxRangePushA("pause");
  return nothing;
}
static void cancelled(void) {
  use(1);
  pthread_t made;
  pthread_create(&made, NULL, pauses, NULL);
  usleep(100000);
  pthread_cancel(made);
  void* result = NULL;
  pthread_join(made, &result);
  printf("cancelled %d\n", result == PTHREAD_CANCELED);
}

/* The child of a process that uses CUDA leaves it alone; that of one that does not uses it itself. */
static void forks(void) {
  nvtxRangePushA("parent");
  pid_t child = fork();
  if (child == 0) {
    nvtxRangePop(); /* of its parent's */
    nvtxRangePushA("child");
    use(16);
    nvtxRangePop();
    exit(0);
  }
  waitpid(child, NULL, 0);
  use(3);
  child = fork();
  if (child == 0) {
    nvtxRangePushA("no CUDA");
    nvtxRangePop();
    nvtxRangePop();
    exit(0);
  }
  waitpid(child, NULL, 0);
  nvtxRangePop();
}

static void killed(void) {
  nvtxRangePushA("train");
  void* kept = take(100);
  for (int step = 0; step < 3; ++step) {
    nvtxRangePushA("step");
    void* more = take(50);
    if (step == 2) kill(getpid(), SIGKILL);
    give(more);
    nvtxRangePop();
  }
  give(kept);
}

static void handler(int number) {
  (void)number;
  nvtxRangePushA("in a handler");
  nvtxRangePop();
}
static void signals(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  ualarm(200, 200);
  for (int i = 0; i < 20000; ++i) {
    nvtxRangePushA("outer");
    use(1 + (unsigned)i % 3);
    nvtxRangePop();
  }
  ualarm(0, 0);
}

static void fails(void) {
  take(1);
  nvtxRangePushA("too much");
  void* block = NULL;
  printf("refused %d\n", cudaMalloc(&block, (size_t)1 << 44) != cudaSuccess);
  nvtxRangePop();
}

int main(int count, char** arguments) {
  struct {
    const char* name;
    void (*run)(void);
  } const scenarios[] = {{"plain", plain}, {"domains", domains},    {"ranges", ranges},
                         {"wrong", wrong}, {"many", many},          {"threads", threads},
                         {"forks", forks}, {"killed", killed},      {"signals", signals},
                         {"fails", fails}, {"cancelled", cancelled}};
  char const* const injection = getenv("NVTX_INJECTION64_PATH");
  if (count > 2) printf("%s\n", injection == NULL ? "none" : injection);
  for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; ++i) {
    if (count > 1 && strcmp(arguments[1], scenarios[i].name) == 0) scenarios[i].run();
  }
  if (count > 1 && strcmp(arguments[1], "exec") == 0) {
    nvtxRangePushA("before exec");
    use(1);
    execl("/proc/self/exe", arguments[0], "plain", (char*)NULL);
  }
  printf("done\n");
  return 0;
}
