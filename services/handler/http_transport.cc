#include "services/handler/http_transport.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/synchronization/mutex.h"
#include "services/handler/http_transport_exchange.h"

namespace escapement::handler {
namespace {

using Micros = int64_t;  // of the monotonic clock
constexpr Micros kNever = std::numeric_limits<Micros>::max();
constexpr int kEventsMax = 256;

Micros Now() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

struct Queued {
  DeliveryAttempt attempt;
  std::shared_ptr<DeliverySink> sink;
  Micros deadline = 0;
  Micros start_by = 0;  // so that what is left of the timeout is enough for an answer
};

// Attempts to one origin. Kept while it has any.
struct Origin {
  std::string key;
  std::deque<Queued> waiting;
  Micros earliest_deadline = kNever;  // a lower bound over `waiting`
  int in_flight = 0;
  int in_flight_max = 0;
  bool ready = false;  // is in Loop::ready_
};

struct InFlight {
  std::unique_ptr<HttpExchange> exchange;
  Origin* origin = nullptr;
};

// What epoll and libcurl know of a socket, by its number.
struct Socket {
  bool ours = false;  // opened by OnOpen, closed by OnClose
  uint32_t registered = 0;
  uint32_t wanted = 0;
};

}  // namespace

// A thread, its multi handle and its queues.
class HttpTransport::Loop {
 public:
  explicit Loop(const Options& options) : options_(options) {
    static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
    (void)global;
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    wakeup_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = wakeup_;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, wakeup_, &event);
    multi_ = curl_multi_init();
    curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &Loop::OnSocket);
    curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &Loop::OnTimer);
    curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
    curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options.connections_max));
    thread_ = std::thread([this] { Run(); });
  }

  ~Loop() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    Wake();
    thread_.join();
    AnswerAll();
    free_.clear();
    curl_multi_cleanup(multi_);
    close(wakeup_);
    close(epoll_);
  }

  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) {
    const Micros now = Now();
    outstanding_.fetch_add(attempts.size(), std::memory_order_relaxed);
    bool wake = false;
    {
      absl::MutexLock lock(&mutex_);
      for (DeliveryAttempt& attempt : attempts) {
        const Micros timeout =
            std::max<int64_t>(0, absl::ToInt64Microseconds(attempt.context->timeout));
        inbox_.push_back({std::move(attempt), sink, now + timeout, now + timeout / 2});
      }
      wake = !std::exchange(woken_, true);
    }
    if (wake) Wake();
  }

  // Whether it can have so many more of one origin in flight at once.
  bool HasRoom(size_t attempts) const {
    return outstanding_.load(std::memory_order_relaxed) + attempts <=
           static_cast<size_t>(options_.in_flight_per_origin_max);
  }

 private:
  void Wake() {
    const uint64_t one = 1;
    if (write(wakeup_, &one, sizeof(one)) < 0) return;  // its counter is full: awake anyhow
  }

  void Run() {
    pthread_setname_np(pthread_self(), "http-transport");
    epoll_event events[kEventsMax];
    while (true) {
      const int count = epoll_wait(epoll_, events, kEventsMax, WaitMillis());
      for (int i = 0; i < count; ++i) OnEvent(events[i]);
      if (!TakeInbox()) return;
      Reap();
      const Micros now = Now();
      if (now >= earliest_deadline_) ExpireWaiting(now);
      StartReady(now);
      if (now >= timer_at_) {
        timer_at_ = kNever;
        int running = 0;
        curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
        Reap();
      }
    }
  }

  int WaitMillis() const {
    if (!ready_.empty() && in_flight_count_ < options_.in_flight_max) return 0;
    const Micros at = std::min(timer_at_, earliest_deadline_);
    if (at == kNever) return -1;
    return static_cast<int>(std::clamp<Micros>((at - Now() + 999) / 1000, 0, 60'000));
  }

  void OnEvent(const epoll_event& event) {
    const int fd = event.data.fd;
    if (fd == wakeup_) {
      uint64_t ignored = 0;
      if (read(wakeup_, &ignored, sizeof(ignored)) < 0) return;
      return;
    }
    Socket& socket = sockets_[static_cast<size_t>(fd)];
    if (socket.wanted == 0) {
      // An idle connection was closed by its peer; libcurl finds that out before it uses it again.
      if (socket.registered != 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
      socket.registered = 0;
      return;
    }
    int bits = 0;
    if (event.events & EPOLLIN) bits |= CURL_CSELECT_IN;
    if (event.events & EPOLLOUT) bits |= CURL_CSELECT_OUT;
    if (event.events & (EPOLLERR | EPOLLHUP)) bits |= CURL_CSELECT_ERR;
    int running = 0;
    curl_multi_socket_action(multi_, fd, bits, &running);
  }

  // False = stop.
  bool TakeInbox() {
    std::vector<Queued> arrived;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return false;
      arrived.swap(inbox_);
      woken_ = false;
    }
    Origin* origin = nullptr;
    for (Queued& queued : arrived) {
      const std::string& key = queued.attempt.context->target_key;
      if (origin == nullptr || origin->key != key) origin = OriginOf(key);
      origin->earliest_deadline = std::min(origin->earliest_deadline, queued.start_by);
      earliest_deadline_ = std::min(earliest_deadline_, queued.start_by);
      origin->waiting.push_back(std::move(queued));
      MarkReady(origin);
    }
    return true;
  }

  Origin* OriginOf(const std::string& key) {
    std::unique_ptr<Origin>& origin = origins_[key];
    if (origin == nullptr) {
      origin = std::make_unique<Origin>();
      origin->key = key;
      origin->in_flight_max = UnansweredMax();
    }
    return origin.get();
  }

  int UnansweredMax() const {
    return std::min(options_.in_flight_unanswered_max, options_.in_flight_per_origin_max);
  }

  void OnEnded(Origin& origin, CURLcode code) const {
    if (code == CURLE_OK)
      origin.in_flight_max = std::min(2 * origin.in_flight_max, options_.in_flight_per_origin_max);
    if (code == CURLE_OPERATION_TIMEDOUT)
      origin.in_flight_max = std::min(origin.in_flight_max, UnansweredMax());
  }

  void MarkReady(Origin* origin) {
    if (origin->ready || origin->waiting.empty() || origin->in_flight >= origin->in_flight_max)
      return;
    origin->ready = true;
    ready_.push_back(origin);
  }

  void ForgetIfUnused(Origin* origin) {
    if (origin->ready || !origin->waiting.empty() || origin->in_flight > 0) return;
    origins_.erase(std::string(origin->key));
  }

  // One of each ready origin in turn, while there is room.
  void StartReady(Micros now) {
    while (!ready_.empty() && in_flight_count_ < options_.in_flight_max) {
      Origin* origin = ready_.front();
      ready_.pop_front();
      origin->ready = false;
      if (!origin->waiting.empty()) {
        Queued next = std::move(origin->waiting.front());
        origin->waiting.pop_front();
        if (origin->waiting.empty()) origin->earliest_deadline = kNever;
        Start(origin, std::move(next), now);
      }
      MarkReady(origin);
      ForgetIfUnused(origin);
    }
  }

  void Start(Origin* origin, Queued queued, Micros now) {
    if (queued.start_by <= now) return Expire(std::move(queued));
    if (free_.empty()) {
      free_.push_back(
          std::make_unique<HttpExchange>(options_, &Loop::OnOpen, &Loop::OnClose, this));
    }
    std::unique_ptr<HttpExchange> exchange = std::move(free_.back());
    free_.pop_back();
    const auto timeout_millis = static_cast<long>((queued.deadline - now + 999) / 1000);
    const absl::Status status = exchange->Prepare(std::move(queued.attempt), std::move(queued.sink),
                                                  &headers_, timeout_millis);
    if (!status.ok()) {
      outstanding_.fetch_sub(1, std::memory_order_relaxed);
      exchange->Answer(
          {.status = DeliveryStatus::kRejected, .message = std::string(status.message())});
      free_.push_back(std::move(exchange));
      return;
    }
    curl_multi_add_handle(multi_, exchange->easy());
    ++origin->in_flight;
    ++in_flight_count_;
    HttpExchange* key = exchange.get();
    in_flight_.emplace(key, InFlight{std::move(exchange), origin});
  }

  void Expire(Queued queued) {
    outstanding_.fetch_sub(1, std::memory_order_relaxed);
    queued.sink->OnResult(queued.attempt.tag, {.status = DeliveryStatus::kUnsent,
                                               .message = "timed out before it could be sent"});
  }

  // Answers what has waited for too long, and finds when the next one will have.
  void ExpireWaiting(Micros now) {
    earliest_deadline_ = kNever;
    for (auto& [key, origin] : origins_) {
      if (origin->earliest_deadline <= now) {
        std::deque<Queued> kept;
        origin->earliest_deadline = kNever;
        for (Queued& queued : origin->waiting) {
          if (queued.start_by <= now) {
            Expire(std::move(queued));
            continue;
          }
          origin->earliest_deadline = std::min(origin->earliest_deadline, queued.start_by);
          kept.push_back(std::move(queued));
        }
        origin->waiting = std::move(kept);
      }
      earliest_deadline_ = std::min(earliest_deadline_, origin->earliest_deadline);
    }
  }

  // Answers what has ended.
  void Reap() {
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      CURL* easy = message->easy_handle;
      HttpExchange* done = HttpExchange::Of(easy);
      DeliveryResult result = done->ResultOf(code);
      curl_multi_remove_handle(multi_, easy);
      const auto found = in_flight_.find(done);
      InFlight ended = std::move(found->second);
      in_flight_.erase(found);
      --in_flight_count_;
      --ended.origin->in_flight;
      OnEnded(*ended.origin, code);
      outstanding_.fetch_sub(1, std::memory_order_relaxed);
      ended.exchange->Answer(std::move(result));
      free_.push_back(std::move(ended.exchange));
      MarkReady(ended.origin);
      ForgetIfUnused(ended.origin);
    }
  }

  // After the thread has ended: nothing stays without an answer.
  void AnswerAll() {
    const DeliveryResult stopped = {.status = DeliveryStatus::kUnknown,
                                    .message = "the platform is stopping"};
    for (auto& [key, entry] : in_flight_) {
      curl_multi_remove_handle(multi_, entry.exchange->easy());
      entry.exchange->Answer(stopped);
    }
    in_flight_.clear();
    for (auto& [key, origin] : origins_) {
      for (Queued& queued : origin->waiting) queued.sink->OnResult(queued.attempt.tag, stopped);
    }
    absl::MutexLock lock(&mutex_);
    for (Queued& queued : inbox_) queued.sink->OnResult(queued.attempt.tag, stopped);
  }

  // libcurl's callbacks.

  static curl_socket_t OnOpen(void* self, curlsocktype, curl_sockaddr* address) {
    const int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    if (fd >= 0) static_cast<Loop*>(self)->SocketOf(fd) = Socket{.ours = true};
    return fd;
  }

  static int OnClose(void* self, curl_socket_t fd) {
    static_cast<Loop*>(self)->SocketOf(fd) = Socket{};
    return close(fd);
  }

  static int OnTimer(CURLM*, long millis, void* self) {
    static_cast<Loop*>(self)->timer_at_ = millis < 0 ? kNever : Now() + millis * 1000;
    return 0;
  }

  static int OnSocket(CURL*, curl_socket_t fd, int what, void* self, void*) {
    auto* loop = static_cast<Loop*>(self);
    Socket& socket = loop->SocketOf(fd);
    socket.wanted = 0;
    if (what == CURL_POLL_REMOVE) {
      // libcurl forgets a connection's socket after every request. One that we close ourselves
      // stays registered until then, which saves two system calls a request.
      if (!socket.ours && socket.registered != 0) {
        epoll_ctl(loop->epoll_, EPOLL_CTL_DEL, fd, nullptr);
        socket.registered = 0;
      }
      return 0;
    }
    if (what & CURL_POLL_IN) socket.wanted |= EPOLLIN;
    if (what & CURL_POLL_OUT) socket.wanted |= EPOLLOUT;
    if (socket.wanted == socket.registered) return 0;
    epoll_event event = {};
    event.events = socket.wanted;
    event.data.fd = fd;
    epoll_ctl(loop->epoll_, socket.registered == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
    socket.registered = socket.wanted;
    return 0;
  }

  Socket& SocketOf(int fd) {
    if (static_cast<size_t>(fd) >= sockets_.size()) sockets_.resize(static_cast<size_t>(fd) + 64);
    return sockets_[static_cast<size_t>(fd)];
  }

  const Options options_;
  int epoll_ = -1;
  int wakeup_ = -1;
  std::thread thread_;
  std::atomic<size_t> outstanding_{0};  // attempts without an answer

  absl::Mutex mutex_;
  std::vector<Queued> inbox_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // the loop will look at the inbox
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Of the loop's thread only.
  CURLM* multi_ = nullptr;
  HeaderCache headers_;
  absl::flat_hash_map<std::string, std::unique_ptr<Origin>> origins_;
  std::deque<Origin*> ready_;  // have waiting attempts and room for one
  absl::flat_hash_map<HttpExchange*, InFlight> in_flight_;
  std::vector<std::unique_ptr<HttpExchange>> free_;
  std::vector<Socket> sockets_;
  int in_flight_count_ = 0;
  Micros timer_at_ = kNever;           // libcurl's
  Micros earliest_deadline_ = kNever;  // a lower bound over all that wait
};

HttpTransport::HttpTransport(const Options& options) {
  const int threads =
      std::min({std::max(options.threads, 1), options.in_flight_per_origin_max,
                options.in_flight_unanswered_max, options.in_flight_max, options.connections_max});
  Options share = options;
  share.in_flight_per_origin_max /= threads;
  share.in_flight_unanswered_max /= threads;
  share.in_flight_max /= threads;
  share.connections_max /= threads;
  for (int i = 0; i < threads; ++i) loops_.push_back(std::make_unique<Loop>(share));
}

HttpTransport::~HttpTransport() = default;

void HttpTransport::Send(std::vector<DeliveryAttempt> attempts,
                         std::shared_ptr<DeliverySink> sink) {
  if (attempts.empty()) return;
  const size_t home =
      absl::Hash<std::string>()(attempts.front().context->target_key) % loops_.size();
  if (loops_.size() == 1 || loops_[home]->HasRoom(attempts.size()))
    return loops_[home]->Send(std::move(attempts), std::move(sink));
  auto begin = std::make_move_iterator(attempts.begin());
  for (size_t i = 0; i < loops_.size(); ++i) {
    const auto end =
        std::make_move_iterator(attempts.begin() + attempts.size() * (i + 1) / loops_.size());
    if (begin != end) loops_[(home + i) % loops_.size()]->Send({begin, end}, sink);
    begin = end;
  }
}

}  // namespace escapement::handler
