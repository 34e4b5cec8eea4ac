// ConnectPg.

#include <poll.h>
#include <postgresql/libpq-fe.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/check.h"
#include "common/kv/log/pg/pg_connection.h"
#include "common/kv/log/pg/pg_session.h"
#include "common/net/name_resolver.h"

namespace escapement::kv {
namespace {

constexpr absl::Duration kConnectTimeoutMax = absl::Seconds(10);
constexpr absl::Duration kLaterMax = absl::Milliseconds(500);

absl::Duration MonotonicNow() {
  return absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// Where one server may be: libpq's options of these names. The whole of the URL if all are empty.
struct PgPlace {
  std::string host, hostaddr, port;

  bool IsName() const {
    return hostaddr.empty() && !host.empty() && host.front() != '/' && host.front() != '@' &&
           !NameResolver::IsAddress(host);
  }
  std::string Text() const { return absl::StrCat(host, " ", hostaddr, " ", port); }
};

PGconn* StartConnection(const PgConninfo& conninfo) {
  std::vector<const char*> keywords, values;
  for (const auto& [keyword, value] : conninfo) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  PGconn* const connection =
      PQconnectStartParams(keywords.data(), values.data(), /*expand_dbname=*/0);
  CHECK(connection != nullptr) << "no memory";
  // Notices would go to stderr.
  PQsetNoticeProcessor(
      connection, [](void*, const char*) {}, nullptr);
  return connection;
}

std::vector<std::string> ListOf(const std::string& option) {
  return option.empty() ? std::vector<std::string>() : absl::StrSplit(option, ',');
}

// The hosts of all options, also of libpq's environment variables and its service files.
struct PgPlaces {
  std::vector<PgPlace> places;
  absl::Duration timeout = kConnectTimeoutMax;
};

PgPlaces PlacesOf(PgConninfo conninfo) {
  // libpq reads all options, and goes no further because of this one.
  conninfo.emplace_back("target_session_attrs", "not-valid");
  PGconn* const unconnected = StartConnection(conninfo);
  PQconninfoOption* const options = PQconninfo(unconnected);
  const absl::Cleanup end = [&] {
    PQconninfoFree(options);
    PQfinish(unconnected);
  };
  CHECK(options != nullptr) << "no memory";
  const auto option = [&](absl::string_view keyword) {
    for (const PQconninfoOption* each = options; each->keyword != nullptr; ++each) {
      if (each->keyword == keyword && each->val != nullptr) return std::string(each->val);
    }
    return std::string();
  };
  PgPlaces found;
  int64_t seconds = 0;
  if (absl::SimpleAtoi(option("connect_timeout"), &seconds) && seconds > 0)
    found.timeout = absl::Seconds(seconds);
  const auto hosts = ListOf(option("host")), hostaddrs = ListOf(option("hostaddr")),
             ports = ListOf(option("port"));
  const size_t count = std::max(hosts.size(), hostaddrs.size());
  const auto fits = [&](const auto& list) { return list.empty() || list.size() == count; };
  if (count == 0 || !fits(hosts) || !fits(hostaddrs) || (ports.size() != 1 && !fits(ports))) {
    found.places.emplace_back();  // the default, or for libpq to refuse
    return found;
  }
  for (size_t i = 0; i < count; ++i) {
    found.places.push_back({hosts.empty() ? "" : hosts[i], hostaddrs.empty() ? "" : hostaddrs[i],
                            ports.empty() ? "" : ports[std::min(i, ports.size() - 1)]});
  }
  return found;
}

// The options for one place.
PgConninfo At(const PgPlace& place, PgConninfo conninfo) {
  if (place.host.empty() && place.hostaddr.empty()) return conninfo;
  std::erase_if(conninfo, [](const auto& option) {
    return option.first == "host" || option.first == "hostaddr" || option.first == "port";
  });
  conninfo.emplace_back("host", place.host);
  conninfo.emplace_back("hostaddr", place.hostaddr);
  conninfo.emplace_back("port", place.port);
  return conninfo;
}

// The attempts of one ConnectPg.
class PgAttempts {
 public:
  PgAttempts(const PgConninfo& conninfo, const std::string& except)
      : conninfo_(conninfo), except_(except), resolved_(eventfd(0, EFD_CLOEXEC)) {
    CHECK(resolved_ >= 0);
  }
  ~PgAttempts() {
    resolver_.reset();  // it writes to the descriptor
    close(resolved_);
  }

  absl::StatusOr<PgServer> Run(int stop) {
    const PgPlaces found = PlacesOf(conninfo_);
    for (size_t i = 0; i < found.places.size(); ++i) Begin(i, found.places[i]);
    absl::Duration end = MonotonicNow() + found.timeout;
    bool answered = false;
    while (true) {
      if (!answered && Best() != nullptr) {
        answered = true;
        end = std::min(end, MonotonicNow() + kLaterMax);
      }
      const absl::Duration left = end - MonotonicNow();
      if (!Waits() || left <= absl::ZeroDuration()) break;
      if (!AwaitNext(stop, left)) return absl::UnavailableError("the log has stopped");
    }
    Attempt* const best = Best();
    if (best == nullptr) return absl::UnavailableError(Why());
    return PgServer{std::move(best->connection), best->timeline, best->place.Text()};
  }

 private:
  // In this order, but kFailed may follow each; a place that is no name begins with kConnects.
  enum class Stage : uint8_t { kResolves, kConnects, kAsks, kAnswered, kFailed };
  struct Attempt {
    std::pair<size_t, size_t> order;  // number of the place in the URL, of the address in its name
    PgPlace place;
    Stage stage;
    std::unique_ptr<PGconn, void (*)(PGconn*)> connection = {nullptr, &PQfinish};
    PostgresPollingStatusType wants = PGRES_POLLING_WRITING;
    uint64_t timeline = 0;
    std::string why = {};  // kFailed

    bool waits() const { return stage < Stage::kAnswered; }
  };
  struct Resolved {
    size_t order;
    NameResolver::Answer addresses;
  };

  void Begin(size_t order, const PgPlace& place) {
    if (!place.IsName()) return Connect({order, 0}, place);
    attempts_.push_back({.order = {order, 0}, .place = place, .stage = Stage::kResolves});
    if (resolver_ == nullptr) resolver_ = std::make_unique<NameResolver>();
    resolver_->Resolve(place.host, [this, order](NameResolver::Answer addresses) {
      absl::MutexLock lock(&mu_);
      answers_.push_back({order, std::move(addresses)});
      const uint64_t one = 1;
      CHECK(write(resolved_, &one, sizeof(one)) == sizeof(one));
    });
  }

  void Connect(std::pair<size_t, size_t> order, const PgPlace& place) {
    if (place.Text() == except_) return;
    Attempt& attempt =
        attempts_.emplace_back(Attempt{.order = order, .place = place, .stage = Stage::kConnects});
    attempt.connection.reset(StartConnection(At(place, conninfo_)));
    if (PQstatus(attempt.connection.get()) == CONNECTION_BAD) Fail(attempt);
  }

  void ConnectResolved() {
    uint64_t count = 0;
    CHECK(read(resolved_, &count, sizeof(count)) == sizeof(count));
    std::vector<Resolved> answers;
    {
      absl::MutexLock lock(&mu_);
      answers.swap(answers_);
    }
    for (const Resolved& answer : answers) {
      const auto named = std::find_if(attempts_.begin(), attempts_.end(), [&](const Attempt& a) {
        return a.stage == Stage::kResolves && a.order.first == answer.order;
      });
      if (!answer.addresses.ok()) {
        named->why = std::string(answer.addresses.status().message());
        named->stage = Stage::kFailed;
        continue;
      }
      PgPlace place = named->place;
      attempts_.erase(named);
      for (size_t i = 0; i < answer.addresses->size(); ++i) {
        place.hostaddr = (*answer.addresses)[i];
        Connect({answer.order, i}, place);
      }
    }
  }

  // Waits until something has happened, and does what follows from it. False: to stop.
  bool AwaitNext(int stop, absl::Duration limit) {
    std::vector<pollfd> fds = {{stop, POLLIN, 0}, {resolved_, POLLIN, 0}};
    for (const Attempt& attempt : attempts_) {
      const bool reads = attempt.wants == PGRES_POLLING_READING;
      const bool socket = attempt.waits() && attempt.stage != Stage::kResolves;
      fds.push_back({socket ? PQsocket(attempt.connection.get()) : -1,
                     static_cast<int16_t>(reads ? POLLIN : POLLOUT), 0});
    }
    limit = std::min(limit, absl::Minutes(1));
    poll(fds.data(), fds.size(), static_cast<int>(absl::ToInt64Milliseconds(limit)) + 1);
    if (fds[0].revents != 0) return false;
    for (size_t i = 0; i < attempts_.size(); ++i) {
      if (fds[i + 2].revents != 0) Advance(attempts_[i]);
    }
    if (fds[1].revents != 0) ConnectResolved();
    return true;
  }

  static void Advance(Attempt& attempt) {
    PGconn* const connection = attempt.connection.get();
    if (attempt.stage == Stage::kConnects) {
      attempt.wants = PQconnectPoll(connection);
      if (attempt.wants == PGRES_POLLING_FAILED) return Fail(attempt);
      if (attempt.wants != PGRES_POLLING_OK) return;
      if (PQsendQuery(connection, kPgTimelineQuery) != 1) return Fail(attempt);
      attempt.stage = Stage::kAsks;
      attempt.wants = PGRES_POLLING_READING;
      return;
    }
    if (PQconsumeInput(connection) != 1) return Fail(attempt);
    while (PQisBusy(connection) == 0) {
      PGresult* const result = PQgetResult(connection);
      if (result == nullptr) {
        if (PQstatus(connection) != CONNECTION_OK) return Fail(attempt);
        attempt.stage = Stage::kAnswered;
        return;
      }
      // Another database that speaks like PostgreSQL may not know the functions.
      if (PQresultStatus(result) == PGRES_TUPLES_OK && PQntuples(result) == 1)
        (void)absl::SimpleHexAtoi(PQgetvalue(result, 0, 0), &attempt.timeline);
      PQclear(result);
    }
  }

  static void Fail(Attempt& attempt) {
    attempt.why = PgText(PQerrorMessage(attempt.connection.get()));
    attempt.connection.reset();
    attempt.stage = Stage::kFailed;
  }

  bool Waits() const {
    return std::any_of(attempts_.begin(), attempts_.end(), [](const auto& a) { return a.waits(); });
  }

  Attempt* Best() {
    Attempt* best = nullptr;
    for (Attempt& attempt : attempts_) {
      if (attempt.stage != Stage::kAnswered) continue;
      if (best == nullptr || attempt.timeline > best->timeline ||
          (attempt.timeline == best->timeline && attempt.order < best->order))
        best = &attempt;
    }
    return best;
  }

  std::string Why() const {
    std::vector<std::string> whys;
    for (const Attempt& attempt : attempts_)
      whys.push_back(attempt.waits() ? absl::StrCat(attempt.place.host, " does not answer in time")
                                     : attempt.why);
    return absl::StrCat("cannot connect to PostgreSQL: ", absl::StrJoin(whys, "; "));
  }

  const PgConninfo& conninfo_;
  const std::string& except_;
  const int resolved_;  // can be read when there are answers
  std::vector<Attempt> attempts_;

  absl::Mutex mu_;
  std::vector<Resolved> answers_ ABSL_GUARDED_BY(mu_);

  std::unique_ptr<NameResolver> resolver_;
};

}  // namespace

absl::StatusOr<PgServer> ConnectPg(const PgConninfo& conninfo, int stop,
                                   const std::string& except) {
  return PgAttempts(conninfo, except).Run(stop);
}

}  // namespace escapement::kv
