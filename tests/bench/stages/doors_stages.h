// The same work through both doors of a platform: gRPC and REST.
//
// Threads: the caller's, and those of the clients while a method runs.

#ifndef TESTS_BENCH_STAGES_DOORS_STAGES_H_
#define TESTS_BENCH_STAGES_DOORS_STAGES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/bench/beds/platform_bed.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace escapement::bench {

struct DoorsLoad {
  int outstanding = 64;  // calls without an answer; over HTTP so many connections
  absl::Duration time = absl::Seconds(5);
};

class DoorsStages {
 public:
  // "host:port" each. `caller` is how gRPC calls are made; the methods of REST cannot be used with
  // TLS or a key.
  DoorsStages(std::string grpc, std::string http, Caller caller = {});

  // Makes the schedule that is read.
  absl::Status Prepare();

  // The bytes of the schedule that GetByGrpc reads.
  absl::StatusOr<std::string> GetBytes() const;
  // Calls per second.
  absl::StatusOr<double> GetByGrpc(const DoorsLoad& load) const;
  absl::StatusOr<double> GetByRest(const DoorsLoad& load) const;
  // Durable events per second; batches of `events` with 100 bytes of payload each.
  absl::StatusOr<double> BatchByGrpc(const DoorsLoad& load, int events) const;
  absl::StatusOr<double> BatchByRest(const DoorsLoad& load, int events) const;
  // Durable schedules per second; batches of `schedules`, each of which fires once a day.
  absl::StatusOr<double> SchedulesByGrpc(const DoorsLoad& load, int schedules) const;
  // Creates events that are due at evenly spread instants of 30 days.
  absl::Status PrepareEvents(uint64_t events) const;
  // How long a list of 10 schedules, or of 10 events that have not ended, takes in milliseconds:
  // the slowest of 20.
  absl::StatusOr<double> ListByRest(const std::string& filter) const;
  absl::StatusOr<double> ListEventsByRest(const std::string& filter,
                                          const std::string& order_by) const;
  absl::StatusOr<double> IngestByGrpc(uint64_t events) const;
  absl::StatusOr<double> IngestByNdjson(uint64_t events) const;

 private:
  const std::string grpc_;
  const std::string http_;
  const Caller caller_;
  // One for all calls: gRPC 1.51 frees twice if a call's end destroys the last pointer.
  const std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_STAGES_DOORS_STAGES_H_
