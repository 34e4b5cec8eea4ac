#include "tests/e2e/chaos/attempt_port.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::chaos {
namespace {

constexpr size_t kReadBytes = 64 << 10;

absl::Time Now() { return absl::FromUnixMicros(absl::ToUnixMicros(absl::Now())); }

template <typename T>
T NumberOr(absl::string_view text, T otherwise) {
  T number = 0;
  return absl::SimpleAtoi(text, &number) ? number : otherwise;
}

Attempt AttemptOf(const fixtures::HttpRequest& request) {
  Attempt attempt;
  attempt.event_id = std::string(request.Header("ce-id"));
  attempt.source = std::string(request.Header("ce-source"));
  const absl::string_view subject = request.Header("ce-subject");  // occurrence "/" index
  attempt.occurrence = std::string(subject.substr(0, subject.rfind('/')));
  attempt.token = std::string(request.Header("Escapement-Token"));
  attempt.body = std::string(request.body);
  attempt.index = NumberOr<uint64_t>(request.Header("Escapement-Index"), 0);
  attempt.run_count = NumberOr<uint64_t>(request.Header("Escapement-Count"), 1);
  attempt.attempt = NumberOr<uint32_t>(request.Header("Escapement-Attempt"), 0);
  attempt.nominal = absl::FromUnixMicros(fixtures::ParseUtcMicros(request.Header("ce-time")));
  attempt.launch =
      absl::FromUnixMicros(fixtures::ParseUtcMicros(request.Header("Escapement-Launch-Time")));
  return attempt;
}

}  // namespace

class AttemptPort::Loop {
 public:
  explicit Loop(std::function<void(Attempt)> on_attempt) : on_attempt_(std::move(on_attempt)) {}

  ~Loop() {
    if (thread_.joinable()) {
      {
        absl::MutexLock lock(&mutex_);
        stopping_ = true;
      }
      Wake();
      thread_.join();
    }
    for (auto& [fd, connection] : connections_) close(fd);
    for (const int fd : {listener_, wakeup_, epoll_}) {
      if (fd >= 0) close(fd);
    }
  }

  absl::Status Start() {
    ASSIGN_OR_RETURN(const fixtures::ListeningSocket listening, fixtures::ListenOn("127.0.0.1", 0));
    listener_ = listening.fd;
    address_ = absl::StrCat("127.0.0.1:", listening.port);
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    wakeup_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    Watch(listener_, EPOLLIN, EPOLL_CTL_ADD);
    Watch(wakeup_, EPOLLIN, EPOLL_CTL_ADD);
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  const std::string& address() const { return address_; }

  void Answer(size_t number, std::string response) {
    {
      absl::MutexLock lock(&mutex_);
      answers_.emplace_back(number, std::move(response));
    }
    Wake();
  }

  std::vector<Fate> Fates() const {
    absl::MutexLock lock(&mutex_);
    return fates_;
  }

 private:
  struct Connection {
    int fd = -1;
    std::string in;
    std::string out;
    std::optional<size_t> last;  // number of the connection's last attempt
    bool answering = false;      // the last attempt waits for its answer
    uint32_t events = EPOLLIN;
  };

  void Watch(int fd, uint32_t events, int operation) {
    epoll_event event = {};
    event.events = events;
    event.data.fd = fd;
    epoll_ctl(epoll_, operation, fd, &event);
  }
  void Wake() {
    const uint64_t one = 1;
    // The counter is full, so the thread is awake anyhow.
    if (write(wakeup_, &one, sizeof(one)) < 0) return;
  }

  void Run() {
    epoll_event events[128];
    while (true) {
      const int count = epoll_wait(epoll_, events, 128, -1);
      for (int i = 0; i < count; ++i) {
        const int fd = events[i].data.fd;
        if (fd == wakeup_) {
          if (!TakeAnswers()) return;
        } else if (fd == listener_) {
          AcceptAll();
        } else {
          Serve(fd, events[i].events);
        }
      }
    }
  }

  // Sends the answers that are due. False if the thread must stop.
  bool TakeAnswers() {
    uint64_t ignored = 0;
    if (read(wakeup_, &ignored, sizeof(ignored)) < 0) ignored = 0;
    std::vector<std::pair<size_t, std::string>> answers;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return false;
      answers.swap(answers_);
    }
    for (auto& [number, response] : answers) {
      const auto waits = waiting_.find(number);
      if (waits == waiting_.end()) continue;
      Connection& connection = *connections_.at(waits->second);
      waiting_.erase(waits);
      connection.answering = false;
      connection.out.append(response);
      {
        absl::MutexLock lock(&mutex_);
        fates_[number].answered = Now();
      }
      if (Flush(connection)) TakeRequest(connection);
    }
    return true;
  }

  void AcceptAll() {
    while (true) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      connections_[fd] = std::make_unique<Connection>();
      connections_[fd]->fd = fd;
      Watch(fd, EPOLLIN, EPOLL_CTL_ADD);
    }
  }

  void Serve(int fd, uint32_t events) {
    const auto found = connections_.find(fd);
    if (found == connections_.end()) return;
    Connection& connection = *found->second;
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
      const ssize_t got = recv(fd, buffer_, sizeof(buffer_), 0);
      if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return Drop(connection);
      if (got > 0) connection.in.append(buffer_, static_cast<size_t>(got));
    }
    if (Flush(connection)) TakeRequest(connection);
  }

  void TakeRequest(Connection& connection) {
    if (connection.answering || connection.in.empty()) return;
    size_t used = 0;
    const fixtures::ParseState state = fixtures::ParseHttpRequest(connection.in, &request_, &used);
    if (state == fixtures::ParseState::kMalformed) return Drop(connection);
    if (state == fixtures::ParseState::kNeedContinue) {
      connection.out.append("HTTP/1.1 100 Continue\r\n\r\n");
      Flush(connection);
      return;
    }
    if (state != fixtures::ParseState::kComplete) return;
    Attempt attempt = AttemptOf(request_);
    attempt.time = Now();
    {
      absl::MutexLock lock(&mutex_);
      if (connection.last.has_value()) fates_[*connection.last].read = true;
      attempt.number = fates_.size();
      fates_.emplace_back();
    }
    connection.in.erase(0, used);
    connection.last = attempt.number;
    connection.answering = true;
    waiting_[attempt.number] = connection.fd;
    on_attempt_(std::move(attempt));
  }

  // False if the connection is gone.
  bool Flush(Connection& connection) {
    while (!connection.out.empty()) {
      const ssize_t sent =
          send(connection.fd, connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0 && errno != EAGAIN) {
        Drop(connection);
        return false;
      }
      if (sent < 0) break;
      connection.out.erase(0, static_cast<size_t>(sent));
    }
    const uint32_t events = EPOLLIN | (connection.out.empty() ? 0u : EPOLLOUT);
    if (events != connection.events) Watch(connection.fd, events, EPOLL_CTL_MOD);
    connection.events = events;
    return true;
  }

  void Drop(Connection& connection) {
    if (connection.last.has_value()) {
      absl::MutexLock lock(&mutex_);
      fates_[*connection.last].broken = Now();
    }
    if (connection.answering) waiting_.erase(*connection.last);
    const int fd = connection.fd;
    close(fd);
    connections_.erase(fd);
  }

  const std::function<void(Attempt)> on_attempt_;
  std::string address_;
  int listener_ = -1;
  int wakeup_ = -1;
  int epoll_ = -1;
  std::thread thread_;
  mutable absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::pair<size_t, std::string>> answers_ ABSL_GUARDED_BY(mutex_);
  std::vector<Fate> fates_ ABSL_GUARDED_BY(mutex_);

  // Used by the loop's thread only.
  std::map<int, std::unique_ptr<Connection>> connections_;
  std::map<size_t, int> waiting_;  // attempt that waits for its answer → fd of its connection
  fixtures::HttpRequest request_;
  char buffer_[kReadBytes];
};

AttemptPort::AttemptPort(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
AttemptPort::~AttemptPort() = default;

absl::StatusOr<std::unique_ptr<AttemptPort>> AttemptPort::Start(
    std::function<void(Attempt)> on_attempt) {
  auto loop = std::make_unique<Loop>(std::move(on_attempt));
  RETURN_IF_ERROR(loop->Start());
  return std::unique_ptr<AttemptPort>(new AttemptPort(std::move(loop)));
}

std::string AttemptPort::address() const { return loop_->address(); }
void AttemptPort::Answer(size_t number, int status, absl::string_view header_lines) {
  loop_->Answer(number, absl::StrCat("HTTP/1.1 ", status, status < 300 ? " OK" : " As Told", "\r\n",
                                     header_lines, "Content-Length: 0\r\n\r\n"));
}
std::vector<Fate> AttemptPort::Fates() const { return loop_->Fates(); }

}  // namespace escapement::chaos
