// LogWriter: appends to a new PgLog as its leader, and measures.
//
// Threads: one at a time.

#ifndef TESTS_BENCH_BEDS_LOG_WRITER_H_
#define TESTS_BENCH_BEDS_LOG_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/kv/log/pg/pg_log.h"
#include "common/runtime/system_runtime.h"
#include "tests/fixtures/latency_histogram.h"

namespace escapement::bench {

class LogWriter {
 public:
  // Makes the schema and leads the log.
  static absl::StatusOr<std::unique_ptr<LogWriter>> Start(const std::string& url);

  // Appends rows, one in each append, with `in_flight` appends unanswered; returns appends per
  // second.
  absl::StatusOr<double> AppendRate(uint64_t appends, size_t bytes, uint64_t in_flight);
  // One after the other; in microseconds.
  absl::StatusOr<fixtures::LatencyHistogram> AppendLatencies(uint64_t appends, size_t bytes);
  // Reads all rows since the last call, or since the start, as a follower does; returns bytes per
  // second.
  absl::StatusOr<double> ReadRate();

 private:
  LogWriter() = default;
  absl::Status Append(uint64_t appends, uint64_t in_flight,
                      const std::shared_ptr<const std::string>& data);

  SystemRuntime runtime_;
  std::unique_ptr<kv::PgLog> log_;
  kv::LogTerm term_;
  kv::LogPosition end_;
  kv::LogPosition read_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_LOG_WRITER_H_
