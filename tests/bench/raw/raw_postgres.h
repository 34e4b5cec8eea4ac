// Bare inserts into PostgreSQL by libpq: the raw limit of the shared log.
//
// The table has a sequence as its key and bytes that are stored as they come. Each insert is one
// synced transaction.
//
// Threads: one at a time.

#ifndef TESTS_BENCH_RAW_RAW_POSTGRES_H_
#define TESTS_BENCH_RAW_RAW_POSTGRES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "tests/fixtures/latency_histogram.h"

struct pg_conn;  // libpq's PGconn

namespace escapement::bench {

class RawPostgres {
 public:
  static absl::StatusOr<std::unique_ptr<RawPostgres>> Open(const std::string& url);

  // Inserts with `in_flight` of them unanswered; returns inserts per second.
  absl::StatusOr<double> InsertRate(uint64_t inserts, size_t bytes, uint64_t in_flight);
  // One after the other; in microseconds.
  absl::StatusOr<fixtures::LatencyHistogram> InsertLatencies(uint64_t inserts, size_t bytes);

 private:
  explicit RawPostgres(pg_conn* connection);
  absl::Status Send(const std::string& data);
  absl::Status Take();

  const std::unique_ptr<pg_conn, void (*)(pg_conn*)> connection_;
  uint64_t last_seq_ = 0;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_POSTGRES_H_
