// Tells ThreadSanitizer about the locks of Abseil, which Debian builds without it. For our code and
// for gRPC these definitions come before those of the shared library, and call them.
//
// A thread that waits for a condition releases its lock and acquires it again. The thread that
// unlocks evaluates the conditions, with the lock held. ThreadSanitizer ignores reads inside these
// calls, as in an Abseil that is built with it.

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

#define ABSL_SYMBOL(name) "_ZN4absl7debian3" name
#define ABSL_CONST_SYMBOL(name) "_ZNK4absl7debian3" name

namespace {

// Finds the shared library's definition of `symbol`.
template <typename Function>
Function* Real(const char* symbol) {
  void* found = dlsym(RTLD_NEXT, symbol);
  if (found == nullptr) {
    std::fprintf(stderr, "tsan_locks: Abseil has no %s\n", symbol);
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

// Abseil calls some of these functions from others; only the outermost call counts.
thread_local int depth = 0;

class Inside {
 public:
  Inside() : outermost_(depth++ == 0) {}
  ~Inside() { --depth; }
  bool outermost() const { return outermost_; }

 private:
  const bool outermost_;
};

template <typename Call>
auto Locking(void* mutex, unsigned flags, Call call) {
  const Inside inside;
  if (!inside.outermost()) return call();
  __tsan_mutex_pre_lock(mutex, flags);
  if constexpr (std::is_void_v<decltype(call())>) {
    call();
    __tsan_mutex_post_lock(mutex, flags, 0);
  } else {
    const bool result = call();
    __tsan_mutex_post_lock(mutex, flags, 0);
    return result;
  }
}

template <typename Call>
void TryLocking(void* mutex, unsigned flags, Call call, bool& locked) {
  const Inside inside;
  if (!inside.outermost()) {
    locked = call();
    return;
  }
  flags |= __tsan_mutex_try_lock;
  __tsan_mutex_pre_lock(mutex, flags);
  locked = call();
  __tsan_mutex_post_lock(mutex, locked ? flags : flags | __tsan_mutex_try_lock_failed, 0);
}

template <typename Call>
void Unlocking(void* mutex, unsigned flags, Call call) {
  const Inside inside;
  if (!inside.outermost()) {
    call();
    return;
  }
  __tsan_mutex_pre_unlock(mutex, flags);
  call();
  __tsan_mutex_post_unlock(mutex, flags);
}

// `call` releases the lock and acquires it again.
template <typename Call>
auto Waiting(void* mutex, Call call) {
  if (depth == 0) {
    __tsan_mutex_pre_unlock(mutex, 0);
    __tsan_mutex_post_unlock(mutex, 0);
  }
  return Locking(mutex, 0, call);
}

// The only field of Notification beside its mutex. HasBeenNotified(), which is inline, reads it.
void* NotifiedFlag(const absl::Notification* notification) {
  static_assert(sizeof(absl::Notification) > sizeof(absl::Mutex));
  return const_cast<char*>(reinterpret_cast<const char*>(notification)) + sizeof(absl::Mutex);
}

}  // namespace

namespace absl {
ABSL_NAMESPACE_BEGIN

Mutex::~Mutex() {
  static auto* const real = Real<void(Mutex*)>(ABSL_SYMBOL("5MutexD1Ev"));
  // Not for locks in gRPC's own objects: atomics that ThreadSanitizer does not see count their
  // references.
  __tsan_mutex_destroy(this, __tsan_mutex_not_static);
  real(this);
}

void Mutex::Lock() {
  static auto* const real = Real<void(Mutex*)>(ABSL_SYMBOL("5Mutex4LockEv"));
  Locking(this, 0, [&] { real(this); });
}

bool Mutex::TryLock() {
  static auto* const real = Real<bool(Mutex*)>(ABSL_SYMBOL("5Mutex7TryLockEv"));
  bool locked = false;
  TryLocking(
      this, 0, [&] { return real(this); }, locked);
  return locked;
}

void Mutex::Unlock() {
  static auto* const real = Real<void(Mutex*)>(ABSL_SYMBOL("5Mutex6UnlockEv"));
  Unlocking(this, 0, [&] { real(this); });
}

void Mutex::ReaderLock() {
  static auto* const real = Real<void(Mutex*)>(ABSL_SYMBOL("5Mutex10ReaderLockEv"));
  Locking(this, __tsan_mutex_read_lock, [&] { real(this); });
}

bool Mutex::ReaderTryLock() {
  static auto* const real = Real<bool(Mutex*)>(ABSL_SYMBOL("5Mutex13ReaderTryLockEv"));
  bool locked = false;
  TryLocking(
      this, __tsan_mutex_read_lock, [&] { return real(this); }, locked);
  return locked;
}

void Mutex::ReaderUnlock() {
  static auto* const real = Real<void(Mutex*)>(ABSL_SYMBOL("5Mutex12ReaderUnlockEv"));
  Unlocking(this, __tsan_mutex_read_lock, [&] { real(this); });
}

void Mutex::LockWhen(const Condition& condition) {
  static auto* const real =
      Real<void(Mutex*, const Condition&)>(ABSL_SYMBOL("5Mutex8LockWhenERKNS0_9ConditionE"));
  Locking(this, 0, [&] { real(this, condition); });
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, absl::Duration timeout) {
  static auto* const real = Real<bool(Mutex*, const Condition&, absl::Duration)>(
      ABSL_SYMBOL("5Mutex19LockWhenWithTimeoutERKNS0_9ConditionENS0_8DurationE"));
  return Locking(this, 0, [&] { return real(this, condition, timeout); });
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, absl::Time deadline) {
  static auto* const real = Real<bool(Mutex*, const Condition&, absl::Time)>(
      ABSL_SYMBOL("5Mutex20LockWhenWithDeadlineERKNS0_9ConditionENS0_4TimeE"));
  return Locking(this, 0, [&] { return real(this, condition, deadline); });
}

void Mutex::Await(const Condition& condition) {
  static auto* const real =
      Real<void(Mutex*, const Condition&)>(ABSL_SYMBOL("5Mutex5AwaitERKNS0_9ConditionE"));
  Waiting(this, [&] { real(this, condition); });
}

bool Mutex::AwaitWithTimeout(const Condition& condition, absl::Duration timeout) {
  static auto* const real = Real<bool(Mutex*, const Condition&, absl::Duration)>(
      ABSL_SYMBOL("5Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE"));
  return Waiting(this, [&] { return real(this, condition, timeout); });
}

bool Mutex::AwaitWithDeadline(const Condition& condition, absl::Time deadline) {
  static auto* const real = Real<bool(Mutex*, const Condition&, absl::Time)>(
      ABSL_SYMBOL("5Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE"));
  return Waiting(this, [&] { return real(this, condition, deadline); });
}

void CondVar::Wait(Mutex* mutex) {
  static auto* const real = Real<void(CondVar*, Mutex*)>(ABSL_SYMBOL("7CondVar4WaitEPNS0_5MutexE"));
  Waiting(mutex, [&] { real(this, mutex); });
}

bool CondVar::WaitWithTimeout(Mutex* mutex, absl::Duration timeout) {
  static auto* const real = Real<bool(CondVar*, Mutex*, absl::Duration)>(
      ABSL_SYMBOL("7CondVar15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE"));
  return Waiting(mutex, [&] { return real(this, mutex, timeout); });
}

bool CondVar::WaitWithDeadline(Mutex* mutex, absl::Time deadline) {
  static auto* const real = Real<bool(CondVar*, Mutex*, absl::Time)>(
      ABSL_SYMBOL("7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE"));
  return Waiting(mutex, [&] { return real(this, mutex, deadline); });
}

void Notification::Notify() {
  static auto* const real = Real<void(Notification*)>(ABSL_SYMBOL("12Notification6NotifyEv"));
  __tsan_release(NotifiedFlag(this));
  real(this);
}

void Notification::WaitForNotification() const {
  static auto* const real =
      Real<void(const Notification*)>(ABSL_CONST_SYMBOL("12Notification19WaitForNotificationEv"));
  real(this);
  __tsan_acquire(NotifiedFlag(this));
}

bool Notification::WaitForNotificationWithTimeout(absl::Duration timeout) const {
  static auto* const real = Real<bool(const Notification*, absl::Duration)>(
      ABSL_CONST_SYMBOL("12Notification30WaitForNotificationWithTimeoutENS0_8DurationE"));
  const bool notified = real(this, timeout);
  if (notified) __tsan_acquire(NotifiedFlag(this));
  return notified;
}

bool Notification::WaitForNotificationWithDeadline(absl::Time deadline) const {
  static auto* const real = Real<bool(const Notification*, absl::Time)>(
      ABSL_CONST_SYMBOL("12Notification31WaitForNotificationWithDeadlineENS0_4TimeE"));
  const bool notified = real(this, deadline);
  if (notified) __tsan_acquire(NotifiedFlag(this));
  return notified;
}

ABSL_NAMESPACE_END
}  // namespace absl
