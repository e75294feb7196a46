/* The small C interface of libsimgpu.so: what the stand-in libraries, and programs that want to
 * know whether they run on a simulated GPU, may rely on.
 *
 * Owns nothing; every function is served by the one GpuModel of the process. Promises: plain C,
 * additive changes only, SIMGPU_ABI_VERSION goes up with each. Nothing here throws, sets CUDA's
 * "last error" or prints, except where said. Functions that return int return a cudaError_t (0 =
 * cudaSuccess) unless said otherwise. Thread safe. After fork() in a process whose simulated GPU
 * had started, everything that would use the GPU returns cudaErrorInitializationError (3).
 *
 * Outside of simgpu, find these by name: dlsym(RTLD_DEFAULT, "simgpu_now_ns"). Not found = a real
 * GPU, or none.
 */
#ifndef LEVEE_TOOLS_SIMGPU_SIMGPU_ABI_H
#define LEVEE_TOOLS_SIMGPU_SIMGPU_ABI_H

#include <stddef.h>
#include <stdint.h>

#define SIMGPU_ABI_VERSION 5

#if defined(__GNUC__)
#  define SIMGPU_API __attribute__((visibility("default")))
#else
#  define SIMGPU_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The bits of a cudaStream_t or CUstream. NULL is the legacy default stream of the current device,
 * (void*)1 the same by its public name, (void*)2 the per-thread default stream. */
typedef void* simgpu_stream;

/* ---- What this process runs on
 * -------------------------------------------------------------------------------------- */

SIMGPU_API int simgpu_is_simulated(void); /* always 1 */
SIMGPU_API int simgpu_abi_version(void);
SIMGPU_API int simgpu_device_count(void);   /* simulated GPUs of this process */
SIMGPU_API int simgpu_current_device(void); /* of the calling thread, as cudaGetDevice gives it */
/* Now on the simulation's clock: real time, plus what driver calls and waits would have cost.
 * Nanoseconds; never goes back. Starts near CLOCK_MONOTONIC. Reading it costs as much as reading
 * that clock. */
SIMGPU_API int64_t simgpu_now_ns(void);
/* Where the simulation keeps how far its clock is ahead of CLOCK_MONOTONIC, in nanoseconds: a
 * number that only grows, to be read with one atomic load. NULL while CUDA was not used yet. */
SIMGPU_API const int64_t* simgpu_clock_ahead(void);
/* A number from SIMGPU_SET ("name=value,name=64MiB"), or `otherwise` if it is not given there. */
SIMGPU_API uint64_t simgpu_setting(const char* name, uint64_t otherwise);

/* What is wrong with the SIMGPU_* variables of this process, in one sentence; "" if nothing is.
 * Starts nothing: for a program that is about to start another one on a simulated GPU. Valid until
 * the next call; not thread safe. */
SIMGPU_API const char* simgpu_settings_problem(void);

/* ---- Work on streams
 * ------------------------------------------------------------------------------------------------
 */

/* Enqueues a kernel that has no effect. It appears in traces under `name` (interned by its
 * characters; NULL = "kernel") and takes the time that a roofline model gives for `flops` floating
 * point operations and `bytes` bytes moved; 0 and 0 give the shortest kernel. On a capturing stream
 * it becomes a node of the graph. */
SIMGPU_API int simgpu_launch(simgpu_stream stream, const char* name, double flops, double bytes);
/* The same with a fixed duration. */
SIMGPU_API int simgpu_launch_for(simgpu_stream stream, const char* name, int64_t duration_ns);
/* One piece of work that all `count` streams (of any devices) take part in: it starts when the last
 * of them is ready and ends on all of them at once. What a collective is. */
SIMGPU_API int simgpu_launch_together(const simgpu_stream* streams, const int* devices, int count,
                                      const char* name, double bytes);
/* The same, met by ranks of other processes, the last of which is ready at `others_ready_ns`: the
 * work begins here as above, waits for that time if it is later, and then takes as long as its
 * bytes need. */
SIMGPU_API int simgpu_launch_meeting(const simgpu_stream* streams, const int* devices, int count,
                                     const char* name, double bytes, int64_t others_ready_ns);
/* When work that is enqueued now on `stream` of `device` would start, on the clock of
 * simgpu_now_ns. Clocks of processes on one machine have one origin and one pace, and each only
 * runs ahead by what its own process waited for: times of one may be compared with another's. */
SIMGPU_API int64_t simgpu_ready_ns(int device, simgpu_stream stream);
/* 1 while `stream` captures, else 0. Work whose effect is made at once by the host must not be made
 * then; see simgpu_enqueue_host. */
SIMGPU_API int simgpu_is_capturing(simgpu_stream stream);
/* Runs `function(argument)` in stream order: at once where that is right, at every replay where
 * `stream` captures. It may read and write device bytes with the functions below; it must not
 * enqueue work. */
SIMGPU_API int simgpu_enqueue_host(simgpu_stream stream, void (*function)(void*), void* argument);
/* The host waits until everything on `stream` is done (in simulated time). */
SIMGPU_API int simgpu_synchronize(simgpu_stream stream);

/* ---- Bytes of device memory
 * ------------------------------------------------------------------------------------------ */

/* Copies between host and device memory in any direction, told apart by address, with CUDA's
 * meaning: ordered on `stream`, counted and recorded as a memcpy. */
SIMGPU_API int simgpu_copy(void* to, const void* from, size_t bytes, simgpu_stream stream);
SIMGPU_API int simgpu_fill(void* to, int value, size_t bytes, simgpu_stream stream);
/* The bytes themselves, for libraries that compute a visible result: no work, no record, no time.
 * Bytes that the backing store does not hold read as 0; writing them is accepted. The range must be
 * mapped device memory, or ordinary host memory. */
SIMGPU_API int simgpu_read(void* host_to, const void* device_from, size_t bytes);
SIMGPU_API int simgpu_write(void* device_to, const void* host_from, size_t bytes);
/* These bytes are the result of a computation that nobody makes: they read as 0 from now on,
 * whatever was copied there before. */
SIMGPU_API void simgpu_forget(const void* device_address, size_t bytes);
/* Device index of an address, or -1 for memory that belongs to no simulated GPU. */
SIMGPU_API int simgpu_device_of(const void* address);

/* ---- The judge
 * ------------------------------------------------------------------------------------------------------
 */

/* What becomes of these bytes on `stream` from now on; `kind` is a levee::device::UseKind: 0 a
 * block is handed out, 1 its owner uses it on this further stream too (record_stream), 2 its owner
 * gives it back, 3 one piece of work reads them, 4 one piece of work writes them (a collective's
 * buffers). A stream whose top seven bits are not 0 is one of the device of that number, counted
 * from 1: numbers 0 to 2 alone are streams of the memory's own device. The model reports two
 * streams on the same bytes without an order between them, bytes that are live twice, and bytes
 * that are not mapped. */
SIMGPU_API void simgpu_note_use(uint64_t address, uint64_t bytes, simgpu_stream stream, int kind);
/* The calling thread now holds (1), or no longer holds (0), a pool lock: blocking calls are
 * reported until then. */
SIMGPU_API void simgpu_note_pool_lock(int held);
/* 1 while somebody looks at what is noted (SIMGPU_JUDGE is not "off"): otherwise notes are a waste
 * of time. */
SIMGPU_API int simgpu_is_judging(void);
/* Violations seen so far, and the text of one of them ("" past the end; valid until the process
 * ends). */
SIMGPU_API uint64_t simgpu_violation_count(void);
SIMGPU_API const char* simgpu_violation_text(uint64_t index);

/* ---- Faults
 * -------------------------------------------------------------------------------------------- */

/* From now on, driver calls fail as this plan says (the text form of SIMGPU_FAULTS; "" for none):
 * it replaces the plan before, and "first=1" is the next such call of any thread. Returns 0, or
 * leaves everything as it is and returns 1 if the text is no plan or there is no simulated GPU. */
SIMGPU_API int simgpu_set_faults(const char* plan);

/* ---- Counters and memory
 * -------------------------------------------------------------------------------------------- */

/* Calls of the named driver function so far ("cudaMalloc", "cuMemMap", "cudaLaunchKernel", ...); 0
 * for unknown names. */
SIMGPU_API uint64_t simgpu_counter(const char* name);
/* All of them as one JSON object {"cudaMalloc": 12, ...}; returns the length without the final 0,
 * writes at most `capacity` bytes including it. */
SIMGPU_API size_t simgpu_counters_json(char* buffer, size_t capacity);
SIMGPU_API uint64_t simgpu_memory_capacity(int device);
SIMGPU_API uint64_t simgpu_memory_used(int device); /* physical bytes that this process holds */
SIMGPU_API uint64_t simgpu_memory_peak(int device); /* largest value of simgpu_memory_used so far */

/* ---- For the generated libraries
 * ------------------------------------------------------------------------------------ */

/* Counts one call of a stand-in library's function and, with SIMGPU_TRACE, prints the first one.
 * `once` is a static int of the caller, initially 0. Cheap enough for every call. */
SIMGPU_API void simgpu_trace_call(const char* library, const char* function, int* once);
/* Says on stderr, once per name, that `function` is not modelled. The caller then returns its
 * library's "not supported". */
SIMGPU_API void simgpu_not_modelled(const char* library, const char* function);

#ifdef __cplusplus
}
#endif
#endif /* LEVEE_TOOLS_SIMGPU_SIMGPU_ABI_H */
