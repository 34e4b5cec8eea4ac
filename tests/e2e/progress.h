// Progress: what the demo is doing, as one line that a terminal overwrites. If the output is no
// terminal, a new line every few seconds.

#ifndef TESTS_E2E_PROGRESS_H_
#define TESTS_E2E_PROGRESS_H_

#include <unistd.h>

#include <string>

#include "absl/time/time.h"

namespace escapement::e2e {

class Progress {
 public:
  void Show(const std::string& words);
  void Clear();

 private:
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  absl::Time last_ = absl::InfinitePast();
};

}  // namespace escapement::e2e

#endif  // TESTS_E2E_PROGRESS_H_
