// ReceiverProcess: //tests/fixtures:receiver as a process of its own, and its counters.

#ifndef TESTS_BENCH_BEDS_RECEIVER_PROCESS_H_
#define TESTS_BENCH_BEDS_RECEIVER_PROCESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/fixtures/process/child_process.h"

namespace escapement::bench {

struct ReceiverCounts {
  uint64_t received = 0;
  uint64_t distinct = 0;
  uint64_t duplicates = 0;
  uint64_t early = 0;
  int64_t first_wall_micros = 0;
  int64_t last_wall_micros = 0;
  double late_p50 = 0;  // microseconds
  double late_p99 = 0;
  double late_p999 = 0;
  double late_max = 0;
};

// The counts of a worker (tests/fixtures/work_ledger.h).
struct WorkCounts {
  uint64_t arrivals = 0;
  uint64_t distinct = 0;
  uint64_t ended = 0;
  uint64_t answered = 0;  // completions that were answered
  int64_t out_max = 0;
  double out_event_seconds = 0;
  int64_t first_wall_micros = 0;
  int64_t last_wall_micros = 0;
  uint64_t turnovers = 0;
  double turnover_p50 = 0;  // microseconds
  double turnover_p99 = 0;
};

struct ArrivalTimes {
  int64_t launch_micros = 0;
  int64_t wall_micros = 0;
};

class ReceiverProcess {
 public:
  // `bin` holds tests/fixtures/receiver.
  static absl::StatusOr<std::unique_ptr<ReceiverProcess>> Start(
      const std::string& bin, const std::vector<std::string>& arguments = {});

  std::string http_origin() const { return "http://" + http_address_; }
  const std::string& grpc_target() const { return grpc_address_; }

  absl::StatusOr<ReceiverCounts> Counts() const;
  // Only for a receiver with --worker.
  absl::StatusOr<WorkCounts> Work() const;
  // Arrivals from all sources that begin with `source`, in order.
  absl::StatusOr<std::vector<ArrivalTimes>> Arrivals(const std::string& source = "") const;
  // Lateness of the events from that source, in order of arrival: arrival less launch time, in
  // microseconds.
  absl::StatusOr<std::vector<int64_t>> Lateness(const std::string& source) const;
  absl::Status Clear() const;

 private:
  ReceiverProcess() = default;
  std::unique_ptr<integration::ChildProcess> process_;
  std::string http_address_;
  std::string grpc_address_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_RECEIVER_PROCESS_H_
