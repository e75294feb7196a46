#include "allocator/activity/kernel_collector.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "allocator/activity/cupti_library.h"
#include "allocator/activity/record_translator.h"
#include "allocator/base/clock.h"
#include "allocator/base/mutex.h"

namespace levee::activity {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;  // some 5,000 kernels
constexpr std::size_t kBufferAlignment = 8;    // as CUPTI asks for it
// Made beforehand: a buffer that is made while a kernel is launched shows in that launch.
constexpr std::size_t kSpareBuffers = 8;
// Nothing came for this many looks: perhaps nothing ran, perhaps another client has CUPTI.
constexpr int kQuietLooks = 4;
constexpr int kMaxQuietLooks = 64;

constexpr CUpti_ActivityKind kKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                         CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2,
                                         CUPTI_ACTIVITY_KIND_MEMSET};

constexpr const char* kTaken =
    "another profiler (torch.profiler, Nsight or the like) uses CUPTI in this process, and CUPTI "
    "serves one at a time";

/// Buffers that CUPTI fills. Never destroyed: CUPTI may hold some for ever.
class Buffers {
 public:
  std::uint8_t* take() {
    {
      const base::MutexLock lock(mutex_);
      if (!spare_.empty()) {
        std::uint8_t* buffer = spare_.back();
        spare_.pop_back();
        return buffer;
      }
    }
    return make();
  }
  void give(std::uint8_t* buffer) {
    const base::MutexLock lock(mutex_);
    spare_.push_back(buffer);
  }
  void prepare() {
    while (true) {
      {
        const base::MutexLock lock(mutex_);
        if (spare_.size() >= kSpareBuffers) return;
      }
      std::uint8_t* buffer = make();
      if (buffer == nullptr) return;
      give(buffer);
    }
  }

 private:
  static std::uint8_t* make() {
    return static_cast<std::uint8_t*>(std::aligned_alloc(kBufferAlignment, kBufferBytes));
  }
  base::Mutex mutex_;
  std::vector<std::uint8_t*> spare_ LEVEE_GUARDED_BY(mutex_);
};

/// What CUPTI's callbacks work on. Made once, for ever: callbacks may come after everything has
/// been stopped.
struct Client {
  CuptiLibrary cupti;
  std::unique_ptr<RecordTranslator> translator;
  Buffers buffers;
  std::atomic<std::uint64_t> records{0};
  std::atomic<bool> listens{false};
};
std::atomic<Client*> g_client{nullptr};
base::Mutex g_start_mutex;  // one start or stop at a time

void CUPTIAPI on_buffer_wanted(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records) {
  Client* client = g_client.load(std::memory_order_acquire);
  *buffer = client == nullptr ? nullptr : client->buffers.take();
  *size = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;  // as many as fit
}

void CUPTIAPI on_buffer_full(CUcontext context, std::uint32_t stream, std::uint8_t* buffer,
                             std::size_t /*size*/, std::size_t valid_bytes) {
  Client* client = g_client.load(std::memory_order_acquire);
  if (client == nullptr || buffer == nullptr) return;
  if (client->listens.load(std::memory_order_acquire)) {
    client->records.fetch_add(client->translator->translate(buffer, valid_bytes),
                              std::memory_order_relaxed);
    std::size_t dropped = 0;
    if (client->cupti.get_dropped(context, stream, &dropped) == CUPTI_SUCCESS) {
      client->translator->add_dropped(dropped);
    }
  }
  client->buffers.give(buffer);
}

void CUPTIAPI ignore_callback(void*, CUpti_CallbackDomain, CUpti_CallbackId, const void*) {}

/// Whether another client is subscribed. The subscription is the one thing of which CUPTI says that
/// somebody has it.
CUptiResult probe(const CuptiLibrary& cupti) {
  CUpti_SubscriberHandle handle = nullptr;
  const CUptiResult result =
      cupti.subscribe(&handle, reinterpret_cast<CUpti_CallbackFunc>(&ignore_callback), nullptr);
  if (result == CUPTI_SUCCESS) cupti.unsubscribe(handle);
  return result;
}

class Collector final : public KernelCollector {
 public:
  Collector(Client& client, record::TraceRecorder& recorder, const Options& options)
      : client_(client), recorder_(recorder), options_(options), pid_(::getpid()) {}

  bool begin(std::string* why) {
    const CuptiLibrary& cupti = client_.cupti;
    CUptiResult result = cupti.register_callbacks(&on_buffer_wanted, &on_buffer_full);
    for (std::size_t i = 0; result == CUPTI_SUCCESS && i < std::size(kKinds); ++i) {
      result = cupti.enable(kKinds[i]);
      if (result != CUPTI_SUCCESS) {
        while (i-- > 0)
          static_cast<void>(cupti.disable(kKinds[i]));  // a kind that was just enabled
      }
    }
    if (result != CUPTI_SUCCESS) {
      *why = "Kernels are not timed: CUPTI says " + cupti.text_of(result) + ".";
      if (result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES) {
        *why =
            "Kernels are not timed: the driver lets only administrators use CUPTI here; see "
            "https://developer.nvidia.com/ERR_NVGPUCTRPERM for how to allow it.";
      }
      return false;
    }
    is_on_.store(true);
    start_thread();
    return true;
  }

  void flush() override {
    if (!is_mine() || !is_on()) return;
    client_.cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  }

  void stop() override {
    if (!is_mine()) return;
    const base::MutexLock start_lock(g_start_mutex);
    {
      const base::MutexLock lock(mutex_);
      is_stopping_ = true;
      wake_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    if (!is_on_.exchange(false)) return;
    // Kinds are switched for the whole process: another client's must stay on.
    if (probe(client_.cupti) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
      tell_taken();
    } else {
      client_.cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
      for (const CUpti_ActivityKind kind : kKinds) client_.cupti.disable(kind);
    }
    client_.listens.store(false, std::memory_order_release);
  }

  bool is_on() const override { return is_on_.load(std::memory_order_relaxed); }
  Totals totals() const override { return client_.translator->totals(); }
  std::string library() const override { return client_.cupti.path; }

 private:
  // A child of fork has neither the thread nor a CUDA that works.
  bool is_mine() const { return pid_ == ::getpid(); }

  void start_thread() {
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { look_now_and_then(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void look_now_and_then() {
    ::pthread_setname_np(::pthread_self(), "levee-kernels");
    std::uint64_t seen = 0;
    int quiet = 0;
    int quiet_limit = kQuietLooks;
    while (true) {
      {
        const base::MutexLock lock(mutex_);
        if (!is_stopping_) wake_.wait_for(mutex_, options_.flush_interval);
        if (is_stopping_) return;
      }
      client_.translator->align_clocks();
      client_.cupti.flush_all(0);  // what is finished; nothing is waited for
      const std::uint64_t records = client_.records.load(std::memory_order_relaxed);
      if (records != seen) {
        seen = records;
        quiet = 0;
        quiet_limit = kQuietLooks;
        continue;
      }
      // Asking means to subscribe for a moment, so it is done rarely, and never while records come.
      if (++quiet < quiet_limit) continue;
      quiet = 0;
      quiet_limit = std::min(quiet_limit * 2, kMaxQuietLooks);
      if (probe(client_.cupti) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
        is_on_.store(false);
        client_.listens.store(false, std::memory_order_release);
        tell_taken();
        return;
      }
    }
  }

  void tell_taken() {
    const std::string text = std::string("Kernel timings end here: ") + kTaken + ".";
    recorder_.note(text);
  }

  Client& client_;
  record::TraceRecorder& recorder_;
  const Options options_;
  const pid_t pid_;
  std::atomic<bool> is_on_{false};
  std::thread thread_;
  base::Mutex mutex_;
  base::ConditionVariable wake_;
  bool is_stopping_ LEVEE_GUARDED_BY(mutex_) = false;
};

// The collector that is on; what CUPTI has must reach the recorder before the file is completed at
// exit.
std::atomic<Collector*> g_collector{nullptr};

void flush_at_exit() {
  if (Collector* collector = g_collector.load()) collector->flush();
}

/// As the collector, and unregisters itself.
class OwnedCollector final : public KernelCollector {
 public:
  explicit OwnedCollector(std::unique_ptr<Collector> collector) : collector_(std::move(collector)) {
    g_collector.store(collector_.get());
  }
  ~OwnedCollector() override { stop(); }
  void flush() override { collector_->flush(); }
  void stop() override {
    Collector* mine = collector_.get();
    g_collector.compare_exchange_strong(mine, nullptr);
    collector_->stop();
  }
  bool is_on() const override { return collector_->is_on(); }
  Totals totals() const override { return collector_->totals(); }
  std::string library() const override { return collector_->library(); }

 private:
  std::unique_ptr<Collector> collector_;
};

}  // namespace

std::unique_ptr<KernelCollector> KernelCollector::start(record::TraceRecorder& recorder,
                                                        Options options, std::string* why) {
  const base::MutexLock lock(g_start_mutex);
  if (const Collector* collector = g_collector.load(); collector != nullptr && collector->is_on()) {
    *why = "Kernels are timed already.";
    return nullptr;
  }
  if (!recorder.enabled()) {
    *why = "Kernels are not timed: recording is off.";
    return nullptr;
  }
  CuptiLibrary cupti;
  if (!cupti.load(options.cupti_library, options.folders, why)) {
    *why = "Kernels are not timed: " + *why;
    return nullptr;
  }
  const CUptiResult state = probe(cupti);
  if (state == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
    *why = std::string("Kernels are not timed: ") + kTaken + "; stop it, or leave out --kernels.";
    return nullptr;
  }
  if (state != CUPTI_SUCCESS) {
    *why = "Kernels are not timed: CUPTI says " + cupti.text_of(state) + ".";
    return nullptr;
  }
  // An earlier collector's client stays for callbacks that are under way.
  auto* client = new Client;
  client->cupti = cupti;
  client->translator = std::make_unique<RecordTranslator>(recorder, client->cupti);
  client->buffers.prepare();
  client->listens.store(true);
  g_client.store(client, std::memory_order_release);
  auto collector = std::make_unique<Collector>(*client, recorder, options);
  if (!collector->begin(why)) return nullptr;
  // After the recorder's own handler, so that it runs before it.
  static const int registered = std::atexit(&flush_at_exit);
  static_cast<void>(registered);  // without it the last kernels are missing
  return std::make_unique<OwnedCollector>(std::move(collector));
}

}  // namespace levee::activity
