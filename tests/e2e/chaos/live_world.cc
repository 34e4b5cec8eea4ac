#include "tests/e2e/chaos/live_world.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"

namespace escapement::chaos {
namespace {

// The world's events are late by at most this much, plus the machine's own delays.
constexpr absl::Duration kTick = absl::Milliseconds(1);

}  // namespace

absl::Time TrueTime() { return absl::FromUnixMicros(absl::ToUnixMicros(absl::Now())); }

LiveWorld::LiveWorld(uint64_t seed) : world_(seed, {.start_time = TrueTime()}) {}
LiveWorld::~LiveWorld() { Stop(); }

void LiveWorld::Start() {
  thread_ = std::thread([this] { Run(); });
}

void LiveWorld::Stop() {
  std::deque<Closure> dropped;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  absl::MutexLock lock(&mutex_);
  dropped.swap(posted_);
}

void LiveWorld::Post(Closure closure) {
  absl::MutexLock lock(&mutex_);
  if (!stopping_) posted_.push_back(std::move(closure));
}

void LiveWorld::Call(absl::FunctionRef<void()> what) {
  absl::Notification done;
  Post([what, &done] {
    what();
    done.Notify();
  });
  done.WaitForNotification();
}

void LiveWorld::Run() {
  const auto wanted = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !posted_.empty();
  };
  while (true) {
    std::deque<Closure> posted;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.AwaitWithTimeout(absl::Condition(&wanted), kTick);
      if (stopping_) return;
      posted.swap(posted_);
    }
    world_.AdvanceBy(TrueTime() - world_.Now());
    for (Closure& closure : posted) closure();
  }
}

}  // namespace escapement::chaos
