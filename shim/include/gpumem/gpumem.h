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

/* Raised when a function is added; none is ever taken away or changed. */
#define GPUMEM_API_VERSION 1

/* What every function returns. */
enum {
  GPUMEM_OK = 0,
  GPUMEM_NOT_LOADED = 1,  /* never by a function; for programs that wrap them */
  GPUMEM_NOT_STARTED = 2, /* it is disabled, or the process has made no CUDA call yet */
  GPUMEM_INVALID = 3,     /* an argument is null, or names no device that was used; no context is current */
  GPUMEM_TOO_SMALL = 4,   /* the buffer; `needed` says how large it must be */
  GPUMEM_NO_MEMORY = 5    /* of the host, for the answer */
};

/* Of one device, in bytes. The words are those of the report (gpumem report --explain). */
typedef struct gpumem_statistics {
  size_t size;        /* set it to sizeof(gpumem_statistics): a later version may have more at the end */
  uint64_t requested; /* by the program, not yet given back; through chains */
  uint64_t highest_requested; /* the most since the start; exact to 1 % or 8 MiB, the larger */
  uint64_t reserved;          /* taken from the driver by chains: requested, and what is cached */
  uint64_t cached;            /* of it, idle */
  uint64_t observed;          /* by calls that no chain serves */
  uint64_t allocations;       /* served, since the start */
  uint64_t frees;
  uint64_t refusals; /* for lack of memory */
} gpumem_statistics;

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
/* The report as JSON, as it would be if the process ended now, with a zero at the end. `needed`: its length
 * with the zero, may be null; where `size` is less nothing is written. */
GPUMEM_API int gpumem_get_report(char* buffer, size_t size, size_t* needed);

#ifndef GPUMEM_BUILDS_THE_LIBRARY
/* Whether the library is there. Ask this first: a function that is not there must not be called. */
static inline int gpumem_is_loaded(void) {
  return gpumem_api_version != NULL;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
