// Attributes that the compiler understands: which functions are hot, and which lock guards what.
//
// Owns: the LEVEE_ attribute macros. Promises: they change no meaning, only code layout and
// warnings. The thread-safety macros do something under clang (-Wthread-safety) alone and work with
// `levee::base::Mutex` only, since the standard mutex is not annotated. Costs: nothing.
#pragma once

#define LEVEE_HOT [[gnu::hot]]
#define LEVEE_COLD [[gnu::cold]]
#define LEVEE_NOINLINE [[gnu::noinline]]
#define LEVEE_ALWAYS_INLINE [[gnu::always_inline]] inline
/// For the slow half of a pair (`x` and `x_slow`): kept out of line and away from hot code.
#define LEVEE_SLOW_PATH [[gnu::cold, gnu::noinline]]

#if defined(__clang__)
#  define LEVEE_THREAD_ANNOTATION(x) __attribute__((x))
#else
#  define LEVEE_THREAD_ANNOTATION(x)
#endif

#define LEVEE_CAPABILITY(name) LEVEE_THREAD_ANNOTATION(capability(name))
#define LEVEE_SCOPED_CAPABILITY LEVEE_THREAD_ANNOTATION(scoped_lockable)
#define LEVEE_GUARDED_BY(mutex) LEVEE_THREAD_ANNOTATION(guarded_by(mutex))
#define LEVEE_PT_GUARDED_BY(mutex) LEVEE_THREAD_ANNOTATION(pt_guarded_by(mutex))
#define LEVEE_ACQUIRED_BEFORE(...) LEVEE_THREAD_ANNOTATION(acquired_before(__VA_ARGS__))
#define LEVEE_ACQUIRED_AFTER(...) LEVEE_THREAD_ANNOTATION(acquired_after(__VA_ARGS__))
#define LEVEE_REQUIRES(...) LEVEE_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define LEVEE_EXCLUDES(...) LEVEE_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define LEVEE_ACQUIRE(...) LEVEE_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define LEVEE_RELEASE(...) LEVEE_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define LEVEE_TRY_ACQUIRE(...) LEVEE_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define LEVEE_ASSERT_HELD(...) LEVEE_THREAD_ANNOTATION(assert_capability(__VA_ARGS__))
#define LEVEE_RETURN_CAPABILITY(mutex) LEVEE_THREAD_ANNOTATION(lock_returned(mutex))
#define LEVEE_NO_THREAD_SAFETY_ANALYSIS LEVEE_THREAD_ANNOTATION(no_thread_safety_analysis)
