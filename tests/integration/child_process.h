// ChildProcess: a program that a test or the demo starts, watches, signals and ends, always by its
// process id.
//
// The child dies with its parent (PR_SET_PDEATHSIG), so start children from the main thread. Its
// stderr goes to a file. This object reads its stdout line by line, and can write its stdin.
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
    std::vector<std::string> environment = {};  // NAME=value; added to this process' environment
    // The child's stderr is appended to this file. If empty, it has this process' stderr.
    std::string log = {};
    bool input = false;  // WriteLine works; else the child has this process' stdin
  };

  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const Options& options);
  ~ChildProcess();  // sends SIGKILL if it still runs
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t pid() const { return pid_; }

  // Returns the next line of stdout that begins with `prefix`, without its newline, and skips
  // others. UNAVAILABLE if stdout ends first; DEADLINE_EXCEEDED if no such line comes in time.
  absl::StatusOr<std::string> AwaitLine(absl::string_view prefix, absl::Duration timeout);

  // Writes a line to the child's stdin; only with Options::input. UNAVAILABLE if it has ended.
  absl::Status WriteLine(absl::string_view line);

  void Signal(int signal);

  // Returns the exit code, or 128 + the signal that ended it. DEADLINE_EXCEEDED if it still runs
  // after `timeout`.
  absl::StatusOr<int> Wait(absl::Duration timeout);

  // Sends SIGKILL and waits for the end.
  void Kill();

 private:
  ChildProcess(pid_t pid, int in, int out) : pid_(pid), in_(in), out_(out) {}

  const pid_t pid_;
  const int in_;  // -1 without input
  int out_;       // -1 once stdout has ended
  std::string unread_;
  bool reaped_ = false;
  int exit_code_ = -1;
};

}  // namespace escapement::integration

#endif  // TESTS_INTEGRATION_CHILD_PROCESS_H_
