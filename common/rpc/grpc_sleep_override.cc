// Overrides gpr_sleep_until so that gRPC's polling threads never sleep.
//
// gRPC's callback API is polled by threads of gRPC's own, named "nexting_thread"
// (src/cpp/common/completion_queue_cc.cc of gRPC 1.51; pull request 25169 of grpc/grpc). After a
// second without an event such a thread sleeps for 100 ms. On a small machine all of them often
// sleep at the same time, so the first call, answer or delivery after a quiet second waits for up
// to 100 ms. With this override they wait for the next event instead. Other threads sleep as
// before.
//
// gRPC has no option for this. gpr_sleep_until is a public function of its library; the loader
// finds ours first because it is in the program. docs/adr/0014 has the measurement.

#include <dlfcn.h>
#include <grpc/support/time.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr char kPollingThread[] = "nexting_thread";

using SleepFunction = decltype(gpr_sleep_until);

// The function of gRPC's library.
SleepFunction* LibrarySleep() {
  auto* const sleep = reinterpret_cast<SleepFunction*>(dlsym(RTLD_NEXT, "gpr_sleep_until"));
  if (sleep == nullptr) {
    std::fputs("gRPC's library has no gpr_sleep_until: is it linked statically?\n", stderr);
    std::abort();
  }
  return sleep;
}

bool IsPollingThread() {
  static thread_local const bool is_polling_thread = [] {
    char name[16];  // the longest that Linux has
    return pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
           std::strcmp(name, kPollingThread) == 0;
  }();
  return is_polling_thread;
}

}  // namespace

extern "C" void gpr_sleep_until(gpr_timespec until) {
  static SleepFunction* const library_sleep = LibrarySleep();
  if (!IsPollingThread()) library_sleep(until);
}
