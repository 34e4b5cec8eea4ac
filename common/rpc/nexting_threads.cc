// Keeps gRPC's callback API awake.
//
// The threads that poll for it ("nexting_thread", src/cpp/common/completion_queue_cc.cc of gRPC
// 1.51; pull request 25169 of grpc/grpc) sleep for 100 ms whenever nothing has happened for a
// second. On a small machine there are two of them, and often both sleep at the same time: what
// comes then, after a quiet second, waits for up to 100 ms, be it a call to a server, an answer or
// a delivery. That is far more than events may be late, so they do not sleep: they go back to
// waiting for what happens.
//
// Nothing offers this as an option; but gpr_sleep_until is found in the program before gRPC's
// library.

#include <dlfcn.h>
#include <grpc/support/time.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr char kPollingThread[] = "nexting_thread";

bool OfPollingThread() {
  char name[16];  // the longest that Linux has
  return pthread_getname_np(pthread_self(), name, sizeof(name)) == 0 &&
         std::strcmp(name, kPollingThread) == 0;
}

}  // namespace

extern "C" void gpr_sleep_until(gpr_timespec until) {
  static auto* const real =
      reinterpret_cast<decltype(&gpr_sleep_until)>(dlsym(RTLD_NEXT, "gpr_sleep_until"));
  if (real == nullptr) {
    std::fprintf(stderr, "gRPC's library has no gpr_sleep_until: is it linked statically?\n");
    std::abort();
  }
  if (!OfPollingThread()) real(until);
}
