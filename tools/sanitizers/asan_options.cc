// The options of programs built with the configuration `asan`, so that they need no environment.

extern "C" {

const char* __asan_default_options() {
  return "detect_stack_use_after_return=1:check_initialization_order=1:strict_init_order=1";
}

const char* __ubsan_default_options() { return "print_stacktrace=1"; }

}  // extern "C"
