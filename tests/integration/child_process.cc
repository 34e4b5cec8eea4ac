#include "tests/integration/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace escapement::integration {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

int MillisUntil(absl::Time deadline) {
  return static_cast<int>(
      std::max<int64_t>(0, absl::ToInt64Milliseconds(deadline - absl::Now()) + 1));
}

// Runs between fork and exec, so it makes only calls that are safe there.
[[noreturn]] void RunChild(pid_t parent, int in, int out, int log, char* const* argv,
                           char* const* envp) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (in >= 0) dup2(in, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  if (log >= 0) dup2(log, STDERR_FILENO);
  execve(argv[0], argv, envp);
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const Options& options) {
  std::vector<std::string> arguments = {options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable)
    environment.emplace_back(*variable);
  environment.insert(environment.end(), options.environment.begin(), options.environment.end());
  const auto argv = Pointers(arguments);
  const auto envp = Pointers(environment);

  int log = -1;
  if (!options.log.empty()) {
    log = open(options.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0)
      return absl::UnavailableError(
          absl::StrCat("cannot write ", options.log, ": ", strerror(errno)));
  }
  int out[2];
  if (pipe2(out, O_CLOEXEC) != 0) return absl::UnavailableError(strerror(errno));
  // A socket, because writing to one that is closed can fail without a signal.
  int in[2] = {-1, -1};
  if (options.input && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0)
    return absl::UnavailableError(strerror(errno));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) RunChild(parent, in[1], out[1], log, argv.data(), envp.data());
  close(out[1]);
  if (in[1] >= 0) close(in[1]);
  if (log >= 0) close(log);
  if (pid < 0) {
    close(out[0]);
    if (in[0] >= 0) close(in[0]);
    return absl::UnavailableError(absl::StrCat("cannot fork: ", strerror(errno)));
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, in[0], out[0]));
}

ChildProcess::~ChildProcess() {
  Kill();
  if (in_ >= 0) close(in_);
  if (out_ >= 0) close(out_);
}

absl::Status ChildProcess::WriteLine(absl::string_view line) {
  const std::string bytes = absl::StrCat(line, "\n");
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t written = send(in_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (written < 0) return absl::UnavailableError(strerror(errno));
    sent += static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ChildProcess::AwaitLine(absl::string_view prefix,
                                                    absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  while (true) {
    for (size_t end = unread_.find('\n'); end != std::string::npos; end = unread_.find('\n')) {
      const std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      if (absl::StartsWith(line, prefix)) return line;
    }
    pollfd poll_for = {out_, POLLIN, 0};
    if (out_ >= 0 && poll(&poll_for, 1, MillisUntil(deadline)) == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat("no line '", prefix, "…' in ", absl::FormatDuration(timeout)));
    }
    char buffer[4096];
    const ssize_t bytes = out_ >= 0 ? read(out_, buffer, sizeof(buffer)) : 0;
    if (bytes <= 0)
      return absl::UnavailableError(absl::StrCat("ended before a line '", prefix, "…'"));
    unread_.append(buffer, static_cast<size_t>(bytes));
  }
}

void ChildProcess::Signal(int signal) {
  // The child is not reaped, so the process id is still its own.
  if (!reaped_) kill(pid_, signal);
}

absl::StatusOr<int> ChildProcess::Wait(absl::Duration timeout) {
  if (reaped_) return exit_code_;
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (handle < 0) return absl::UnavailableError(absl::StrCat("pidfd_open: ", strerror(errno)));
  const absl::Time deadline = absl::Now() + timeout;
  pollfd poll_for = {handle, POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&poll_for, 1, MillisUntil(deadline));
  } while (ready < 0 && errno == EINTR);
  close(handle);
  if (ready == 0) return absl::DeadlineExceededError(absl::StrCat("process ", pid_, " still runs"));
  int status = 0;
  waitpid(pid_, &status, 0);
  reaped_ = true;
  exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return exit_code_;
}

void ChildProcess::Kill() {
  if (reaped_) return;
  Signal(SIGKILL);
  Wait(absl::Seconds(30)).IgnoreError();
}

}  // namespace escapement::integration
