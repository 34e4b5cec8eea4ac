#include "tests/e2e/chaos/base/cutting_proxy.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/fixtures/raw_call.h"

namespace escapement::chaos {
namespace {

constexpr size_t kReadBytes = 64 << 10;

// Where a link leads.
class Upstream {
 public:
  static absl::StatusOr<Upstream> Parse(const std::string& text) {
    Upstream upstream;
    if (absl::StartsWith(text, "/")) {
      upstream.unix_.sun_family = AF_UNIX;
      if (text.size() >= sizeof(upstream.unix_.sun_path))
        return absl::InvalidArgumentError(absl::StrCat("too long for a socket: ", text));
      memcpy(upstream.unix_.sun_path, text.data(), text.size());
      return upstream;
    }
    const std::vector<std::string> parts = absl::StrSplit(text, ':');
    int port = 0;
    if (parts.size() != 2 || !absl::SimpleAtoi(parts[1], &port))
      return absl::InvalidArgumentError(absl::StrCat("not host:port: ", text));
    upstream.inet_.sin_family = AF_INET;
    upstream.inet_.sin_port = htons(static_cast<uint16_t>(port));
    upstream.inet_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return upstream;
  }

  // Returns a socket that is connected or connecting; -1 if nobody listens.
  int Connect() const {
    const bool local = unix_.sun_family == AF_UNIX;
    const int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int result = local
                           ? connect(fd, reinterpret_cast<const sockaddr*>(&unix_), sizeof(unix_))
                           : connect(fd, reinterpret_cast<const sockaddr*>(&inet_), sizeof(inet_));
    if (result == 0 || errno == EINPROGRESS) return fd;
    close(fd);
    return -1;
  }

 private:
  sockaddr_in inet_ = {};
  sockaddr_un unix_ = {};
};

void CloseWithReset(int fd) {
  const linger no_wait = {1, 0};
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &no_wait, sizeof(no_wait));
  close(fd);
}

}  // namespace

class CuttingProxy::Loop {
 public:
  explicit Loop(const Options& options) : options_(options) {}

  ~Loop() {
    if (thread_.joinable()) {
      Command([this] { stopping_ = true; });
      thread_.join();
    }
    while (!pairs_.empty()) Drop(pairs_.begin()->second.get());
    for (auto& [name, link] : links_) close(link->listener);
    for (const int fd : {wakeup_, epoll_}) {
      if (fd >= 0) close(fd);
    }
  }

  absl::Status Start() {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    wakeup_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (epoll_ < 0 || wakeup_ < 0) return absl::UnavailableError(strerror(errno));
    Watch(wakeup_, EPOLLIN, EPOLL_CTL_ADD);
    thread_ = std::thread([this] { Run(); });
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> AddLink(const std::string& name, const std::string& upstream) {
    auto link = std::make_unique<Link>();
    ASSIGN_OR_RETURN(const auto parsed, Upstream::Parse(upstream));
    link->upstream = parsed;
    ASSIGN_OR_RETURN(const fixtures::ListeningSocket listening, fixtures::ListenOn("127.0.0.1", 0));
    link->listener = listening.fd;
    CommandAndWait([&] {
      Watch(link->listener, EPOLLIN, EPOLL_CTL_ADD);
      listeners_[link->listener] = link.get();
      links_[name] = std::move(link);
    });
    return absl::StrCat("127.0.0.1:", listening.port);
  }

  absl::Status Redirect(const std::string& name, const std::string& upstream) {
    ASSIGN_OR_RETURN(const auto parsed, Upstream::Parse(upstream));
    CommandAndWait([&] {
      Link& link = *links_.at(name);
      link.upstream = parsed;
      for (Pair* pair : PairsOf(link)) Drop(pair);
    });
    return absl::OkStatus();
  }

  void Set(const std::string& name, Cut cut, bool reset) {
    CommandAndWait([&] {
      Link& link = *links_.at(name);
      link.cut = cut;
      for (Pair* pair : PairsOf(link)) {
        Tear(pair);
        if (reset || cut == Cut::kReset) {
          Drop(pair);
        } else {
          Move(pair);
        }
      }
    });
  }

  uint64_t connections(const std::string& name) {
    uint64_t count = 0;
    CommandAndWait([&] { count = links_.at(name)->accepted; });
    return count;
  }

 private:
  struct Link {
    int listener = -1;
    Upstream upstream;
    Cut cut = Cut::kNone;
    uint64_t accepted = 0;
    uint64_t torn = 0;
  };
  // Bytes read from one end that wait to be written to the other.
  struct Chunk {
    absl::Time release;
    std::string bytes;
    size_t taken = 0;
  };
  struct End {
    int fd = -1;
    uint32_t events = 0;    // epoll events that are watched
    std::deque<Chunk> out;  // bytes to be written to this end
    size_t out_bytes = 0;
    bool connecting = false;
  };
  // A connection: [0] is the client's end, [1] the upstream's.
  struct Pair {
    Link* link = nullptr;
    End ends[2];
    size_t torn_left = 0;  // bytes of requests that may still pass; only for kTorn
  };

  std::vector<Pair*> PairsOf(const Link& link) {
    std::vector<Pair*> pairs;
    for (auto& [fd, pair] : pairs_) {
      if (pair->link == &link && fd == pair->ends[0].fd) pairs.push_back(pair.get());
    }
    return pairs;
  }

  // Messages have many sizes, so connections are torn after many numbers of bytes.
  void Tear(Pair* pair) {
    if (pair->link->cut != Cut::kTorn) return;
    constexpr size_t kStep = 37;
    pair->torn_left =
        options_.torn_bytes + pair->link->torn++ * kStep % (3 * options_.torn_bytes + 1);
  }

  void Watch(int fd, uint32_t events, int operation) {
    epoll_event event = {};
    event.events = events;
    event.data.fd = fd;
    epoll_ctl(epoll_, operation, fd, &event);
  }

  void Command(std::function<void()> command) {
    absl::MutexLock lock(&mutex_);
    commands_.push_back(std::move(command));
    const uint64_t one = 1;
    // The counter is full, so the thread is awake anyhow.
    if (write(wakeup_, &one, sizeof(one)) < 0) return;
  }
  void CommandAndWait(const std::function<void()>& command) {
    absl::Notification done;
    Command([&] {
      command();
      done.Notify();
    });
    done.WaitForNotification();
  }

  void Run() {
    epoll_event events[128];
    while (!stopping_) {
      const int count = epoll_wait(epoll_, events, 128, WaitMillis());
      for (int i = 0; i < count; ++i) Serve(events[i].data.fd, events[i].events);
      std::vector<Pair*> late;
      for (auto& [fd, pair] : pairs_) {
        const bool holds = !pair->ends[0].out.empty() || !pair->ends[1].out.empty();
        if (fd == pair->ends[0].fd && holds) late.push_back(pair.get());
      }
      for (Pair* pair : late) Move(pair);
    }
  }

  // Time until the first delayed byte may be written.
  int WaitMillis() const {
    absl::Time first = absl::InfiniteFuture();
    for (const auto& [fd, pair] : pairs_) {
      for (const End& end : pair->ends) {
        if (!end.out.empty() && end.out.front().release > absl::UnixEpoch())
          first = std::min(first, end.out.front().release);
      }
    }
    if (first == absl::InfiniteFuture()) return -1;
    const absl::Duration wait = std::max(first - absl::Now(), absl::ZeroDuration());
    // Rounds up. Epoll wakes the loop for bytes that wait for room in a socket.
    return static_cast<int>(absl::ToInt64Milliseconds(wait)) + 1;
  }

  void Serve(int fd, uint32_t events) {
    if (fd == wakeup_) {
      uint64_t ignored = 0;
      if (read(wakeup_, &ignored, sizeof(ignored)) < 0) ignored = 0;
      std::vector<std::function<void()>> commands;
      {
        absl::MutexLock lock(&mutex_);
        commands.swap(commands_);
      }
      for (auto& command : commands) command();
      return;
    }
    if (const auto listener = listeners_.find(fd); listener != listeners_.end())
      return Accept(listener->second);
    const auto found = pairs_.find(fd);
    if (found == pairs_.end()) return;
    Pair* pair = found->second.get();
    End& end = fd == pair->ends[0].fd ? pair->ends[0] : pair->ends[1];
    if ((events & (EPOLLERR | EPOLLHUP)) != 0) return Drop(pair);
    if ((events & EPOLLOUT) != 0) end.connecting = false;
    if ((events & EPOLLIN) != 0 && !Read(pair, &end)) return Drop(pair);
    Move(pair);
  }

  void Accept(Link* link) {
    while (true) {
      const int client = accept4(link->listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (client < 0) return;
      ++link->accepted;
      if (link->cut == Cut::kReset) {
        CloseWithReset(client);
        continue;
      }
      const int upstream = link->upstream.Connect();
      if (upstream < 0) {
        CloseWithReset(client);
        continue;
      }
      auto pair = std::make_shared<Pair>();
      pair->link = link;
      pair->ends[0].fd = client;
      pair->ends[1].fd = upstream;
      pair->ends[1].connecting = true;
      Tear(pair.get());
      for (End& end : pair->ends) {
        const int on = 1;
        setsockopt(end.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        Watch(end.fd, 0, EPOLL_CTL_ADD);
        pairs_[end.fd] = pair;
      }
      Move(pair.get());
    }
  }

  // True if bytes that were read from this end are not written to the other one.
  static bool Held(const Pair& pair, int from) {
    const Cut cut = pair.link->cut;
    return cut == Cut::kBlackHole || (cut == Cut::kNoRequest && from == 0) ||
           (cut == Cut::kNoAnswer && from == 1);
  }
  // How many bytes may be read from this end now.
  static size_t Readable(const Pair& pair, int from) {
    if (Held(pair, from)) return 0;
    const bool torn = pair.link->cut == Cut::kTorn && from == 0;
    return torn ? std::min(pair.torn_left, kReadBytes) : kReadBytes;
  }

  // False if the connection has ended; then its other half must end, too.
  bool Read(Pair* pair, End* from) {
    const int side = from == &pair->ends[0] ? 0 : 1;
    const size_t bytes_max = Readable(*pair, side);
    if (bytes_max == 0) return true;
    End& to = pair->ends[1 - side];
    const ssize_t got = recv(from->fd, buffer_, bytes_max, 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) {
      // Bytes that came before the end are written first.
      if (!Held(*pair, side)) Write(&to, absl::InfiniteFuture());
      return false;
    }
    if (pair->link->cut == Cut::kTorn && side == 0) pair->torn_left -= static_cast<size_t>(got);
    const absl::Time release =
        pair->link->cut == Cut::kSlow ? absl::Now() + options_.slow : absl::UnixEpoch();
    to.out.push_back({release, std::string(buffer_, static_cast<size_t>(got))});
    to.out_bytes += static_cast<size_t>(got);
    return true;
  }

  // False if the end can no longer be written to.
  static bool Write(End* end, absl::Time now) {
    while (!end->out.empty() && !end->connecting) {
      Chunk& chunk = end->out.front();
      if (chunk.release > now) return true;
      const ssize_t sent = send(end->fd, chunk.bytes.data() + chunk.taken,
                                chunk.bytes.size() - chunk.taken, MSG_NOSIGNAL);
      if (sent < 0) return errno == EAGAIN || errno == EINTR;
      chunk.taken += static_cast<size_t>(sent);
      end->out_bytes -= static_cast<size_t>(sent);
      chunk.release = absl::UnixEpoch();
      if (chunk.taken == chunk.bytes.size()) end->out.pop_front();
    }
    return true;
  }

  // Writes the bytes that may go, and watches for the events that can happen next.
  void Move(Pair* pair) {
    const absl::Time now = absl::Now();
    for (int side : {0, 1}) {
      if (!Held(*pair, 1 - side) && !Write(&pair->ends[side], now)) return Drop(pair);
    }
    for (int side : {0, 1}) {
      End& end = pair->ends[side];
      const End& other = pair->ends[1 - side];
      const bool reads = Readable(*pair, side) > 0 && other.out_bytes < options_.held_bytes_max;
      const bool writes = end.connecting || (!Held(*pair, 1 - side) && !end.out.empty() &&
                                             end.out.front().release <= now);
      const uint32_t events = (reads ? EPOLLIN : 0u) | (writes ? EPOLLOUT : 0u);
      if (events != end.events) Watch(end.fd, events, EPOLL_CTL_MOD);
      end.events = events;
    }
  }

  void Drop(Pair* pair) {
    const std::shared_ptr<Pair> kept = pairs_.at(pair->ends[0].fd);
    for (End& end : pair->ends) {
      pairs_.erase(end.fd);
      CloseWithReset(end.fd);
    }
  }

  const Options options_;
  int epoll_ = -1;
  int wakeup_ = -1;
  std::thread thread_;
  absl::Mutex mutex_;
  std::vector<std::function<void()>> commands_ ABSL_GUARDED_BY(mutex_);

  // Used by the loop's thread only.
  bool stopping_ = false;
  std::map<std::string, std::unique_ptr<Link>> links_;
  std::map<int, Link*> listeners_;
  std::map<int, std::shared_ptr<Pair>> pairs_;  // by the fd of either end
  char buffer_[kReadBytes];
};

CuttingProxy::CuttingProxy(std::unique_ptr<Loop> loop) : loop_(std::move(loop)) {}
CuttingProxy::~CuttingProxy() = default;

absl::StatusOr<std::unique_ptr<CuttingProxy>> CuttingProxy::Start(const Options& options) {
  auto loop = std::make_unique<Loop>(options);
  RETURN_IF_ERROR(loop->Start());
  return std::unique_ptr<CuttingProxy>(new CuttingProxy(std::move(loop)));
}

absl::StatusOr<std::string> CuttingProxy::AddLink(const std::string& name,
                                                  const std::string& upstream) {
  return loop_->AddLink(name, upstream);
}
absl::Status CuttingProxy::Redirect(const std::string& name, const std::string& upstream) {
  return loop_->Redirect(name, upstream);
}
void CuttingProxy::Set(const std::string& name, Cut cut, bool reset) {
  loop_->Set(name, cut, reset);
}
uint64_t CuttingProxy::connections(const std::string& name) const {
  return loop_->connections(name);
}

}  // namespace escapement::chaos
