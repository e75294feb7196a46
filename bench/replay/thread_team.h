// Threads that take turns: the ones on which a recording's requests are made again.
//
// Owns: one thread for each number above 0 that was ever asked for; number 0 is the caller's own.
// Promises: `run` returns when its work is done, so nothing overlaps and the order of work is the
// order of calls; the same number is the same thread, until the team goes; what work throws comes
// out of `run`. Does not: run anything at the same time as anything else. Called by one thread.
// Cost: two wake-ups a call for numbers above 0 (some 10 us), nothing for 0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace levee::replay {

class ThreadTeam {
 public:
  ThreadTeam();
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  void run(std::uint8_t thread, const std::function<void()>& work);

 private:
  class Member;
  std::vector<std::unique_ptr<Member>> members_;  // by number - 1; null: not asked for yet
};

}  // namespace levee::replay
