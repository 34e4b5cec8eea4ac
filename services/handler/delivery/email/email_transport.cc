#include "services/handler/delivery/email/email_transport.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <iterator>
#include <list>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/flags/flag.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/email/mail_message.h"
#include "services/handler/delivery/email/mail_queue.h"
#include "services/handler/delivery/email/smtp_exchange.h"
#include "services/handler/delivery/email/smtp_session.h"
#include "services/handler/delivery/http/curl_multi.h"

ABSL_FLAG(int, email_connections_per_server, 4, "concurrent SMTP connections to one server");
ABSL_FLAG(std::string, email_ehlo_name, "",
          "the host name by which the platform presents itself to SMTP servers (EHLO); empty: the "
          "machine's name if it is a full one, else its address");

namespace escapement::handler {

namespace {

// An attempt with its connection.
struct ActiveMail {
  QueuedMail queued;
  std::string mail;  // until the exchange has it
  std::unique_ptr<SmtpSession> session;
  std::unique_ptr<SmtpExchange> exchange;  // null while the session connects
  bool kept_session = false;               // the session has carried a mail before
};

struct IdleSession {
  std::string server;  // DeliveryContext::target_key
  std::unique_ptr<SmtpSession> session;
  MonotonicMicros close_at = 0;
};

}  // namespace

// The thread with its connections and its queue.
class EmailTransport::Loop {
 public:
  explicit Loop(const Options& options)
      : options_(options), multi_(NewCurlMulti()), queue_(options.connections_per_server_max) {
    thread_ = std::thread([this] { Run(); });
  }

  ~Loop() {
    {
      absl::MutexLock lock(&mutex_);
      stopping_ = true;
    }
    curl_multi_wakeup(multi_);
    thread_.join();
    AnswerAll();
    for (IdleSession& idle : idle_) idle.session->Quit();
    idle_.clear();
    active_.clear();
    curl_multi_cleanup(multi_);
  }

  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) {
    const MonotonicMicros now = MonotonicNow();
    bool wake = false;
    {
      absl::MutexLock lock(&mutex_);
      wake = inbox_.empty();  // the thread takes all at once
      for (DeliveryAttempt& attempt : attempts) {
        const MonotonicMicros timeout = TimeoutMicros(attempt.context->timeout);
        inbox_.push_back({.attempt = std::move(attempt),
                          .sink = sink,
                          .start_by = now + timeout / 2,
                          .deadline = now + timeout});
      }
    }
    if (wake) curl_multi_wakeup(multi_);
  }

 private:
  void Run() {
    pthread_setname_np(pthread_self(), "email-transport");
    while (TakeInbox()) {
      for (const QueuedMail& mail : queue_.TakeExpired(MonotonicNow())) AnswerExpired(mail);
      StartNext();
      if (connecting_ > 0) {
        int running = 0;
        curl_multi_perform(multi_, &running);
        Reap();
      }
      EndExpired();
      CloseIdle();
      StartNext();
      Poll();
    }
  }

  bool TakeInbox() {
    std::vector<QueuedMail> arrived;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return false;
      arrived.swap(inbox_);
    }
    for (QueuedMail& mail : arrived) queue_.Add(std::move(mail));
    return true;
  }

  static void AnswerExpired(const QueuedMail& mail) {
    mail.Answer(
        {.status = DeliveryStatus::kUnsent, .message = "timed out before it could be sent"});
  }

  void StartNext() {
    while (active_.size() < static_cast<size_t>(options_.connections_max)) {
      std::optional<QueuedMail> next = queue_.Next();
      if (!next.has_value()) return;
      auto active = std::make_unique<ActiveMail>();
      active->queued = *std::move(next);
      Start(std::move(active));
    }
  }

  void Start(std::unique_ptr<ActiveMail> active) {
    if (active->queued.start_by <= MonotonicNow()) {
      queue_.Done(ServerOf(*active));
      return AnswerExpired(active->queued);
    }
    absl::StatusOr<std::string> mail = MailOf(active->queued.attempt, absl::Now());
    if (!mail.ok()) return Reject(*active, mail.status());
    active->mail = *std::move(mail);
    active->session = TakeIdle(ServerOf(*active), TargetOf(*active));
    if (active->session == nullptr) return Connect(std::move(active));
    active->kept_session = true;
    ActiveMail& started = *active;
    active_.emplace(active->session->easy(), std::move(active));
    Exchange(started);
  }

  // Opens a connection for the attempt.
  void Connect(std::unique_ptr<ActiveMail> active) {
    MakeRoom(ServerOf(*active));
    const absl::Duration left = absl::Microseconds(active->queued.deadline - MonotonicNow());
    active->session = std::make_unique<SmtpSession>(active->queued.attempt.context->definition);
    const absl::Status begun =
        active->session->Connect({.multi = multi_,
                                  .addresses = options_.addresses.get(),
                                  .ehlo_name = options_.ehlo_name,
                                  .timeout = std::min(options_.connect_timeout, left)});
    if (!begun.ok()) return Reject(*active, begun);
    ++connecting_;
    active_.emplace(active->session->easy(), std::move(active));
  }

  void Reap() {
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      ActiveMail& active = ActiveOf(message->easy_handle);
      --connecting_;
      std::optional<DeliveryResult> failed = active.session->OnConnected(code);
      if (failed.has_value()) {
        Finish(active, *std::move(failed), /*keep=*/false);
      } else {
        Exchange(active);
      }
    }
  }

  // Sends the attempt's message over its session.
  void Exchange(ActiveMail& active) {
    SmtpSession& session = *active.session;
    active.exchange = std::make_unique<SmtpExchange>(TargetOf(active), std::move(active.mail),
                                                     session.features(), session.needs_reset);
    OnEvent(active, /*readable=*/false);
  }

  // Reads and writes what is possible now.
  void OnEvent(ActiveMail& active, bool readable) {
    SmtpExchange& exchange = *active.exchange;
    absl::Status status = readable ? active.session->Read() : absl::OkStatus();
    while (!exchange.result().has_value()) {
      const absl::StatusOr<std::optional<SmtpReply>> reply = active.session->replies().Next();
      if (!reply.ok()) status = reply.status();
      if (!reply.ok() || !reply->has_value()) break;
      exchange.OnReply(**reply);
    }
    if (status.ok() && !exchange.result().has_value() && !exchange.to_write().empty()) {
      size_t written = 0;
      status = active.session->Write(exchange.to_write(), &written);
      exchange.Wrote(written);
    }
    const bool broken = !status.ok() && !exchange.result().has_value();
    if (active.kept_session &&
        (exchange.closed_early() || (broken && !exchange.may_have_arrived())))
      return SendAgain(active);
    if (broken) return Finish(active, BrokenResult(exchange, status), /*keep=*/false);
    if (exchange.result().has_value())
      Finish(active, *exchange.result(), exchange.reusable() && status.ok());
  }

  static DeliveryResult BrokenResult(const SmtpExchange& exchange, const absl::Status& why) {
    const bool written = exchange.may_have_arrived();
    return {.status = written ? DeliveryStatus::kUnknown : DeliveryStatus::kFailed,
            .not_sent = !written,
            .message = absl::StrCat(why.message(), written ? " before it answered to the message"
                                                           : " before it had the message")};
  }

  // The server has closed a kept connection, as idle ones are.
  void SendAgain(ActiveMail& active) {
    std::unique_ptr<ActiveMail> owned = Take(active);
    owned->session = nullptr;
    owned->exchange = nullptr;
    owned->kept_session = false;
    absl::StatusOr<std::string> mail = MailOf(owned->queued.attempt, absl::Now());
    if (!mail.ok()) return Reject(*owned, mail.status());
    owned->mail = *std::move(mail);
    Connect(std::move(owned));
  }

  void Finish(ActiveMail& active, DeliveryResult result, bool keep) {
    const std::unique_ptr<ActiveMail> owned = Take(active);
    queue_.Done(ServerOf(*owned));
    const std::string& password = TargetOf(*owned).password();
    if (!password.empty() && absl::StrContains(result.message, password))
      result.message = "the server's answer is not shown: it has the password";
    owned->queued.Answer(std::move(result));
    SmtpSession& session = *owned->session;
    if (owned->exchange == nullptr) return;
    session.needs_reset = owned->exchange->needs_reset();
    if (++session.mails >= options_.mails_per_connection_max) keep = false;
    if (!keep) {
      if (owned->exchange->reusable()) session.Quit();
      return;
    }
    idle_.push_back({.server = ServerOf(*owned),
                     .session = std::move(owned->session),
                     .close_at = MonotonicNow() + TimeoutMicros(options_.idle_timeout)});
    if (idle_.size() > static_cast<size_t>(options_.idle_connections_max)) CloseIdle(idle_.begin());
  }

  void Reject(const ActiveMail& active, const absl::Status& why) {
    queue_.Done(ServerOf(active));
    active.queued.Answer(
        {.status = DeliveryStatus::kRejected, .message = std::string(why.message())});
  }

  // Ends the attempts whose timeouts have passed.
  void EndExpired() {
    const MonotonicMicros now = MonotonicNow();
    std::vector<ActiveMail*> expired;
    for (auto& [easy, active] : active_) {
      if (active->queued.deadline <= now) expired.push_back(active.get());
    }
    for (ActiveMail* active : expired) {
      const bool written = active->exchange != nullptr && active->exchange->may_have_arrived();
      if (active->exchange == nullptr) --connecting_;
      Finish(*active,
             {.status = written ? DeliveryStatus::kUnknown : DeliveryStatus::kFailed,
              .not_sent = !written,
              .message = written ? "timed out before the server answered to the message"
                                 : "timed out before the server had the message"},
             /*keep=*/false);
    }
  }

  // The session that was used last, if the server has an idle one for such a target.
  std::unique_ptr<SmtpSession> TakeIdle(const std::string& server,
                                        const storage::v1::EmailTargetRecord& target) {
    for (auto idle = idle_.rbegin(); idle != idle_.rend(); ++idle) {
      if (idle->server != server || !SameLogin(idle->session->target(), target)) continue;
      std::unique_ptr<SmtpSession> session = std::move(idle->session);
      idle_.erase(std::next(idle).base());
      return session;
    }
    return nullptr;
  }

  // Closes idle connections to the server, of other logins, if there would be too many. The attempt
  // that needs one counts as active already.
  void MakeRoom(const std::string& server) {
    const auto at_server = [&server](const IdleSession& idle) { return idle.server == server; };
    const auto idle = std::count_if(idle_.begin(), idle_.end(), at_server);
    if (idle > 0 && queue_.Active(server) + idle > options_.connections_per_server_max)
      CloseIdle(std::find_if(idle_.begin(), idle_.end(), at_server));
  }

  // The sessions are in the order of their times.
  void CloseIdle() {
    const MonotonicMicros now = MonotonicNow();
    while (!idle_.empty() && idle_.front().close_at <= now) CloseIdle(idle_.begin());
  }

  void CloseIdle(std::list<IdleSession>::iterator idle) {
    idle->session->Quit();
    idle_.erase(idle);
  }

  // Waits for something to do, and serves the connections that are ready.
  void Poll() {
    std::vector<curl_waitfd> waits;
    std::vector<CURL*> users;  // in the order of `waits`
    waits.reserve(active_.size() + idle_.size());
    MonotonicMicros until = queue_.earliest();
    for (const auto& [easy, active] : active_) {
      until = std::min(until, active->queued.deadline);
      if (active->exchange == nullptr) continue;
      const bool writing = !active->exchange->to_write().empty();
      const auto events = static_cast<short>(CURL_WAIT_POLLIN | (writing ? CURL_WAIT_POLLOUT : 0));
      waits.push_back({.fd = active->session->fd(), .events = events, .revents = 0});
      users.push_back(easy);
    }
    for (const IdleSession& idle : idle_) {
      until = std::min(until, idle.close_at);
      waits.push_back({.fd = idle.session->fd(), .events = CURL_WAIT_POLLIN, .revents = 0});
      users.push_back(idle.session->easy());
    }
    curl_multi_poll(multi_, waits.data(), static_cast<unsigned>(waits.size()), PollMillis(until),
                    nullptr);
    for (size_t i = 0; i < waits.size(); ++i) {
      if (waits[i].revents != 0) OnReady(users[i], waits[i].revents);
    }
  }

  void OnReady(CURL* easy, int events) {
    const auto found = active_.find(easy);
    if (found != active_.end()) {
      // A handle that is new since the wait can have the address of one that ended since then.
      if (found->second->exchange == nullptr) return;
      return OnEvent(*found->second, (events & CURL_WAIT_POLLOUT) != events);
    }
    const auto idle = std::find_if(idle_.begin(), idle_.end(), [easy](const IdleSession& one) {
      return one.session->easy() == easy;
    });
    // The server has closed the idle connection, or is about to.
    if (idle != idle_.end()) idle_.erase(idle);
  }

  ActiveMail& ActiveOf(CURL* easy) {
    const auto found = active_.find(easy);
    CHECK(found != active_.end()) << "libcurl ended a connection that is not under way";
    return *found->second;
  }

  std::unique_ptr<ActiveMail> Take(const ActiveMail& active) {
    const auto found = active_.find(active.session->easy());
    std::unique_ptr<ActiveMail> owned = std::move(found->second);
    active_.erase(found);
    return owned;
  }

  static const std::string& ServerOf(const ActiveMail& active) {
    return active.queued.attempt.context->target_key;
  }
  static const storage::v1::EmailTargetRecord& TargetOf(const ActiveMail& active) {
    return active.queued.attempt.context->definition->delivery().target().email();
  }

  // Answers all attempts. Called after the thread has ended.
  void AnswerAll() {
    const DeliveryResult stopped = {.status = DeliveryStatus::kUnknown,
                                    .message = "the platform is stopping"};
    for (auto& [easy, active] : active_) active->queued.Answer(stopped);
    for (const QueuedMail& mail : queue_.TakeAll()) mail.Answer(stopped);
    std::vector<QueuedMail> inbox;
    {
      absl::MutexLock lock(&mutex_);
      inbox.swap(inbox_);
    }
    for (const QueuedMail& mail : inbox) mail.Answer(stopped);
  }

  const Options options_;
  CURLM* const multi_;
  MailQueue queue_;
  absl::flat_hash_map<CURL*, std::unique_ptr<ActiveMail>> active_;
  int connecting_ = 0;           // active ones without an exchange
  std::list<IdleSession> idle_;  // the one that was used last is last
  absl::Mutex mutex_;
  std::vector<QueuedMail> inbox_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

EmailTransport::EmailTransport(const Options& options) : loop_(std::make_unique<Loop>(options)) {}

EmailTransport::~EmailTransport() = default;

void EmailTransport::Send(std::vector<DeliveryAttempt> attempts,
                          std::shared_ptr<DeliverySink> sink) {
  if (!attempts.empty()) loop_->Send(std::move(attempts), std::move(sink));
}

std::string EhloNameOf(absl::string_view host, const std::vector<std::string>& addresses) {
  if (absl::StrContains(host, '.') || addresses.empty()) return std::string(host);
  const std::string& address = addresses.front();
  return absl::StrCat(absl::StrContains(address, ':') ? "[IPv6:" : "[", address, "]");
}

namespace {

// The addresses of this machine that others may reach, IPv4 first.
std::vector<std::string> OwnAddresses() {
  std::vector<std::string> four, six;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return four;
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET6_ADDRSTRLEN] = "";
    if (at->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(at->ifa_addr)->sin_addr, text,
                sizeof(text));
      four.push_back(text);
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<sockaddr_in6*>(at->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;
      inet_ntop(AF_INET6, &address, text, sizeof(text));
      six.push_back(text);
    }
  }
  freeifaddrs(all);
  four.insert(four.end(), six.begin(), six.end());
  return four;
}

std::string OwnEhloName() {
  char host[256] = "";
  if (gethostname(host, sizeof(host) - 1) != 0) return "";
  return EhloNameOf(host, OwnAddresses());
}

// Characters of host names and of address literals such as [192.0.2.1].
bool IsEhloCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == ':' ||
         c == '[' || c == ']';
}

}  // namespace

void ValidateEmailFlags(std::vector<std::string>& errors) {
  const int connections = absl::GetFlag(FLAGS_email_connections_per_server);
  if (connections < 1 || connections > 64)
    errors.push_back("--email_connections_per_server: must be from 1 to 64");
  const std::string name = absl::GetFlag(FLAGS_email_ehlo_name);
  if (name.size() > 255 || !std::all_of(name.begin(), name.end(), IsEhloCharacter))
    errors.push_back("--email_ehlo_name: must be a host name");
}

std::unique_ptr<DeliveryTransport> NewEmailTransportFromFlags(
    std::shared_ptr<const AddressRule> addresses) {
  EmailTransport::Options options;
  options.addresses = std::move(addresses);
  options.connections_per_server_max = absl::GetFlag(FLAGS_email_connections_per_server);
  options.ehlo_name = absl::GetFlag(FLAGS_email_ehlo_name);
  if (options.ehlo_name.empty()) options.ehlo_name = OwnEhloName();
  return std::make_unique<EmailTransport>(options);
}

}  // namespace escapement::handler
