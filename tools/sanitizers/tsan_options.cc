// The options and suppressions with which programs of the configuration `tsan` run. A suppression
// is for a library that is not ours and is not built with ThreadSanitizer, never for code of ours,
// and says why.

extern "C" {

// Debian's libraries are not instrumented: what their own calls of memcpy, free and so on touch is
// not judged, as the atomics that order it are not seen.
const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:second_deadlock_stack=1:history_size=4";
}

// A server's call ends (OnDone, and gRPC destroys what was the call's) when a count of callbacks
// has come to none, and what gRPC's library takes from that count, as after OnCancel, is not seen:
// what is destroyed there is not judged, nor a reactor that ends later because others held it too.
const char* __tsan_default_suppressions() {
  return "race:ServerCallback*Impl::CallOnDone\n"
         "race:grpc::ServerUnaryReactor::~ServerUnaryReactor\n";
}

}  // extern "C"
