// Threads of C11, for programs built with the configuration `tsan`. librdkafka makes its threads by
// thrd_create, which ThreadSanitizer does not intercept: it crashes in a thread that it does not
// know. Here they are made, and joined, as threads of POSIX.

#include <pthread.h>
#include <threads.h>

#include <cstdint>

namespace {

struct Start {
  thrd_start_t function;
  void* argument;
};

void* Run(void* given) {
  const Start start = *static_cast<Start*>(given);
  delete static_cast<Start*>(given);
  return reinterpret_cast<void*>(static_cast<intptr_t>(start.function(start.argument)));
}

}  // namespace

extern "C" {

int thrd_create(thrd_t* thread, thrd_start_t function, void* argument) noexcept {
  auto* start = new Start{function, argument};
  if (pthread_create(thread, nullptr, &Run, start) == 0) return thrd_success;
  delete start;
  return thrd_error;
}

int thrd_join(thrd_t thread, int* result) noexcept {
  void* returned = nullptr;
  if (pthread_join(thread, &returned) != 0) return thrd_error;
  if (result != nullptr) *result = static_cast<int>(reinterpret_cast<intptr_t>(returned));
  return thrd_success;
}

}  // extern "C"
