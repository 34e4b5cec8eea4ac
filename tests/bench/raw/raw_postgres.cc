#include <postgresql/libpq-fe.h>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/key_codec.h"
#include "common/status/return_if_error.h"
#include "tests/bench/raw/raw_limits.h"

namespace escapement::bench {

RawPostgres::RawPostgres(pg_conn* connection) : connection_(connection, &PQfinish) {}

absl::StatusOr<std::unique_ptr<RawPostgres>> RawPostgres::Open(const std::string& url) {
  std::unique_ptr<RawPostgres> raw(new RawPostgres(PQconnectdb(url.c_str())));
  PGconn* const connection = raw->connection_.get();
  for (const char* sql : {"CREATE TABLE raw (seq bigint PRIMARY KEY, data bytea NOT NULL)",
                          "ALTER TABLE raw ALTER COLUMN data SET STORAGE EXTERNAL"}) {
    PGresult* const result = PQexec(connection, sql);
    const bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    if (!done) return absl::UnavailableError(PQerrorMessage(connection));
  }
  PQclear(PQprepare(connection, "insert", "INSERT INTO raw VALUES ($1::bigint, $2::bytea)", 0,
                    nullptr));
  PQenterPipelineMode(connection);
  return raw;
}

absl::Status RawPostgres::Send(const std::string& data) {
  std::string seq;
  AppendBigEndian<uint64_t>(&seq, ++last_seq_);
  const char* const values[] = {seq.data(), data.data()};
  const int lengths[] = {static_cast<int>(seq.size()), static_cast<int>(data.size())};
  const int formats[] = {1, 1};
  if (PQsendQueryPrepared(connection_.get(), "insert", 2, values, lengths, formats, 1) == 1 &&
      PQpipelineSync(connection_.get()) == 1)
    return absl::OkStatus();
  return absl::UnavailableError(PQerrorMessage(connection_.get()));
}

absl::Status RawPostgres::Take() {
  while (true) {
    PGresult* const result = PQgetResult(connection_.get());
    const ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status == PGRES_PIPELINE_SYNC) return absl::OkStatus();
    if (result != nullptr && status != PGRES_COMMAND_OK)
      return absl::UnavailableError(PQerrorMessage(connection_.get()));
  }
}

absl::StatusOr<double> RawPostgres::InsertRate(uint64_t inserts, size_t bytes, uint64_t in_flight) {
  const std::string data(bytes, 'x');
  const absl::Time begin = absl::Now();
  uint64_t sent = 0;
  for (uint64_t taken = 0; taken < inserts; ++taken) {
    for (; sent < inserts && sent < taken + in_flight; ++sent) RETURN_IF_ERROR(Send(data));
    RETURN_IF_ERROR(Take());
  }
  return static_cast<double>(inserts) / absl::ToDoubleSeconds(absl::Now() - begin);
}

absl::StatusOr<fixtures::LatencyHistogram> RawPostgres::InsertLatencies(uint64_t inserts,
                                                                        size_t bytes) {
  const std::string data(bytes, 'x');
  fixtures::LatencyHistogram latencies;
  for (uint64_t i = 0; i < inserts; ++i) {
    const absl::Time begin = absl::Now();
    RETURN_IF_ERROR(Send(data));
    RETURN_IF_ERROR(Take());
    latencies.Add(absl::ToInt64Microseconds(absl::Now() - begin));
  }
  return latencies;
}

}  // namespace escapement::bench
