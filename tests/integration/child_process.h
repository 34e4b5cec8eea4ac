// ChildProcess: a program that a test or the demo starts, watches, signals and ends, by its process
// id only.
//
// The child dies with its parent (PR_SET_PDEATHSIG), so start children from the main thread. Its
// stderr goes to a file; its stdout is read here, line by line.
//
// Threads: none of its own; one at a time.

#ifndef TESTS_INTEGRATION_CHILD_PROCESS_H_
#define TESTS_INTEGRATION_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace escapement::integration {

class ChildProcess {
 public:
  struct Options {
    std::string program;  // a path
    std::vector<std::string> arguments = {};
    std::vector<std::string> environment = {};  // NAME=value, added to the own environment
    // Stderr is appended to this file; empty = own stderr.
    std::string log = {};
  };

  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const Options& options);
  ~ChildProcess();  // SIGKILL if it still runs
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }

  // The next line of stdout that begins with `prefix`, without its newline; others are passed over.
  // UNAVAILABLE if stdout ends first, DEADLINE_EXCEEDED if none comes in time.
  absl::StatusOr<std::string> AwaitLine(absl::string_view prefix, absl::Duration timeout);

  void Signal(int signal);

  // The exit code, or 128 + the signal that ended it. DEADLINE_EXCEEDED if it still runs after
  // `timeout`.
  absl::StatusOr<int> Wait(absl::Duration timeout);

  // SIGKILL, and waits for the end.
  void Kill();

 private:
  ChildProcess(pid_t pid, int out) : pid_(pid), out_(out) {}

  const pid_t pid_;
  int out_;  // -1 once it has ended
  std::string unread_;
  bool reaped_ = false;
  int exit_code_ = -1;
};

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_CHILD_PROCESS_H_
