#include <cstdio>

#include "absl/time/clock.h"
#include "tests/e2e/demo.h"

namespace escapement::e2e {

void Progress::Show(const std::string& words) {
  const absl::Time now = absl::Now();
  if (now - last_ < (terminal_ ? absl::Milliseconds(100) : absl::Seconds(3))) return;
  last_ = now;
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", words.c_str());
  std::fflush(stderr);
}

void Progress::Clear() {
  if (terminal_) std::fprintf(stderr, "\r\033[K");
}

}  // namespace escapement::e2e
