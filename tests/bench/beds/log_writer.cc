#include "tests/bench/beds/log_writer.h"

#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/kv/log/pg/pg_connection.h"

namespace escapement::bench {
namespace {

using Outcome = kv::AppendResult::Outcome;

// Starts a call and waits for its answer.
template <typename T, typename F>
absl::StatusOr<T> Wait(F call) {
  absl::Mutex mu;
  absl::StatusOr<T> result;
  bool done = false;
  call([&](absl::StatusOr<T> answer) {
    absl::MutexLock lock(&mu);
    result = std::move(answer);
    done = true;
  });
  absl::MutexLock lock(&mu);
  mu.Await(absl::Condition(&done));
  return result;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogWriter>> LogWriter::Start(const std::string& url) {
  RETURN_IF_ERROR(kv::MigratePgSchema(url, kv::PgSchemaSteps()).status());
  std::unique_ptr<LogWriter> writer(new LogWriter());
  ASSIGN_OR_RETURN(auto log, kv::PgLog::Make(writer->runtime_, {.url = url}));
  writer->log_ = std::move(log);
  ASSIGN_OR_RETURN(const auto led, Wait<kv::LeadResult>([&](auto done) {
                     writer->log_->Lead({{}, "bench", "bench:1"}, std::move(done));
                   }));
  writer->term_ = led.term;
  writer->end_ = writer->read_ = led.last;
  return writer;
}

absl::Status LogWriter::Append(uint64_t appends, uint64_t in_flight,
                               const std::shared_ptr<const std::string>& data) {
  absl::Mutex mu;
  uint64_t sent = 0, answered = 0;
  absl::Status failed;
  absl::MutexLock lock(&mu);
  while (answered < appends) {
    while (sent < appends && sent < answered + in_flight) {
      kv::AppendRequest request{term_, end_, {kv::NextRow(end_, term_.epoch, data)}};
      end_ = request.rows.back().position;
      ++sent;
      mu.Unlock();
      log_->Append(std::move(request), [&](const kv::AppendResult& result) {
        absl::MutexLock lock(&mu);
        ++answered;
        if (result.outcome != Outcome::kAcknowledged) failed.Update(result.why);
      });
      mu.Lock();
    }
    const uint64_t before = answered;
    const auto some = [&] { return answered > before || answered + in_flight > sent; };
    if (sent < appends) {
      mu.Await(absl::Condition(&some));
    } else {
      const auto all = [&] { return answered == appends; };
      mu.Await(absl::Condition(&all));
    }
  }
  return failed;
}

absl::StatusOr<double> LogWriter::AppendRate(uint64_t appends, size_t bytes, uint64_t in_flight) {
  const auto data = std::make_shared<const std::string>(bytes, 'x');
  const absl::Time begin = absl::Now();
  RETURN_IF_ERROR(Append(appends, in_flight, data));
  return static_cast<double>(appends) / absl::ToDoubleSeconds(absl::Now() - begin);
}

absl::StatusOr<fixtures::LatencyHistogram> LogWriter::AppendLatencies(uint64_t appends,
                                                                      size_t bytes) {
  const auto data = std::make_shared<const std::string>(bytes, 'x');
  fixtures::LatencyHistogram latencies;
  for (uint64_t i = 0; i < appends; ++i) {
    const absl::Time begin = absl::Now();
    RETURN_IF_ERROR(Append(1, 1, data));
    latencies.Add(absl::ToInt64Microseconds(absl::Now() - begin));
  }
  return latencies;
}

absl::StatusOr<double> LogWriter::ReadRate() {
  const absl::Time begin = absl::Now();
  size_t bytes = 0;
  for (bool more = true; more;) {
    ASSIGN_OR_RETURN(const auto read, Wait<kv::ReadResult>([&](auto done) {
                       log_->Read({.after = read_}, std::move(done));
                     }));
    for (const kv::LogRow& row : read.rows) bytes += row.data->size();
    if (!read.rows.empty()) read_ = read.rows.back().position;
    more = read.more;
  }
  return static_cast<double>(bytes) / absl::ToDoubleSeconds(absl::Now() - begin);
}

}  // namespace escapement::bench
