// The threads of a program: real ones that take turns.
//
// One thread runs at a time, while the one that called `run` waits, so a program does the same each
// time, and what is kept by thread (caches, lanes, locks) is kept by real threads. A thread starts
// with its first turn and ends with `end` or with the crew. Used from one thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace levee::model_test {

class Crew {
 public:
  ~Crew() {
    while (!members_.empty()) end(members_.begin()->first);
  }

  /// Runs `job` on the thread of that number and waits for its end. 0: the caller's own.
  void run(std::uint32_t number, const std::function<void()>& job) {
    if (number == 0) return job();
    std::unique_ptr<Member>& member = members_[number];
    if (member == nullptr) member = std::make_unique<Member>();
    member->run(job);
  }
  void end(std::uint32_t number) { members_.erase(number); }

 private:
  class Member {
   public:
    Member() : thread_([this] { live(); }) {}
    ~Member() {
      give(nullptr, /*ends=*/true);
      thread_.join();
    }
    void run(const std::function<void()>& job) {
      give(&job, /*ends=*/false);
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return job_ == nullptr; });
    }

   private:
    void give(const std::function<void()>* job, bool ends) {
      const std::lock_guard lock(mutex_);
      job_ = job;
      ends_ = ends;
      changed_.notify_all();
    }
    void live() {
      std::unique_lock lock(mutex_);
      for (;;) {
        changed_.wait(lock, [this] { return job_ != nullptr || ends_; });
        if (job_ == nullptr) return;
        lock.unlock();
        (*job_)();
        lock.lock();
        job_ = nullptr;
        changed_.notify_all();
      }
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    const std::function<void()>* job_ = nullptr;
    bool ends_ = false;
    std::thread thread_;  // last: it uses the others
  };

  std::map<std::uint32_t, std::unique_ptr<Member>> members_;
};

}  // namespace levee::model_test
