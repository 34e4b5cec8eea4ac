// Tells ThreadSanitizer the order that gRPC keeps by its own atomics; Debian builds gRPC without
// it. Actions of a thread before it begins an operation happen before another thread receives the
// end of that operation. Actions of a call happen before an event that is given out after the call
// ended (the end of a server waits this way).

#include <dlfcn.h>
#include <grpc/grpc.h>
#include <sanitizer/tsan_interface.h>

#include <cstdio>
#include <cstdlib>

namespace {

template <typename Function>
Function* Real(const char* symbol) {
  void* found = dlsym(RTLD_NEXT, symbol);
  if (found == nullptr) {
    std::fprintf(stderr, "tsan_grpc: gRPC has no %s\n", symbol);
    std::abort();
  }
  return reinterpret_cast<Function*>(found);
}

char calls_given_up;

grpc_event Given(grpc_event event) {
  // The tag of a timeout, or of the queue's end, is not set and may be any address.
  if (event.type == GRPC_OP_COMPLETE && event.tag != nullptr) __tsan_acquire(event.tag);
  __tsan_acquire(&calls_given_up);
  return event;
}

}  // namespace

extern "C" {

grpc_call_error grpc_call_start_batch(grpc_call* call, const grpc_op* ops, size_t count, void* tag,
                                      void* reserved) {
  static auto* const real = Real<decltype(grpc_call_start_batch)>("grpc_call_start_batch");
  if (tag != nullptr) __tsan_release(tag);
  return real(call, ops, count, tag, reserved);
}

void grpc_call_unref(grpc_call* call) {
  static auto* const real = Real<decltype(grpc_call_unref)>("grpc_call_unref");
  __tsan_release(&calls_given_up);
  real(call);
}

grpc_event grpc_completion_queue_next(grpc_completion_queue* queue, gpr_timespec deadline,
                                      void* reserved) {
  static auto* const real =
      Real<decltype(grpc_completion_queue_next)>("grpc_completion_queue_next");
  return Given(real(queue, deadline, reserved));
}

grpc_event grpc_completion_queue_pluck(grpc_completion_queue* queue, void* tag,
                                       gpr_timespec deadline, void* reserved) {
  static auto* const real =
      Real<decltype(grpc_completion_queue_pluck)>("grpc_completion_queue_pluck");
  return Given(real(queue, tag, deadline, reserved));
}

}  // extern "C"
