/* levee's C interface: for programs that are not C++, for other bindings, and for the plain door to
 * PyTorch.
 *
 * Owns nothing that the caller sees. Promises: plain C; no exception and no C++ type passes; every
 * function may be called from any thread; additive changes only, LEVEE_ABI_VERSION goes up with
 * each. Functions that return int return 0 (LEVEE_OK) or an enum levee_code; the text of this
 * thread's latest failure is then in levee_last_error(). Texts are returned by filling the caller's
 * buffer: the length without the final 0 is returned, at most `capacity` characters are written
 * including it, so that (NULL, 0) asks for the length.
 * Order: levee_set_option... -> levee_start -> everything else. In a forked child of a process that
 * had used a device, everything answers LEVEE_UNSUPPORTED and does nothing.
 */
#ifndef LEVEE_C_API_LEVEE_H
#define LEVEE_C_API_LEVEE_H

#include <stddef.h>
#include <stdint.h>

#define LEVEE_ABI_VERSION 1

#if defined(__GNUC__)
#  define LEVEE_API __attribute__((visibility("default")))
#else
#  define LEVEE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum levee_code {
  LEVEE_OK = 0,
  LEVEE_OUT_OF_MEMORY = 1, /* levee_last_error() explains */
  LEVEE_INVALID_ARGUMENT = 2,
  LEVEE_NOT_OWNED = 3, /* the address is no live block of levee */
  LEVEE_NOT_READY = 4,
  LEVEE_UNSUPPORTED = 5, /* also: levee was not started */
  LEVEE_SHUTTING_DOWN = 6,
  LEVEE_DEVICE_LOST = 7,
  LEVEE_INTERNAL = 8
};

LEVEE_API int levee_abi_version(void);
LEVEE_API const char* levee_version(void); /* "0.1.0" */
/* Of the calling thread; "" if nothing failed. Valid until the thread's next failure. */
LEVEE_API const char* levee_last_error(void);

/* ---- Settings -------------------------------------------------------------------------------- */

struct levee_option_info {
  const char* name;   /* as in levee_set_option */
  const char* env;    /* as in the environment */
  const char* values; /* what may be given, for people */
  const char* help;
};
/* The i-th setting; LEVEE_INVALID_ARGUMENT past the last one. */
LEVEE_API int levee_option_at(int index, struct levee_option_info* info);
/* Only before levee_start. Starts from the environment's LEVEE_* values. */
LEVEE_API int levee_set_option(const char* name, const char* value);
/* The value in force, as text that levee_set_option takes. */
LEVEE_API size_t levee_get_option(const char* name, char* buffer, size_t capacity);
/* One sentence a line for each LEVEE_* variable whose value cannot be used. */
LEVEE_API size_t levee_environment_problems(char* buffer, size_t capacity);
/* One sentence a line for each LEVEE_* variable that levee does not know. */
LEVEE_API size_t levee_environment_strangers(char* buffer, size_t capacity);

/* ---- Life ------------------------------------------------------------------------------------ */

/* Makes no CUDA call. A second call is harmless. */
LEVEE_API int levee_start(void);
LEVEE_API int levee_is_started(void); /* 1 or 0 */
/* For C++ that was built together with this library: the levee::Runtime of this process; NULL
 * before levee_start. See include/levee/runtime.h. */
LEVEE_API void* levee_runtime(void);
LEVEE_API int levee_is_forked_child(void); /* 1 or 0 */
LEVEE_API int levee_device_count(int* count);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Memory for work on `stream` of `device`. 0 bytes: LEVEE_OK and a null pointer. */
LEVEE_API int levee_allocate(int device, size_t bytes, void* stream, void** out);
/* Null is accepted. */
LEVEE_API int levee_free(void* pointer);
/* Work on `stream` uses the block that contains `pointer`. Handles 0 to 2 name default streams of
 * every device; here they mean that of each device in use. */
LEVEE_API int levee_record_use(void* pointer, void* stream);
/* The same for a stream of `device`, which may be another one than the block's. */
LEVEE_API int levee_record_use_on(void* pointer, int device, void* stream);
/* The range that could be shared as a whole with another process; needs backing=segments. */
LEVEE_API int levee_base_allocation(void* pointer, void** base, size_t* bytes);
/* Gives free memory back until at most `keep` bytes are reserved. `given_back` may be null. */
LEVEE_API int levee_trim(int device, size_t keep, size_t* given_back);
/* Most of the device's memory that this process may reserve from now on, above 0 and up to 1. */
LEVEE_API int levee_set_memory_fraction(int device, double fraction);
/* Every counter as one JSON object; see include/levee/stats.h. 0 if there is none
 * (levee_last_error). */
LEVEE_API size_t levee_stats_json(int device, char* buffer, size_t capacity);
LEVEE_API int levee_reset_peak_stats(int device);

/* ---- Private pools --------------------------------------------------------------------------- */

/* A pool has two numbers, not both 0. Requests on streams that `accepts` says yes to (null: all) go
 * to it until the matching end. `release` (may be null) is called with `user` once it is no longer
 * needed. */
LEVEE_API int levee_pool_begin(int device, uint64_t first, uint64_t second,
                               int (*accepts)(void* stream, void* user), void* user,
                               void (*release)(void* user));
LEVEE_API int levee_pool_end(int device, uint64_t first, uint64_t second);
LEVEE_API int levee_pool_release(int device, uint64_t first, uint64_t second);

/* ---- Recording ------------------------------------------------------------------------------- */

LEVEE_API int levee_is_recording(void);
LEVEE_API void levee_push_phase(const char* name);
LEVEE_API void levee_pop_phase(void);
/* A step of training begins, or a request; or (levee_end_step, as at the end of an optimizer's
 * step) one ends and what follows is the next: then what came before the first call counts as a
 * step. */
LEVEE_API void levee_mark_step(void);
LEVEE_API void levee_end_step(void);
/* Frames of a program, innermost first, one a line: "file:line function". 0 while nothing records.
 */
LEVEE_API uint32_t levee_intern_stack(const char* frames, size_t length);
/* `capture` names the place in the program that asks for memory, for slow paths: it returns an id
 * from levee_intern_stack, or 0. Called with no lock held. For devices not used so far. */
LEVEE_API int levee_set_context_hook(uint32_t (*capture)(void));
LEVEE_API size_t levee_trace_path(char* buffer, size_t capacity); /* "" while nothing is recorded */
LEVEE_API int levee_flush(void);
/* Kernel, copy and memset times, by CUPTI. LEVEE_UNSUPPORTED with a sentence if it is absent or
 * taken. */
LEVEE_API int levee_start_kernels(void);
LEVEE_API void levee_stop_kernels(void);

#ifdef __cplusplus
}
#endif
#endif /* LEVEE_C_API_LEVEE_H */
