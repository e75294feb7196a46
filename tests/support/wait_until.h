// Waiting for what another thread or process does, in tests.
//
// Promises: `wait_until` returns as soon as the condition holds (true) or the limit of real time is
// over (false). This is the one place in the tests that sleeps: everywhere else a sleep would be a
// guess about somebody's speed.
#pragma once

#include <chrono>
#include <thread>

namespace levee::test {

template <typename Condition>
bool wait_until(Condition condition, std::chrono::seconds limit = std::chrono::seconds{20}) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  return true;
}

}  // namespace levee::test
