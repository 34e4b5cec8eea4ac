// The options and suppressions with which programs of the configuration `tsan` run. A suppression
// is for a library that is not ours and is not built with ThreadSanitizer, never for code of ours,
// and says why.

extern "C" {

// Debian's libraries are not instrumented: what their own calls of memcpy, free and so on touch is
// not judged, as the atomics that order it are not seen.
const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:second_deadlock_stack=1:history_size=4";
}

// gRPC destroys the operations of a call on a thread of its executor, once a count of callbacks
// that its library keeps has come to none; no code of ours runs below.
const char* __tsan_default_suppressions() {
  return "race:grpc::internal::InterceptorBatchMethodsImpl::~InterceptorBatchMethodsImpl\n";
}

}  // extern "C"
