#include <dlfcn.h>
#include <grpc/grpc.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace escapement {
namespace {

void InThisProgram() {}

// Where the loader finds what gRPC's library calls by `name`.
bool IsOurs(const char* name) {
  Dl_info found, program;
  return dladdr(dlsym(RTLD_DEFAULT, name), &found) != 0 &&
         dladdr(reinterpret_cast<void*>(&InThisProgram), &program) != 0 &&
         found.dli_fbase == program.dli_fbase;
}

// How many threads of a queue poll.
unsigned PollingMax() { return std::max(1u, std::thread::hardware_concurrency() / 2); }

// What a thread was told that asked with a deadline that had passed: QUEUE_TIMEOUT if it polled.
struct Asked {
  std::atomic<pid_t> thread = 0;
  std::atomic<bool> answered = false;
  grpc_completion_type answer;
};

// A completion queue, and threads that ask for its events as gRPC's own do for callbacks.
class PolledQueue {
 public:
  PolledQueue() {
    grpc_init();
    queue_ = grpc_completion_queue_create_for_next(nullptr);
  }
  ~PolledQueue() {
    grpc_completion_queue_destroy(queue_);
    grpc_shutdown();
  }
  PolledQueue(const PolledQueue&) = delete;
  PolledQueue& operator=(const PolledQueue&) = delete;

  // Starts a thread that asks once, and after ShutDown until there is nothing left. Returns when it
  // has been answered.
  void Ask(Asked& asked) {
    Start(asked);
    while (!asked.answered) std::this_thread::yield();
  }
  // The same, but returns when the thread sleeps as well.
  void AskInVain(Asked& asked) {
    Start(asked);
    while (!asked.answered && !IsAsleep(asked.thread)) std::this_thread::yield();
  }
  // Returns when all threads have ended.
  void ShutDown() {
    grpc_completion_queue_shutdown(queue_);
    shut_down_.Notify();
    for (std::thread& thread : threads_) thread.join();
  }
  grpc_event Next(gpr_timespec deadline) {
    return grpc_completion_queue_next(queue_, deadline, nullptr);
  }

 private:
  void Start(Asked& asked) {
    threads_.emplace_back([this, &asked] {
      pthread_setname_np(pthread_self(), "nexting_thread");
      asked.thread = gettid();
      asked.answer = Next(gpr_inf_past(GPR_CLOCK_REALTIME)).type;
      asked.answered = true;
      shut_down_.WaitForNotification();
      while (Next(gpr_inf_future(GPR_CLOCK_REALTIME)).type != GRPC_QUEUE_SHUTDOWN) {
      }
    });
    while (asked.thread == 0) std::this_thread::yield();
  }
  static bool IsAsleep(pid_t thread) {
    std::string number, name, state;
    std::ifstream(absl::StrCat("/proc/self/task/", thread, "/stat")) >> number >> name >> state;
    return state == "S";
  }

  grpc_completion_queue* queue_;
  absl::Notification shut_down_;
  std::vector<std::thread> threads_;
};

TEST(NextingThreadsTest, AThreadForEachTwoCoresPollsAndTheOthersWaitForTheEnd) {
  // Some lie where a former one was.
  for (int nr = 0; nr < 20; ++nr) {
    std::vector<Asked> polling(PollingMax()), waiting(2);
    PolledQueue queue;
    for (Asked& asked : polling) queue.Ask(asked);
    for (Asked& asked : waiting) queue.AskInVain(asked);
    for (const Asked& asked : waiting) EXPECT_FALSE(asked.answered);
    queue.ShutDown();
    for (const Asked& asked : polling) EXPECT_EQ(asked.answer, GRPC_QUEUE_TIMEOUT);
    for (const Asked& asked : waiting) EXPECT_EQ(asked.answer, GRPC_QUEUE_SHUTDOWN);
  }
}

TEST(NextingThreadsTest, EachQueueHasThreadsThatPoll) {
  std::vector<Asked> of_first(PollingMax()), of_second(PollingMax());
  PolledQueue first, second;
  for (Asked& asked : of_first) first.Ask(asked);
  for (Asked& asked : of_second) second.Ask(asked);
  first.ShutDown();
  second.ShutDown();
  for (const Asked& asked : of_second) EXPECT_EQ(asked.answer, GRPC_QUEUE_TIMEOUT);
}

TEST(NextingThreadsTest, OthersAskAsTheyWant) {
  std::vector<Asked> polling(PollingMax());
  PolledQueue queue;
  for (Asked& asked : polling) queue.Ask(asked);
  EXPECT_EQ(queue.Next(gpr_inf_past(GPR_CLOCK_REALTIME)).type, GRPC_QUEUE_TIMEOUT);
  queue.ShutDown();
}

TEST(NextingThreadsTest, TheThreadsThatPollForCallbacksDoNotSleep) {
  bool went_on = false;
  std::thread polling([&went_on] {
    ASSERT_EQ(pthread_setname_np(pthread_self(), "nexting_thread"), 0);
    gpr_sleep_until(gpr_inf_future(GPR_CLOCK_REALTIME));
    went_on = true;
  });
  polling.join();
  EXPECT_TRUE(went_on);
}

// The sleep is what is tested: it is not waited for anything.
TEST(NextingThreadsTest, OthersSleepAsLongAsTheyWant) {
  const gpr_timespec until =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(1, GPR_TIMESPAN));
  gpr_sleep_until(until);
  EXPECT_GE(gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), until), 0);
}

TEST(NextingThreadsTest, GrpcsLibraryCallsOurs) {
  ASSERT_FALSE(grpc::Version().empty());  // it is linked
  EXPECT_TRUE(IsOurs("gpr_sleep_until"));
  EXPECT_TRUE(IsOurs("grpc_completion_queue_next"));
}

}  // namespace
}  // namespace escapement
