/* What a program may ask of gpumem while it runs. C99 and C++. Every function is weak, so that a program that
 * was built with this header runs without the library too: gpumem_is_loaded() is 0 then. Link nothing. The
 * program must be compiled as position-independent code, as compilers do by themselves: with -fno-pie the
 * linker decides that nothing is there. All functions may be called on any thread, not in a signal handler;
 * they add up the counters of all threads, and are not for every allocation. */
#ifndef GPUMEM_GPUMEM_H
#define GPUMEM_GPUMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a function is added; none is ever taken away or changed. A function of a later version than the
 * first has its own beside it; an older library does not have it: GPUMEM_HAS(gpumem_allocate) says so. */
#define GPUMEM_API_VERSION 2

/* What every function returns. */
enum {
  GPUMEM_OK = 0,
  GPUMEM_NOT_LOADED = 1,    /* never by a function; for programs that wrap them */
  GPUMEM_NOT_STARTED = 2,   /* it is disabled, or the process has made no CUDA call yet */
  GPUMEM_INVALID = 3,       /* an argument is null, or names no device that was used; no context is current */
  GPUMEM_TOO_SMALL = 4,     /* the buffer; `needed` says how large it must be */
  GPUMEM_NO_MEMORY = 5,     /* of the host, for the answer */
  GPUMEM_NO_CHAIN = 6,      /* no [[rule]] of the configuration has this name */
  GPUMEM_OUT_OF_MEMORY = 7, /* of the device, or of what the chain may hold */
  GPUMEM_NOT_SERVED =
      8,                /* CUDA must serve it, no chain does: nothing was done, call cudaMalloc or cudaFree */
  GPUMEM_NO_CONTEXT = 9 /* none is current on this thread: cudaSetDevice makes one so */
};

/* Of one device, in bytes. The words are those of the report (gpumem report --explain). */
typedef struct gpumem_statistics {
  size_t size;        /* set it to sizeof(gpumem_statistics): a later version may have more at the end */
  uint64_t requested; /* by the program, not yet given back; through chains */
  uint64_t highest_requested; /* since the start or gpumem_reset_peak; exact to 1 % or 8 MiB, the larger */
  uint64_t reserved;          /* taken from the driver by chains: requested, and what is cached */
  uint64_t cached;            /* of it, idle */
  uint64_t observed;          /* by calls that no chain serves */
  uint64_t allocations;       /* served, since the start */
  uint64_t frees;
  uint64_t refusals; /* for lack of memory */
} gpumem_statistics;

/* A cudaStream_t or CUstream. Null is the legacy default stream, whatever the program is compiled for. */
typedef struct CUstream_st* gpumem_stream;

#ifdef GPUMEM_BUILDS_THE_LIBRARY
#define GPUMEM_API
#else
#define GPUMEM_API __attribute__((weak))
#endif

/* The version of the library that is loaded. */
GPUMEM_API int gpumem_api_version(void);
/* Fills as much of `result` as its `size` holds. `device`: its number in the driver (cudaGetDevice). */
GPUMEM_API int gpumem_get_statistics(int device, gpumem_statistics* result);
/* Gives idle memory of the current context's device back to the driver. Waits for the work before the frees
 * of that memory. `bytes` given back, may be null. */
GPUMEM_API int gpumem_trim(uint64_t* bytes);
/* The report as JSON, of this moment of the running process, with a zero at the end. `needed`: its length
 * with the zero, may be null; where `size` is less nothing is written. */
GPUMEM_API int gpumem_get_report(char* buffer, size_t size, size_t* needed);
/* From here on highest_requested begins at what is requested now. The report keeps the highest of all. (2) */
GPUMEM_API int gpumem_reset_peak(int device);

/* Memory of a device from a chain of the configuration. `chain`: the name of a [[rule]]; null: as cudaMalloc
 * would get it, by the rules without a name and the route. `alignment`: a power of two up to 1 GiB, or 0;
 * every block is aligned to 512. No bytes give a null. A block may be freed by either release, by cudaFree or
 * cudaFreeAsync; the releases also take what cudaMalloc got from a chain. Where CUDA must serve (in a
 * capture; with "passthrough"; memory that is none of a chain's) the answer is GPUMEM_NOT_SERVED: ask CUDA.
 *
 * In the order of `stream`, as cudaMallocAsync and cudaFreeAsync, on the stream's device: (2) */
GPUMEM_API int gpumem_allocate(const char* chain, size_t bytes, size_t alignment, gpumem_stream stream,
                               void** block);
GPUMEM_API int gpumem_release(void* block, gpumem_stream stream);
/* For and after the work of all streams, as cudaMalloc and cudaFree, on the current device: (2) */
GPUMEM_API int gpumem_allocate_sync(const char* chain, size_t bytes, size_t alignment, void** block);
GPUMEM_API int gpumem_release_sync(void* block);

/* A part of the program's work and its name, until this thread ends it; one in another is nested. The report
 * says what memory the process held meanwhile, how often it came, and its requests. Numbers in the name are
 * replaced by N: "step 17" and "step 18" are one. May be called before CUDA is used; no NVTX is needed, and
 * none is heard by other tools. A name that is null is one too. The end of none that is open returns
 * GPUMEM_INVALID. (2) */
GPUMEM_API int gpumem_phase_begin(const char* name);
GPUMEM_API int gpumem_phase_end(void);

#ifndef GPUMEM_BUILDS_THE_LIBRARY
/* Whether the library is there. Ask this first: a function that is not there must not be called. */
static inline int gpumem_is_loaded(void) {
  return gpumem_api_version != NULL;
}
/* Whether the library that is there has this function. */
#define GPUMEM_HAS(function) ((function) != NULL)
#endif

#ifdef __cplusplus
}
#endif

#endif
