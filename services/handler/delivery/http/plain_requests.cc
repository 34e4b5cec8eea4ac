#include "services/handler/delivery/http/plain_requests.h"

#include <sys/epoll.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/printable_text.h"

namespace escapement::handler {
namespace {

// A connection that was idle for longer is not used again, as with libcurl: its peer may be gone.
constexpr MonotonicMicros kIdleMax = 118'000'000;

}  // namespace

PlainRequests::PlainRequests(const HttpTransport::Options& options, int epoll, CurlMulti& multi,
                             const HttpRequestMaker& maker,
                             std::function<void(const HttpAttempt& attempt, HttpEnd end)> ended)
    : options_(options), epoll_(epoll), multi_(multi), maker_(maker), on_ended_(std::move(ended)) {}

PlainRequests::~PlainRequests() {
  for (auto& [easy, connecting] : connecting_) {
    multi_.Remove(easy);
    curl_easy_cleanup(easy);
  }
  for (CURL* easy : free_) curl_easy_cleanup(easy);
}

void PlainRequests::Start(HttpAttempt attempt, const HttpPlace& place, const HttpRequest& request,
                          MonotonicMicros now) {
  auto outgoing = std::make_unique<Outgoing>();
  outgoing->head = RequestHead(request.method, place, request.lines, request.body.size());
  attempt.body = request.body;
  attempt.body_bytes = request.body_bytes;
  outgoing->attempt = std::move(attempt);
  Pool* const pool = PoolOf(place.connect);
  ++pool->links;
  Link* const link = TakeIdle(pool, now);
  if (link == nullptr) return Connect(pool, std::move(outgoing), now);
  TakeFrom<size_t>(pool->links, 1);
  Send(link, std::move(outgoing));
}

PlainRequests::Pool* PlainRequests::PoolOf(const std::string& url) {
  std::unique_ptr<Pool>& pool = pools_[url];
  if (pool == nullptr) {
    pool = std::make_unique<Pool>();
    pool->url = url;
  }
  return pool.get();
}

void PlainRequests::LeavePool(Pool* pool) {
  TakeFrom<size_t>(pool->links, 1);
  if (pool->links == 0) pools_.erase(std::string(pool->url));
}

PlainRequests::Link* PlainRequests::TakeIdle(Pool* pool, MonotonicMicros now) {
  while (!pool->idle.empty()) {
    Link* const link = pool->idle.back();
    if (now - link->idle_since > kIdleMax ||
        now - link->opened > absl::ToInt64Microseconds(options_.connection_age_max)) {
      Close(link);
      continue;
    }
    pool->idle.pop_back();
    idle_.erase(link->place);
    link->idle = false;
    link->reused = true;
    return link;
  }
  return nullptr;
}

void PlainRequests::Connect(Pool* pool, std::unique_ptr<Outgoing> outgoing, MonotonicMicros now) {
  CURL* easy = nullptr;
  if (free_.empty()) {
    easy = multi_.NewHandle(static_cast<long>(absl::ToInt64Milliseconds(options_.connect_timeout)));
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
  } else {
    easy = free_.back();
    free_.pop_back();
  }
  auto connecting = std::make_unique<Connecting>();
  connecting->pool = pool;
  curl_easy_setopt(easy, CURLOPT_URL, pool->url.c_str());
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, connecting->error);
  multi_.UseOwner(easy, connecting->sockets);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, outgoing->attempt.MillisLeft(now));
  connecting->outgoing = std::move(outgoing);
  connecting_.emplace(easy, std::move(connecting));
  multi_.Add(easy);
}

bool PlainRequests::OnConnected(CURL* easy, CURLcode code) {
  const auto found = connecting_.find(easy);
  if (found == connecting_.end()) return false;
  const std::unique_ptr<Connecting> connecting = std::move(found->second);
  connecting_.erase(found);
  int fd = -1;
  if (code == CURLE_OK) {
    fd = multi_.TakeSocket(easy);
  } else {
    multi_.Remove(easy);
  }
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, nullptr);
  free_.push_back(easy);
  if (fd < 0) {
    LeavePool(connecting->pool);
    if (connecting->sockets.checked.refused) {
      End(std::move(connecting->outgoing->attempt), AddressRefused(), HttpEnd::kOther);
      return true;
    }
    const char* why = connecting->error[0] != '\0' ? connecting->error : curl_easy_strerror(code);
    const bool first = connecting->outgoing->requests == 1;
    End(std::move(connecting->outgoing->attempt),
        {.status = first ? DeliveryStatus::kFailed : DeliveryStatus::kUnknown,
         .not_sent = first,
         .message = CleanText(why, kDeliveryMessageBytesMax)},
        code == CURLE_OPERATION_TIMEDOUT ? HttpEnd::kTimedOut : HttpEnd::kOther);
    return true;
  }
  if (static_cast<size_t>(fd) >= links_.size()) links_.resize(static_cast<size_t>(fd) + 64);
  auto& link = links_[static_cast<size_t>(fd)];
  CHECK(link == nullptr) << "descriptor " << fd << " has a connection already";
  link = std::make_unique<Link>(fd, options_.response_bytes_max);
  link->pool = connecting->pool;
  epoll_event event = {};
  event.events = EPOLLIN;
  event.data.fd = fd;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  Send(link.get(), std::move(connecting->outgoing));
  return true;
}

void PlainRequests::Send(Link* link, std::unique_ptr<Outgoing> outgoing) {
  expire_at_ = std::min(expire_at_, outgoing->attempt.deadline);
  link->outgoing = std::move(outgoing);
  OnProgress(link, link->connection.Begin(link->outgoing->head, link->outgoing->attempt.body));
}

bool PlainRequests::Has(int fd) const {
  return static_cast<size_t>(fd) < links_.size() && links_[static_cast<size_t>(fd)] != nullptr;
}

void PlainRequests::OnEvent(int fd, uint32_t events) {
  CHECK(Has(fd));
  Link* const link = links_[static_cast<size_t>(fd)].get();
  // No request is under way: the consumer has closed the connection, or is about to.
  if (link->idle) return Close(link);
  auto progress = HttpConnection::Progress::kGoesOn;
  if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) progress = link->connection.Read();
  if (progress == HttpConnection::Progress::kGoesOn && (events & EPOLLOUT))
    progress = link->connection.Write();
  OnProgress(link, progress);
}

void PlainRequests::OnProgress(Link* link, HttpConnection::Progress progress) {
  if (progress == HttpConnection::Progress::kAnswered) return OnAnswered(link);
  if (progress == HttpConnection::Progress::kBroken) return OnBroken(link);
  if (link->watches_room == link->connection.writing()) return;
  link->watches_room = link->connection.writing();
  epoll_event event = {};
  event.events = EPOLLIN | (link->watches_room ? uint32_t{EPOLLOUT} : 0);
  event.data.fd = link->connection.fd();
  epoll_ctl(epoll_, EPOLL_CTL_MOD, event.data.fd, &event);
}

void PlainRequests::OnAnswered(Link* link) {
  HttpAttempt attempt = std::move(link->outgoing->attempt);
  const bool has_token = !attempt.attempt.token.empty();
  const HttpAnswer answer = link->connection.TakeAnswer(has_token);
  link->connection.reusable() ? KeepIdle(link) : Close(link);
  End(std::move(attempt), maker_.ResultOf(answer, has_token), HttpEnd::kAnswered);
}

void PlainRequests::OnBroken(Link* link) {
  std::unique_ptr<Outgoing> outgoing = std::move(link->outgoing);
  const bool again =
      link->reused && !link->connection.heard() && outgoing->requests < kHttpRequestsMax;
  const std::string why = link->connection.why();
  Pool* const pool = link->pool;
  if (again) {
    ++outgoing->requests;
    ++pool->links;
    Connect(pool, std::move(outgoing), MonotonicNow());
    return Close(link);
  }
  Close(link);
  End(std::move(outgoing->attempt),
      {.status = DeliveryStatus::kUnknown,
       .message =
           outgoing->requests == 1 ? CleanText(why, kDeliveryMessageBytesMax) : kBrokenTwice},
      HttpEnd::kOther);
}

void PlainRequests::KeepIdle(Link* link) {
  link->outgoing = nullptr;
  link->idle = true;
  link->idle_since = MonotonicNow();
  link->pool->idle.push_back(link);
  link->place = idle_.insert(idle_.end(), link);
  if (idle_.size() > static_cast<size_t>(options_.connections_max)) Close(idle_.front());
}

void PlainRequests::Close(Link* link) {
  Pool* const pool = link->pool;
  if (link->idle) {
    pool->idle.erase(std::find(pool->idle.begin(), pool->idle.end(), link));
    idle_.erase(link->place);
  }
  links_[static_cast<size_t>(link->connection.fd())] = nullptr;
  LeavePool(pool);
}

void PlainRequests::Expire(MonotonicMicros now) {
  expire_at_ = kNeverMicros;
  for (const std::unique_ptr<Link>& link : links_) {
    if (link == nullptr || link->idle) continue;
    if (link->outgoing->attempt.deadline > now) {
      expire_at_ = std::min(expire_at_, link->outgoing->attempt.deadline);
      continue;
    }
    HttpAttempt attempt = std::move(link->outgoing->attempt);
    Close(link.get());
    End(std::move(attempt),
        {.status = DeliveryStatus::kUnknown, .message = "timed out without an answer"},
        HttpEnd::kTimedOut);
  }
}

void PlainRequests::AnswerAll(const DeliveryResult& result) {
  for (auto& [easy, connecting] : connecting_) connecting->outgoing->attempt.Answer(result);
  for (const std::unique_ptr<Link>& link : links_) {
    if (link != nullptr && !link->idle) link->outgoing->attempt.Answer(result);
  }
}

void PlainRequests::End(HttpAttempt attempt, DeliveryResult result, HttpEnd end) {
  on_ended_(attempt, end);
  attempt.Answer(std::move(result));
}

}  // namespace escapement::handler
