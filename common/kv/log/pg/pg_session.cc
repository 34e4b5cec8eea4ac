#include "common/kv/log/pg/pg_session.h"

#include <poll.h>
#include <postgresql/libpq-fe.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/check.h"

namespace escapement::kv {

std::string PgText(const char* message) {
  return std::string(absl::StripAsciiWhitespace(message == nullptr ? "" : message));
}

std::string PgSqlState(const pg_result* result) {
  return PgText(PQresultErrorField(result, PG_DIAG_SQLSTATE));
}

absl::Status PgStatus(const std::string& sqlstate, const std::string& message) {
  if (sqlstate.empty() && message.empty()) return absl::OkStatus();
  const std::string text = absl::StrCat("PostgreSQL: ", message, " (", sqlstate, ")");
  if (sqlstate == "3F000" || sqlstate == "42P01" || sqlstate == "42703") {
    return absl::FailedPreconditionError(
        absl::StrCat(text, "; the schema is not that of this version"));
  }
  if (sqlstate == "42501") return absl::FailedPreconditionError(text);  // insufficient privilege
  if (absl::StartsWith(sqlstate, "53")) return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

namespace {

constexpr size_t kTransactionBytes = 256;  // estimate of a transaction's own size

}  // namespace

class PgSession::Core {
 public:
  Core(Runtime& runtime, Options options)
      : runtime_(runtime),
        options_(std::move(options)),
        wake_(eventfd(0, EFD_CLOEXEC)),
        stop_(eventfd(0, EFD_CLOEXEC)) {
    CHECK(wake_ >= 0 && stop_ >= 0);
    thread_ = std::thread([this] {
      pthread_setname_np(pthread_self(), options_.thread_name.substr(0, 15).c_str());
      while (Step()) {
      }
      Lose(absl::UnavailableError("the log has stopped"));
      // A callback may run one more transaction.
      while (HasQueued()) FailQueued(absl::UnavailableError("the log has stopped"));
    });
    watch_ = std::thread([this] { WatchHosts(); });
  }

  ~Core() {
    {
      absl::MutexLock lock(&mu_);
      stopped_ = true;
    }
    Wake(stop_);
    Wake(wake_);
    thread_.join();
    watch_.join();
    close(stop_);
    close(wake_);
  }

  void Run(std::vector<PgStep> steps, Done done) {
    Transaction transaction;
    transaction.bytes = kTransactionBytes;
    for (const PgStep& step : steps) {
      for (const PgValue& value : step.values) transaction.bytes += value.bytes().size();
    }
    transaction.steps = std::move(steps);
    transaction.done = std::move(done);
    {
      absl::MutexLock lock(&mu_);
      if (bytes_ > 0 && bytes_ + transaction.bytes > options_.bytes_max) {
        transaction.answer = {.kind = PgAnswer::Kind::kNotStarted,
                              .why = absl::ResourceExhaustedError("too much waits for PostgreSQL")};
        transaction.bytes = 0;
        transaction.steps.clear();
      }
      bytes_ += transaction.bytes;
      queue_.push_back(std::move(transaction));
    }
    Wake(wake_);
  }

  void KeepOpen() {
    {
      absl::MutexLock lock(&mu_);
      if (std::exchange(keep_open_, true)) return;
    }
    Wake(wake_);
  }

  void Disconnect() { Leave("the connection was cut"); }

 private:
  struct Transaction {
    std::vector<PgStep> steps;
    Done done;
    size_t bytes = 0;
    std::optional<PgAnswer> answer;  // known; given in its turn
    std::vector<PgRows> rows;
    std::string sqlstate;  // the first error
    absl::Status error;
    bool warned = false;
  };
  struct Server {
    std::string place;
    uint64_t timeline = 0;
  };

  static void Wake(int event) {
    const uint64_t one = 1;
    CHECK(write(event, &one, sizeof(one)) == sizeof(one));
  }

  void Leave(std::string why) {
    {
      absl::MutexLock lock(&mu_);
      leave_ = std::move(why);
    }
    Wake(wake_);
  }

  // On a thread of its own, since the session's may not wait for hosts that do not answer.
  void WatchHosts() {
    pthread_setname_np(pthread_self(), "log-hosts");
    PgConninfo conninfo = options_.conninfo;
    conninfo.emplace_back("application_name", "escapement-check");  // a later option wins
    pollfd stopped = {stop_, POLLIN, 0};
    const auto millis = static_cast<int>(absl::ToInt64Milliseconds(options_.hosts_asked_every));
    while (poll(&stopped, 1, millis) <= 0) {
      Server server;
      {
        absl::MutexLock lock(&mu_);
        server = server_;
      }
      if (server.timeline == 0) continue;
      const auto other = ConnectPg(conninfo, stop_, server.place);
      if (!other.ok() || other->timeline <= server.timeline) continue;
      Leave("another PostgreSQL server was promoted");
    }
  }

  // One turn of the thread; false at the end.
  bool Step() {
    if (const std::string why = TakeLeave(); !why.empty()) Lose(absl::UnavailableError(why));
    if (Stopped()) return false;
    if (connection_ == nullptr) {
      if (!WantsConnection()) {
        Wait(absl::InfiniteDuration());
      } else if (const absl::Duration wait = next_attempt_ - Now(); wait > absl::ZeroDuration()) {
        Wait(wait);
      } else {
        Connect();
      }
      return true;
    }
    if (ready_) SendQueued();
    AnswerHeads();
    if (connection_ == nullptr) return true;
    absl::Duration wait = absl::InfiniteDuration();
    if (ready_ && in_flight_.empty() && timeline_ != 0) {
      wait = last_progress_ + options_.hosts_asked_every - Now();
      if (wait <= absl::ZeroDuration()) {
        AskWhetherWritable();
        return true;
      }
    } else if (!in_flight_.empty()) {
      wait = last_progress_ + options_.silence_max - Now();
      if (wait <= absl::ZeroDuration()) {
        Lose(absl::UnavailableError("PostgreSQL does not answer"));
        return true;
      }
    }
    Wait(wait);
    Receive();
    return true;
  }

  absl::Duration Now() { return runtime_.clock().Elapsed(); }

  // Until the socket or the wake-up is ready, at most `limit`.
  void Wait(absl::Duration limit) {
    pollfd fds[2] = {{wake_, POLLIN, 0}, {-1, 0, 0}};
    if (connection_ != nullptr) {
      fds[1].fd = PQsocket(connection_);
      fds[1].events = static_cast<int16_t>(unsent_ ? POLLIN | POLLOUT : POLLIN);
    }
    const int millis =
        limit == absl::InfiniteDuration()
            ? -1
            : static_cast<int>(std::min<int64_t>(absl::ToInt64Milliseconds(limit) + 1, 60'000));
    poll(fds, 2, millis);
    if ((fds[0].revents & POLLIN) != 0) {
      uint64_t count = 0;
      CHECK(read(wake_, &count, sizeof(count)) == sizeof(count));
    }
    if ((fds[1].revents & (POLLIN | POLLOUT)) != 0) last_progress_ = Now();
  }

  void Connect() {
    if (before_connect_ != nullptr) {
      if (const absl::Status done = before_connect_(); !done.ok()) return Refuse(done);
      before_connect_ = nullptr;
    }
    absl::StatusOr<PgServer> server = ConnectPg(options_.conninfo, stop_);
    if (!server.ok()) return Refuse(server.status());
    connection_ = server->connection.release();
    SetServer({server->place, server->timeline});
    PQsetNoticeReceiver(connection_, &Core::OnNotice, this);
    PQsetnonblocking(connection_, 1);
    PQenterPipelineMode(connection_);
    bool sent = true;
    for (const std::string& sql : options_.setup) {
      sent &= PQsendQueryParams(connection_, sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr,
                                1) == 1;
    }
    for (const PgStatement& statement : options_.statements)
      sent &= PQsendPrepare(connection_, statement.name, statement.sql, 0, nullptr) == 1;
    sent &= PQpipelineSync(connection_) == 1;
    if (!sent) return Refuse(Broken());
    Transaction setup;
    setup.done = [this](const PgAnswer& answer) {
      if (answer.kind != PgAnswer::Kind::kCommitted) {
        refused_ = answer.why;
        return;
      }
      ready_ = true;
      failures_ = 0;
    };
    Started(std::move(setup));
    Flush();
  }

  // A connection without work is a promise for a takeover, and a session that only reads would
  // never learn that the server takes no writes any more.
  void AskWhetherWritable() {
    if (PQsendQueryParams(connection_, kPgTimelineQuery, 0, nullptr, nullptr, nullptr, nullptr,
                          0) != 1 ||
        PQpipelineSync(connection_) != 1)
      return Lose(Broken());
    Transaction question;
    question.done = [this](const PgAnswer& answer) {
      read_only_ |=
          answer.kind == PgAnswer::Kind::kCommitted && answer.rows.front().Bytes(0, 0) == "0";
    };
    Started(std::move(question));
    Flush();
  }

  absl::Status Broken() {
    return absl::UnavailableError(
        absl::StrCat("the connection to PostgreSQL broke: ", PgText(PQerrorMessage(connection_))));
  }

  void Started(Transaction transaction) {
    if (in_flight_.empty()) last_progress_ = Now();
    in_flight_.push_back(std::move(transaction));
  }

  void SendQueued() {
    while (in_flight_.size() < options_.in_flight_max) {
      std::optional<Transaction> next = TakeQueued();
      if (!next.has_value()) break;
      if (!next->answer.has_value() && !Send(*next)) {
        Started(*std::move(next));  // a part may have been sent
        return Lose(Broken());
      }
      next->steps.clear();
      Started(*std::move(next));
    }
    Flush();
  }

  bool Send(const Transaction& transaction) {
    std::vector<const char*> values;
    std::vector<int> lengths, formats;
    for (const PgStep& step : transaction.steps) {
      values.clear();
      lengths.clear();
      for (const PgValue& value : step.values) {
        values.push_back(value.bytes().data());
        lengths.push_back(static_cast<int>(value.bytes().size()));
      }
      formats.assign(values.size(), 1);
      const int count = static_cast<int>(values.size());
      const int sent = step.prepared
                           ? PQsendQueryPrepared(connection_, step.statement, count, values.data(),
                                                 lengths.data(), formats.data(), 1)
                           : PQsendQueryParams(connection_, step.statement, count, nullptr,
                                               values.data(), lengths.data(), formats.data(), 1);
      if (sent != 1) return false;
    }
    return PQpipelineSync(connection_) == 1;
  }

  void Flush() {
    const int unsent = PQflush(connection_);
    if (unsent < 0) return Lose(Broken());
    unsent_ = unsent == 1;
  }

  void Receive() {
    if (connection_ == nullptr) return;
    if (unsent_) {
      Flush();
      if (connection_ == nullptr) return;
    }
    const bool open = PQconsumeInput(connection_) == 1;
    // Two NULLs in a row: nothing more has arrived.
    for (int nulls = 0; nulls < 2 && !in_flight_.empty() && PQisBusy(connection_) == 0;) {
      PGresult* const result = PQgetResult(connection_);
      nulls = result == nullptr ? nulls + 1 : 0;
      if (result != nullptr) Take(result);
    }
    AnswerHeads();
    if (connection_ == nullptr) return;
    if (!open || PQstatus(connection_) == CONNECTION_BAD) Lose(Broken());
  }

  void Take(PGresult* result) {
    // A transaction that was never sent has an answer already.
    const auto head = std::find_if(in_flight_.begin(), in_flight_.end(),
                                   [](const auto& t) { return !t.answer.has_value(); });
    if (head == in_flight_.end()) return PQclear(result);
    switch (PQresultStatus(result)) {
      case PGRES_PIPELINE_SYNC:
        // Only this says that the transaction has ended. An INSERT is reported before its commit.
        PQclear(result);
        head->answer = AnswerOf(*head);
        return;
      case PGRES_TUPLES_OK:
      case PGRES_COMMAND_OK:
        head->rows.emplace_back(result);
        return;
      case PGRES_PIPELINE_ABORTED:
        PQclear(result);
        return;
      default:
        if (head->error.ok()) {
          head->sqlstate = PgSqlState(result);
          head->error =
              PgStatus(head->sqlstate, PgText(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)));
        }
        PQclear(result);
    }
  }

  static PgAnswer AnswerOf(Transaction& transaction) {
    PgAnswer answer;
    if (!transaction.error.ok()) {
      answer.kind = PgAnswer::Kind::kRefused;
      answer.sqlstate = transaction.sqlstate;
      answer.why = transaction.error;
      return answer;
    }
    answer.rows = std::move(transaction.rows);
    if (!transaction.warned) {
      answer.kind = PgAnswer::Kind::kCommitted;
      return answer;
    }
    answer.kind = PgAnswer::Kind::kUnproven;
    answer.why = absl::UnavailableError("PostgreSQL committed without its standbys");
    return answer;
  }

  static void OnNotice(void* self, const PGresult* notice) {
    // A commit that stops waiting for standbys is reported as a warning without a code of its own.
    // No statement of ours causes another warning.
    if (PgSqlState(notice) != "01000") return;
    auto& in_flight = static_cast<Core*>(self)->in_flight_;
    const auto head = std::find_if(in_flight.begin(), in_flight.end(),
                                   [](const auto& t) { return !t.answer.has_value(); });
    if (head != in_flight.end()) head->warned = true;
  }

  void AnswerHeads() {
    while (!in_flight_.empty() && in_flight_.front().answer.has_value()) {
      Transaction transaction = std::move(in_flight_.front());
      in_flight_.pop_front();
      read_only_ |= transaction.answer->sqlstate == kPgReadOnly;
      Answer(transaction, *std::move(transaction.answer));
    }
    if (std::exchange(read_only_, false))
      return Lose(absl::UnavailableError("PostgreSQL takes no writes any more"));
    if (!refused_.ok()) Refuse(std::exchange(refused_, absl::OkStatus()));
  }

  void Answer(Transaction& transaction, PgAnswer answer) {
    {
      absl::MutexLock lock(&mu_);
      bytes_ -= transaction.bytes;
    }
    transaction.done(std::move(answer));
  }

  // The connection has ended.
  void Lose(const absl::Status& why) {
    if (connection_ == nullptr) return;
    const bool was_ready = std::exchange(ready_, false);
    PQfinish(connection_);
    connection_ = nullptr;
    SetServer({});
    unsent_ = read_only_ = false;
    auto lost = std::exchange(in_flight_, {});
    for (Transaction& transaction : lost) {
      if (!transaction.answer.has_value())
        transaction.answer = PgAnswer{.kind = PgAnswer::Kind::kUnknown, .why = why};
      Answer(transaction, *std::move(transaction.answer));
    }
    refused_ = absl::OkStatus();
    BackOff();
    if (!was_ready) FailQueued(why);
  }

  // The attempt to connect has failed.
  void Refuse(const absl::Status& why) {
    if (connection_ != nullptr) PQfinish(connection_);
    connection_ = nullptr;
    SetServer({});
    ready_ = unsent_ = read_only_ = false;
    in_flight_.clear();
    BackOff();
    FailQueued(why);
  }

  void BackOff() {
    next_attempt_ =
        Now() + FullJitterBackoff(options_.reconnect, ++failures_, runtime_.random().Next());
  }

  void FailQueued(const absl::Status& why) {
    std::deque<Transaction> failed;
    {
      absl::MutexLock lock(&mu_);
      failed.swap(queue_);
    }
    for (Transaction& transaction : failed) {
      if (!transaction.answer.has_value())
        transaction.answer = PgAnswer{.kind = PgAnswer::Kind::kNotStarted, .why = why};
      Answer(transaction, *std::move(transaction.answer));
    }
  }

  std::optional<Transaction> TakeQueued() {
    absl::MutexLock lock(&mu_);
    if (queue_.empty()) return std::nullopt;
    Transaction next = std::move(queue_.front());
    queue_.pop_front();
    return next;
  }
  bool HasQueued() {
    absl::MutexLock lock(&mu_);
    return !queue_.empty();
  }
  bool WantsConnection() {
    absl::MutexLock lock(&mu_);
    return keep_open_ || !queue_.empty();
  }
  void SetServer(Server server) {
    timeline_ = server.timeline;
    absl::MutexLock lock(&mu_);
    server_ = std::move(server);
  }
  bool Stopped() {
    absl::MutexLock lock(&mu_);
    return stopped_;
  }
  // Why to end the connection; "" if there is no reason.
  std::string TakeLeave() {
    absl::MutexLock lock(&mu_);
    return std::exchange(leave_, "");
  }

  Runtime& runtime_;
  const Options options_;
  std::function<absl::Status()> before_connect_ = options_.before_connect;
  const int wake_;
  const int stop_;  // stays set

  // Touched on the thread.
  PGconn* connection_ = nullptr;
  bool ready_ = false;      // set up
  absl::Status refused_;    // why the setup failed, until the connection is closed
  bool unsent_ = false;     // libpq has bytes that the socket did not take
  bool read_only_ = false;  // the server has said so
  uint64_t timeline_ = 0;   // server_'s
  std::deque<Transaction> in_flight_;
  absl::Duration last_progress_;
  absl::Duration next_attempt_;
  uint32_t failures_ = 0;

  absl::Mutex mu_;
  std::deque<Transaction> queue_ ABSL_GUARDED_BY(mu_);
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  bool keep_open_ ABSL_GUARDED_BY(mu_) = false;
  std::string leave_ ABSL_GUARDED_BY(mu_);
  Server server_ ABSL_GUARDED_BY(mu_);  // where connection_ goes

  std::thread thread_;
  std::thread watch_;
};

PgSession::PgSession(Runtime& runtime, Options options)
    : core_(std::make_unique<Core>(runtime, std::move(options))) {}

PgSession::~PgSession() = default;

void PgSession::Run(std::vector<PgStep> steps, Done done) {
  core_->Run(std::move(steps), std::move(done));
}

void PgSession::KeepOpen() { core_->KeepOpen(); }

void PgSession::Disconnect() { core_->Disconnect(); }

}  // namespace escapement::kv
