// BackgroundThreads: runs calls that may block, each on a thread of its own, so that none waits for
// another.
//
// Threads: one at a time. The destructor waits for the calls.

#ifndef SERVICES_HANDLER_DELIVERY_KAFKA_BACKGROUND_THREADS_H_
#define SERVICES_HANDLER_DELIVERY_KAFKA_BACKGROUND_THREADS_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <thread>
#include <utility>

namespace escapement::handler {

class BackgroundThreads {
 public:
  BackgroundThreads() = default;
  ~BackgroundThreads() { JoinAll(); }
  BackgroundThreads(const BackgroundThreads&) = delete;
  BackgroundThreads& operator=(const BackgroundThreads&) = delete;

  void Run(std::function<void()> call) {
    Running& running = running_.emplace_back();
    running.thread = std::thread([&running, call = std::move(call)]() mutable {
      call();
      // So that its objects end here, not with the join.
      call = nullptr;
      running.done = true;
    });
  }

  // Calls that have not ended, once those that have ended are joined.
  size_t CountRunning() {
    running_.remove_if([](Running& running) {
      if (!running.done) return false;
      running.thread.join();
      return true;
    });
    return running_.size();
  }

  void JoinAll() {
    for (Running& running : running_) running.thread.join();
    running_.clear();
  }

 private:
  struct Running {
    std::thread thread;
    std::atomic<bool> done{false};
  };
  std::list<Running> running_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_KAFKA_BACKGROUND_THREADS_H_
