#include "bench/replay/thread_team.h"

#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <utility>

namespace levee::replay {

class ThreadTeam::Member {
 public:
  Member() : thread_([this] { serve(); }) {}
  ~Member() {
    hand_over({});
    thread_.join();
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  void run(const std::function<void()>& work) {
    std::packaged_task<void()> task(std::cref(work));
    std::future<void> end = task.get_future();
    hand_over(std::move(task));
    end.get();
  }

 private:
  // An empty task: there is no more.
  void hand_over(std::packaged_task<void()> task) {
    {
      const std::lock_guard lock(mutex_);
      task_ = std::move(task);
      is_asked_ = true;
    }
    asked_.notify_one();
  }

  void serve() {
    while (true) {
      std::packaged_task<void()> task;
      {
        std::unique_lock lock(mutex_);
        asked_.wait(lock, [&] { return is_asked_; });
        is_asked_ = false;
        task = std::move(task_);
      }
      if (!task.valid()) return;
      task();
    }
  }

  std::mutex mutex_;
  std::condition_variable asked_;
  std::packaged_task<void()> task_;
  bool is_asked_ = false;
  std::thread thread_;  // the last: it uses all others
};

ThreadTeam::ThreadTeam() = default;
ThreadTeam::~ThreadTeam() = default;

void ThreadTeam::run(std::uint8_t thread, const std::function<void()>& work) {
  if (thread == 0) return work();
  if (members_.size() < thread) members_.resize(thread);
  std::unique_ptr<Member>& member = members_[std::size_t{thread} - 1];
  if (member == nullptr) member = std::make_unique<Member>();
  member->run(work);
}

}  // namespace levee::replay
