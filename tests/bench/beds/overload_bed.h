// OverloadBed: a platform and consumers as real processes, with the building blocks of the overload
// stages: bursts, steady traffic, floods, an outage, memory.
//
// Threads: none of its own; the main thread only (it starts processes).

#ifndef TESTS_BENCH_BEDS_OVERLOAD_BED_H_
#define TESTS_BENCH_BEDS_OVERLOAD_BED_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/v1/resources.pb.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/fixtures/policy_client.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::bench {

// Resident bytes by service.
using Resident = std::map<std::string, uint64_t>;

// One-off events to a consumer of their own, due at evenly spread instants.
struct SteadyTraffic {
  std::unique_ptr<ReceiverProcess> receiver;
  absl::Time begin;
  double per_second = 0;
  uint64_t events = 0;
  absl::Time end() const { return begin + absl::Seconds(static_cast<double>(events) / per_second); }
};

// Lateness of the events due in an interval, in milliseconds.
struct LatenessOf {
  uint64_t events = 0;
  double p50 = 0;
  double p99 = 0;
  double max = 0;
};

class OverloadBed {
 public:
  struct Options {
    std::string bin;     // holds services/… and tests/fixtures/receiver
    std::string folder;  // exists, empty
    size_t payload_bytes = 500;
  };

  explicit OverloadBed(const Options& options);

  // Starts store, master, emitter, token manager and handler.
  absl::Status Start();

  // `behaviour`: how its gRPC side answers, in the words of tests/fixtures/behaviour.h.
  absl::StatusOr<std::unique_ptr<ReceiverProcess>> StartReceiver(
      const std::string& behaviour = "") const;

  // Returns once the events are durable. The i-th event is due at due_time(i).
  absl::Status Ingest(const std::string& target, uint64_t events,
                      const std::function<absl::Time(uint64_t i)>& due_time) const;
  // `begin` must leave enough time to store all events before it; see `StoreTime`.
  absl::StatusOr<SteadyTraffic> StoreSteady(absl::Time begin, double per_second,
                                            absl::Duration length) const;
  // The time by which this many events will surely have been ingested.
  static absl::Time StoreTime(uint64_t events);

  // Makes a schedule that fires only when triggered. Returns its id.
  absl::StatusOr<std::string> CreateBatch(const std::string& target, uint64_t events,
                                          const std::string& policy = "");
  // Returns its name.
  absl::StatusOr<std::string> CreatePolicy(int64_t concurrent);
  absl::Status Trigger(const std::string& id);
  absl::Status Create(const std::string& id, const v1::Schedule& schedule);

  // Deliveries per second from the first arrival to the last: of a plain backlog of one-off events,
  // and of one run.
  absl::StatusOr<double> BacklogRate(uint64_t events);
  absl::StatusOr<double> RunRate(uint64_t events);

  // Waits until this many distinct events have arrived at the receiver. Samples the memory while it
  // waits.
  absl::StatusOr<ReceiverCounts> AwaitArrivals(const ReceiverProcess& receiver, uint64_t events,
                                               absl::Duration timeout);
  // Waits until `time`, and samples the memory while it waits.
  void PassUntil(absl::Time time);

  // Kill sends SIGKILL. Restart returns when the services are ready.
  void Kill(const std::vector<std::string>& services);
  absl::Status Restart(const std::vector<std::string>& services);

  // Memory of handler, store and emitter.
  static Resident Memory();
  // The largest sample of each service since the last call of TakePeak.
  Resident TakePeak();

 private:
  void NotePeak();

  const Options options_;
  integration::Platform platform_;
  std::unique_ptr<integration::ApiClient> api_;
  std::unique_ptr<fixtures::PolicyClient> policies_;
  Resident peak_;
  int ids_ = 0;
};

// Lateness of the events due in [from, to) that have arrived.
LatenessOf LatenessBetween(const std::vector<ArrivalTimes>& arrivals, absl::Time from,
                           absl::Time to);
// Arrivals in [from, to].
uint64_t ArrivedBetween(const std::vector<ArrivalTimes>& arrivals, absl::Time from, absl::Time to);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_OVERLOAD_BED_H_
