#include "services/handler/delivery/http/http_transport.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/flags/flag.h"
#include "absl/hash/hash.h"
#include "absl/synchronization/mutex.h"
#include "common/base/check.h"
#include "services/handler/delivery/http/curl_multi.h"
#include "services/handler/delivery/http/exchange.h"
#include "services/handler/delivery/http/plain_requests.h"
#include "services/handler/delivery/http/request_maker.h"
#include "services/handler/target_health/hanging_attempts.h"

ABSL_FLAG(int, http_connections_per_target, 64,
          "concurrent HTTP requests to one origin (scheme://host:port)");
ABSL_FLAG(int, http_threads, 1,
          "threads that drive the HTTP connections; use more for many https targets; 0: one for "
          "each core, at most 4");

namespace escapement::handler {

namespace {

constexpr int kEventsMax = 256;
// How often a full origin is asked for room again: more of its attempts may hang by then.
constexpr MonotonicMicros kFullCheckEvery = 100'000;

// Closes its descriptor at the end.
struct Descriptor {
  explicit Descriptor(int opened) : fd(opened) {}
  ~Descriptor() { close(fd); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  const int fd;
};

struct Queued {
  HttpAttempt attempt;
  MonotonicMicros start_by = 0;  // later, too little of the timeout would be left
};

// The attempts to one origin. It exists while it has any.
struct Origin {
  std::string key;
  std::deque<Queued> waiting;
  MonotonicMicros earliest_deadline = kNeverMicros;  // a lower bound for `waiting`
  int in_flight = 0;
  int in_flight_max = 0;  // for those that do not hang
  HangingAttempts attempts;
  bool ready = false;  // is in Loop::ready_
};

}  // namespace

// One thread with its multi handle and its queues.
class HttpTransport::Loop {
 public:
  // `name`: the thread's.
  Loop(const Options& options, TroubledOrigins& troubled, const char* name)
      : options_(options),
        troubled_(troubled),
        epoll_(epoll_create1(EPOLL_CLOEXEC)),
        wakeup_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
        maker_(options.new_maker()),
        multi_(epoll_.fd, options.connections_max, options.addresses),
        plain_(options, epoll_.fd, multi_, *maker_,
               [this](const HttpAttempt& attempt, HttpEnd end) { OnEnded(attempt, end); }) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.fd = wakeup_.fd;
    epoll_ctl(epoll_.fd, EPOLL_CTL_ADD, wakeup_.fd, &event);
    thread_ = std::thread([this, name] {
      pthread_setname_np(pthread_self(), name);
      Run();
    });
  }

  ~Loop() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    Wake();
    thread_.join();
    AnswerAll();
  }

  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) {
    const MonotonicMicros now = MonotonicNow();
    outstanding_.fetch_add(attempts.size(), std::memory_order_relaxed);
    bool wake = false;
    {
      absl::MutexLock lock(&mutex_);
      for (DeliveryAttempt& attempt : attempts) {
        const MonotonicMicros timeout =
            std::max<int64_t>(0, absl::ToInt64Microseconds(attempt.context->timeout));
        inbox_.push_back(
            {.attempt = {.attempt = std::move(attempt), .sink = sink, .deadline = now + timeout},
             .start_by = now + timeout / 2});
      }
      wake = !std::exchange(woken_, true);
    }
    if (wake) Wake();
  }

  // True if this many more attempts of one origin fit.
  bool HasRoom(size_t attempts) const {
    return outstanding_.load(std::memory_order_relaxed) + attempts <=
           static_cast<size_t>(options_.in_flight_per_origin_max);
  }

 private:
  void Wake() {
    const uint64_t one = 1;
    if (write(wakeup_.fd, &one, sizeof(one)) < 0)
      return;  // the counter is full, so the thread is awake
  }

  void Run() {
    epoll_event events[kEventsMax];
    while (true) {
      const int count = epoll_wait(epoll_.fd, events, kEventsMax, WaitMillis());
      for (int i = 0; i < count; ++i) OnEvent(events[i]);
      if (!TakeInbox()) return;
      Reap();
      const MonotonicMicros now = MonotonicNow();
      if (now >= earliest_deadline_) ExpireWaiting(now);
      if (now >= full_until_) CheckFull();
      StartReady(now);
      if (now >= plain_.expire_at()) plain_.Expire(now);
      if (now >= multi_.timer_at()) {
        multi_.OnTimer();
        Reap();
      }
    }
  }

  int WaitMillis() const {
    if (!ready_.empty() && in_flight_count_ < options_.in_flight_max) return 0;
    return PollMillis(
        std::min({multi_.timer_at(), plain_.expire_at(), earliest_deadline_, full_until_}));
  }

  void OnEvent(const epoll_event& event) {
    const int fd = event.data.fd;
    if (fd == wakeup_.fd) {
      uint64_t ignored = 0;
      if (read(wakeup_.fd, &ignored, sizeof(ignored)) < 0) return;
      return;
    }
    plain_.Has(fd) ? plain_.OnEvent(fd, event.events) : multi_.OnEvent(fd, event.events);
  }

  // Returns false if the loop must stop.
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
      const std::string& key = queued.attempt.attempt.context->target_key;
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

  static absl::Duration Elapsed(MonotonicMicros time) { return absl::Microseconds(time); }

  // Called before the attempt gets its result.
  void OnEnded(const HttpAttempt& attempt, HttpEnd end) {
    Origin* const origin = static_cast<Origin*>(attempt.owner);
    const bool answered = end == HttpEnd::kAnswered;
    const MonotonicMicros now = MonotonicNow();
    CountAnswer();
    troubled_.OnEnd(origin->key, answered);
    TakeFrom(in_flight_count_, 1);
    TakeFrom(origin->in_flight, 1);
    origin->attempts.OnEnded(Elapsed(attempt.started), answered, Elapsed(now));
    if (answered)
      origin->in_flight_max =
          std::min(2 * origin->in_flight_max, options_.in_flight_per_origin_max);
    // An origin that answers others while this one hangs keeps its connections.
    if (end == HttpEnd::kTimedOut &&
        origin->attempts.last_good().value_or(absl::ZeroDuration()) < Elapsed(attempt.started))
      origin->in_flight_max = std::min(origin->in_flight_max, UnansweredMax());
    MarkReady(origin);
    ForgetIfUnused(origin);
  }

  void MarkReady(Origin* origin) {
    if (origin->ready || origin->waiting.empty()) return;
    if (origin->in_flight >= origin->in_flight_max && !HasRoomBesideHanging(origin)) return;
    origin->ready = true;
    ready_.push_back(origin);
  }

  bool HasRoomBesideHanging(Origin* origin) {
    const MonotonicMicros now = MonotonicNow();
    full_until_ = std::min(full_until_, now + kFullCheckEvery);
    const absl::Duration timeout = origin->waiting.front().attempt.attempt.context->timeout;
    const uint64_t free = std::min(origin->attempts.Free(timeout, Elapsed(now)),
                                   static_cast<uint64_t>(options_.in_flight_max / 2));
    return origin->in_flight < origin->in_flight_max + static_cast<int>(free);
  }

  // Attempts of full origins may hang by now.
  void CheckFull() {
    full_until_ = kNeverMicros;
    for (auto& [key, origin] : origins_) MarkReady(origin.get());
  }

  void ForgetIfUnused(Origin* origin) {
    if (origin->ready || !origin->waiting.empty() || origin->in_flight > 0) return;
    origins_.erase(std::string(origin->key));
  }

  // Starts one attempt of each ready origin in turn, while there is room.
  void StartReady(MonotonicMicros now) {
    while (!ready_.empty() && in_flight_count_ < options_.in_flight_max) {
      Origin* origin = ready_.front();
      ready_.pop_front();
      origin->ready = false;
      if (!origin->waiting.empty()) {
        Queued next = std::move(origin->waiting.front());
        origin->waiting.pop_front();
        if (origin->waiting.empty()) origin->earliest_deadline = kNeverMicros;
        Start(origin, std::move(next), now);
      }
      MarkReady(origin);
      ForgetIfUnused(origin);
    }
  }

  void Start(Origin* origin, Queued queued, MonotonicMicros now) {
    if (queued.start_by <= now) return Expire(std::move(queued));
    HttpAttempt& attempt = queued.attempt;
    HttpRequest request;
    if (const absl::Status status = maker_->Make(attempt.attempt, &request); !status.ok())
      return Reject(std::move(attempt), status);
    attempt.owner = origin;
    attempt.started = MonotonicNow();
    origin->attempts.OnSent(1, Elapsed(attempt.started));
    ++origin->in_flight;
    ++in_flight_count_;
    const HttpPlace& place = places_.Of(request.uri);
    if (place.plain) return plain_.Start(std::move(attempt), place, request, now);
    StartExchange(std::move(attempt), std::move(request), now);
  }

  void StartExchange(HttpAttempt attempt, HttpRequest request, MonotonicMicros now) {
    if (free_.empty()) free_.push_back(std::make_unique<HttpExchange>(options_, multi_, *maker_));
    std::unique_ptr<HttpExchange> exchange = std::move(free_.back());
    free_.pop_back();
    const absl::Status status = exchange->Prepare(std::move(attempt), std::move(request), now);
    if (!status.ok()) {
      Finish(*exchange,
             {.status = DeliveryStatus::kRejected,
              .not_sent = true,
              .message = std::string(status.message())},
             HttpEnd::kOther);
      free_.push_back(std::move(exchange));
      return;
    }
    multi_.Add(exchange->easy());
    exchanges_.emplace(exchange.get(), std::move(exchange));
  }

  void Finish(HttpExchange& exchange, DeliveryResult result, HttpEnd end) {
    OnEnded(exchange.attempt(), end);
    exchange.Answer(std::move(result));
  }

  void CountAnswer() { CHECK_GT(outstanding_.fetch_sub(1, std::memory_order_relaxed), 0u); }

  void Reject(HttpAttempt attempt, const absl::Status& why) {
    CountAnswer();
    attempt.Answer({.status = DeliveryStatus::kRejected,
                    .not_sent = true,
                    .message = std::string(why.message())});
  }

  void Expire(Queued queued) {
    CountAnswer();
    queued.attempt.Answer(
        {.status = DeliveryStatus::kUnsent, .message = "timed out before it could be sent"});
  }

  // Answers the attempts that have waited for too long, and computes earliest_deadline_.
  void ExpireWaiting(MonotonicMicros now) {
    earliest_deadline_ = kNeverMicros;
    for (auto& [key, origin] : origins_) {
      if (origin->earliest_deadline <= now) {
        std::deque<Queued> kept;
        origin->earliest_deadline = kNeverMicros;
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

  // Answers the attempts that have ended.
  void Reap() {
    multi_.Reap([this](CURL* easy, CURLcode code) {
      if (plain_.OnConnected(easy, code)) return;
      const auto found = exchanges_.find(HttpExchange::Of(easy));
      CHECK(found != exchanges_.end()) << "libcurl ended a request that is not under way";
      if (found->second->PrepareAgain(code, MonotonicNow())) {
        multi_.Remove(easy);
        return multi_.Add(easy);
      }
      std::unique_ptr<HttpExchange> exchange = std::move(found->second);
      exchanges_.erase(found);
      const bool answered = exchange->Answered(code);
      DeliveryResult result = exchange->ResultOf(code);
      multi_.Remove(easy);
      Finish(*exchange, std::move(result),
             answered                           ? HttpEnd::kAnswered
             : code == CURLE_OPERATION_TIMEDOUT ? HttpEnd::kTimedOut
                                                : HttpEnd::kOther);
      free_.push_back(std::move(exchange));
    });
  }

  // Answers all attempts. Called after the thread has ended.
  void AnswerAll() {
    const DeliveryResult stopped = {.status = DeliveryStatus::kUnknown,
                                    .message = "the platform is stopping"};
    for (auto& [key, exchange] : exchanges_) {
      multi_.Remove(exchange->easy());
      exchange->Answer(stopped);
    }
    plain_.AnswerAll(stopped);
    for (auto& [key, origin] : origins_) {
      for (Queued& queued : origin->waiting) queued.attempt.Answer(stopped);
    }
    absl::MutexLock lock(&mutex_);
    for (Queued& queued : inbox_) queued.attempt.Answer(stopped);
  }

  const Options options_;
  TroubledOrigins& troubled_;
  const Descriptor epoll_;  // closed last
  const Descriptor wakeup_;
  std::thread thread_;
  std::atomic<size_t> outstanding_{0};  // attempts without an answer

  absl::Mutex mutex_;
  std::vector<Queued> inbox_ ABSL_GUARDED_BY(mutex_);
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;  // the loop will read the inbox
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;

  // Used only by the loop's thread.
  const std::unique_ptr<HttpRequestMaker> maker_;
  CurlMulti multi_;
  PlainRequests plain_;
  PlaceCache places_;
  absl::flat_hash_map<std::string, std::unique_ptr<Origin>> origins_;
  std::deque<Origin*> ready_;  // have waiting attempts and room for one
  absl::flat_hash_map<HttpExchange*, std::unique_ptr<HttpExchange>> exchanges_;  // in flight
  std::vector<std::unique_ptr<HttpExchange>> free_;
  int in_flight_count_ = 0;
  MonotonicMicros earliest_deadline_ = kNeverMicros;  // a lower bound for all waiting attempts
  MonotonicMicros full_until_ = kNeverMicros;         // when full origins are asked again
};

HttpTransport::HttpTransport(const Options& options)
    : troubled_(std::make_unique<TroubledOrigins>()) {
  const int threads =
      std::min({std::max(options.threads, 1), options.in_flight_per_origin_max,
                options.in_flight_unanswered_max, options.in_flight_max, options.connections_max});
  Options share = options;
  if (share.addresses == nullptr) share.addresses = std::make_shared<const AddressRule>();
  if (share.new_maker == nullptr)
    share.new_maker = [] { return std::make_unique<CloudEventRequests>(); };
  share.in_flight_per_origin_max /= threads;
  share.in_flight_unanswered_max /= threads;
  share.in_flight_max /= threads;
  share.connections_max /= threads;
  for (int i = 0; i < threads; ++i)
    loops_.push_back(std::make_unique<Loop>(share, *troubled_, "http-transport"));
  share.in_flight_max = std::max(options.in_flight_max / 2, 1);
  troubled_loop_ = std::make_unique<Loop>(share, *troubled_, "http-troubled");
}

HttpTransport::~HttpTransport() = default;

void HttpTransport::Send(std::vector<DeliveryAttempt> attempts,
                         std::shared_ptr<DeliverySink> sink) {
  if (attempts.empty()) return;
  const std::string& key = attempts.front().context->target_key;
  if (troubled_->Has(key)) return troubled_loop_->Send(std::move(attempts), std::move(sink));
  const size_t home = absl::Hash<std::string>()(key) % loops_.size();
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

void ValidateHttpFlags(std::vector<std::string>& errors) {
  if (absl::GetFlag(FLAGS_http_connections_per_target) < 1 ||
      absl::GetFlag(FLAGS_http_connections_per_target) > 1024) {
    errors.push_back("--http_connections_per_target: must be from 1 to 1024");
  }
  if (absl::GetFlag(FLAGS_http_threads) < 0 || absl::GetFlag(FLAGS_http_threads) > 64)
    errors.push_back("--http_threads: must be from 0 to 64");
}

HttpTransport::Options HttpOptionsFromFlags(std::shared_ptr<const AddressRule> addresses) {
  HttpTransport::Options options;
  options.threads = absl::GetFlag(FLAGS_http_threads);
  if (options.threads == 0)
    options.threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 4u));
  options.in_flight_per_origin_max = absl::GetFlag(FLAGS_http_connections_per_target);
  options.addresses = std::move(addresses);
  return options;
}

bool TroubledOrigins::Has(const std::string& key) const {
  if (!any_.load(std::memory_order_relaxed)) return false;
  absl::MutexLock lock(&mutex_);
  return origins_.contains(key);
}

void TroubledOrigins::OnEnd(const std::string& key, bool answered) {
  if (answered && !any_.load(std::memory_order_relaxed)) return;
  absl::MutexLock lock(&mutex_);
  if (answered) {
    const auto found = origins_.find(key);
    if (found != origins_.end() && ++found->second >= kAnswersInSuccession) origins_.erase(found);
  } else {
    if (origins_.size() >= kOriginsMax) origins_.clear();
    origins_[key] = 0;
  }
  any_.store(!origins_.empty(), std::memory_order_relaxed);
}

}  // namespace escapement::handler
