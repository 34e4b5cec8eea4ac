#include "common/runtime/system_runtime.h"

#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/timex.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"

namespace escapement {

namespace {

constexpr int64_t kSleepNanosMax = 1'000'000'000;
constexpr int64_t kNanosMax = INT64_MAX / 4;

int64_t BoottimeNanos() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

class SystemClock : public Clock {
 public:
  absl::Duration Elapsed() const override { return absl::Nanoseconds(BoottimeNanos()); }
  absl::Time WallNow() const override { return absl::Now(); }
  bool WallIsSynchronised() const override {
    timex state = {};  // no modes: changes nothing, needs no privilege
    const int result = adjtimex(&state);
    return result >= 0 && result != TIME_ERROR && (state.status & STA_UNSYNC) == 0;
  }
  std::string BootId() const override { return boot_id_; }

 private:
  static std::string ReadBootId() {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    std::getline(file, id);
    return id;
  }

  const std::string boot_id_ = ReadBootId();
};

// xoshiro256++ by David Blackman and Sebastiano Vigna (public domain, prng.di.unimi.it).
class Xoshiro {
 public:
  Xoshiro() {
    size_t filled = 0;
    while (filled < sizeof(state_)) {
      const ssize_t got =
          getrandom(reinterpret_cast<char*>(state_) + filled, sizeof(state_) - filled, 0);
      if (got > 0) filled += static_cast<size_t>(got);
    }
    state_[0] |= 1;  // an all-zero state would yield only zeros
  }

  uint64_t Next() {
    const uint64_t result = Rotate(state_[0] + state_[3], 23) + state_[0];
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = Rotate(state_[3], 45);
    return result;
  }

 private:
  static uint64_t Rotate(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t state_[4];
};

class SystemRandom : public Random {
 public:
  uint64_t Next() override {
    thread_local Xoshiro generator;
    return generator.Next();
  }
};

// The state that the thread and the handle share. The last of the two destroys it.
class ThreadCore {
 public:
  void Post(Closure closure) {
    bool wake = false;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stopped_.load(std::memory_order_relaxed)) return;
      queue_.push_back({std::move(closure), 0});
      wake = std::exchange(sleeping_, false);
    }
    if (wake) wake_.notify_one();
  }

  Executor::TimerId PostAfter(absl::Duration delay, Closure closure) {
    const int64_t nanos =
        std::clamp<int64_t>(absl::ToInt64Nanoseconds(absl::Ceil(
                                std::min(delay, absl::Hours(24 * 365 * 50)), absl::Nanoseconds(1))),
                            0, kNanosMax);
    const int64_t due = BoottimeNanos() + nanos;
    bool wake = false;
    Executor::TimerId timer = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (stopped_.load(std::memory_order_relaxed)) return ++dropped_timer_;
      timer = timers_.Add(due, std::move(closure));
      if (due < sleep_until_) wake = std::exchange(sleeping_, false);
    }
    if (wake) wake_.notify_one();
    return timer;
  }

  bool Cancel(Executor::TimerId timer) {
    Closure dropped;  // destroyed after the lock is released
    std::lock_guard<std::mutex> lock(mutex_);
    dropped = timers_.Take(timer);
    return dropped != nullptr;
  }

  void RequestStop() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopped_.store(true, std::memory_order_relaxed);
      sleeping_ = false;
    }
    wake_.notify_one();
  }

  void Run() {
    std::vector<Posted> batch;
    while (NextBatch(batch)) {
      for (Posted& posted : batch) {
        if (stopped_.load(std::memory_order_relaxed)) break;
        if (posted.timer != 0) posted.closure = TakeTimer(posted.timer);
        if (posted.closure == nullptr) continue;
        posted.closure();
        posted.closure = nullptr;  // destroy it now, not with the whole batch
      }
      batch.clear();
    }
    batch.clear();
    DropAll();
  }

 private:
  struct Posted {
    Closure closure;
    Executor::TimerId timer;  // not 0: the closure is still among the timers, where Cancel finds it
  };

  Closure TakeTimer(Executor::TimerId timer) {
    std::lock_guard<std::mutex> lock(mutex_);
    return timers_.Take(timer);
  }

  // Waits for closures to run; returns false once stopped.
  bool NextBatch(std::vector<Posted>& batch) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      if (stopped_.load(std::memory_order_relaxed)) return false;
      std::optional<int64_t> next = timers_.NextDue();
      if (next.has_value()) {
        const int64_t now = BoottimeNanos();
        while (const Executor::TimerId timer = timers_.PopDue(now))
          queue_.push_back({nullptr, timer});
        next = timers_.NextDue();
      }
      if (!queue_.empty()) {
        batch.swap(queue_);
        return true;
      }
      Sleep(lock, next);
    }
  }

  void Sleep(std::unique_lock<std::mutex>& lock, std::optional<int64_t> until) {
    sleeping_ = true;
    sleep_until_ = until.value_or(INT64_MAX);
    const auto woken = [this] { return !sleeping_; };
    if (until.has_value()) {
      const int64_t nanos = std::min(*until - BoottimeNanos(), kSleepNanosMax);
      wake_.wait_until(lock, std::chrono::steady_clock::now() + std::chrono::nanoseconds(nanos),
                       woken);
    } else {
      wake_.wait(lock, woken);
    }
    sleeping_ = false;
    sleep_until_ = INT64_MIN;
  }

  // Destroys them without the lock, because closures may post, cancel or stop while they are
  // destroyed.
  void DropAll() {
    std::vector<Posted> queue;
    std::vector<Closure> timers;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      queue.swap(queue_);
      timers_.Clear(timers);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<bool> stopped_{false};  // written under mutex_
  // Guarded by mutex_:
  std::vector<Posted> queue_;
  TimerHeap timers_;
  bool sleeping_ = false;            // the thread waits and was not woken yet
  int64_t sleep_until_ = INT64_MIN;  // the end of that wait
  Executor::TimerId dropped_timer_ = Executor::TimerId{1} << 63;
};

class ThreadExecutor : public Executor {
 public:
  explicit ThreadExecutor(const std::string& name) : core_(std::make_shared<ThreadCore>()) {
    thread_ = std::thread([core = core_, name] {
      prctl(PR_SET_NAME, name.substr(0, 15).c_str(), 0, 0, 0);
      prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
      core->Run();
    });
    thread_id_ = thread_.get_id();
  }

  ~ThreadExecutor() override {
    Stop();
    if (thread_.joinable()) thread_.detach();  // destroyed by its own closure
  }

  void Post(Closure closure) override { core_->Post(std::move(closure)); }
  TimerId PostAfter(absl::Duration delay, Closure closure) override {
    return core_->PostAfter(delay, std::move(closure));
  }
  bool Cancel(TimerId timer) override { return core_->Cancel(timer); }

  void Stop() override {
    core_->RequestStop();
    if (std::this_thread::get_id() == thread_id_) return;
    std::lock_guard<std::mutex> lock(join_mutex_);
    if (thread_.joinable()) thread_.join();
  }

 private:
  const std::shared_ptr<ThreadCore> core_;
  std::mutex join_mutex_;
  std::thread thread_;  // joined under join_mutex_
  std::thread::id thread_id_;
};

}  // namespace

SystemRuntime::SystemRuntime()
    : clock_(std::make_unique<SystemClock>()), random_(std::make_unique<SystemRandom>()) {}
SystemRuntime::~SystemRuntime() = default;

Clock& SystemRuntime::clock() { return *clock_; }
Random& SystemRuntime::random() { return *random_; }

std::shared_ptr<Executor> SystemRuntime::NewExecutor(std::string name) {
  return std::make_shared<ThreadExecutor>(name);
}

Executor::TimerId TimerHeap::Add(int64_t due_nanos, Closure closure) {
  const Executor::TimerId timer = ++last_timer_;
  closures_.emplace(timer, std::move(closure));
  heap_.push_back({due_nanos, timer});
  std::push_heap(heap_.begin(), heap_.end(), Later);
  return timer;
}

Closure TimerHeap::Take(Executor::TimerId timer) {
  auto it = closures_.find(timer);
  if (it == closures_.end()) return nullptr;
  Closure closure = std::move(it->second);
  closures_.erase(it);
  if (heap_.size() > 64 && heap_.size() > 2 * closures_.size()) Compact();
  return closure;
}

std::optional<int64_t> TimerHeap::NextDue() {
  DropCancelledTop();
  if (heap_.empty()) return std::nullopt;
  return heap_.front().due_nanos;
}

Executor::TimerId TimerHeap::PopDue(int64_t now_nanos) {
  DropCancelledTop();
  if (heap_.empty() || heap_.front().due_nanos > now_nanos) return 0;
  const Executor::TimerId timer = heap_.front().timer;
  std::pop_heap(heap_.begin(), heap_.end(), Later);
  heap_.pop_back();
  return timer;
}

void TimerHeap::Clear(std::vector<Closure>& dropped) {
  for (auto& [timer, closure] : closures_) dropped.push_back(std::move(closure));
  closures_.clear();
  heap_.clear();
}

void TimerHeap::DropCancelledTop() {
  while (!heap_.empty() && !closures_.contains(heap_.front().timer)) {
    std::pop_heap(heap_.begin(), heap_.end(), Later);
    heap_.pop_back();
  }
}

void TimerHeap::Compact() {
  heap_.erase(
      std::remove_if(heap_.begin(), heap_.end(),
                     [this](const Place& place) { return !closures_.contains(place.timer); }),
      heap_.end());
  std::make_heap(heap_.begin(), heap_.end(), Later);
}

}  // namespace escapement
