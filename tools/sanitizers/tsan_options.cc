// The options and suppressions of programs built with the configuration `tsan`. A suppression is
// only for a library that is not ours and is not built with ThreadSanitizer, and states its reason.

extern "C" {

// Debian's libraries are not instrumented, so ThreadSanitizer does not see the atomics that order
// their memory accesses. So it ignores what their own calls of memcpy, free and so on touch.
const char* __tsan_default_options() {
  return "ignore_noninstrumented_modules=1:second_deadlock_stack=1:history_size=4";
}

// A server's call ends when a count of its callbacks reaches zero: then OnDone runs, and gRPC
// destroys the call's objects. ThreadSanitizer does not see how gRPC's library decrements that
// count, for example after OnCancel. So it ignores objects destroyed there, and a reactor that ends
// later because others held it too.
const char* __tsan_default_suppressions() {
  return "race:ServerCallback*Impl::CallOnDone\n"
         "race:grpc::ServerUnaryReactor::~ServerUnaryReactor\n";
}

}  // extern "C"
