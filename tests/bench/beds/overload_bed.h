// OverloadBed: a platform of real processes, consumers in processes of their own, and what the
// stages of overload are made of: bursts, steady traffic, floods, an outage, memory.
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
#include "tests/bench/beds/receiver_process.h"
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

// Of events due in an interval, in milliseconds.
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

  // Store, master, emitter, token manager, handler.
  absl::Status Start();

  // `behaviour`: of its gRPC side, in the words of tests/fixtures/behaviour.h.
  absl::StatusOr<std::unique_ptr<ReceiverProcess>> StartReceiver(
      const std::string& behaviour = "") const;

  // Returns once they are durable. The i-th is due at due_time(i).
  absl::Status Ingest(const std::string& target, uint64_t events,
                      const std::function<absl::Time(uint64_t i)>& due_time) const;
  // `begin` is early enough in the future for all of it to be stored before; see `StoreTime`.
  absl::StatusOr<SteadyTraffic> StoreSteady(absl::Time begin, double per_second,
                                            absl::Duration length) const;
  // By when so many events will have been ingested, generously.
  static absl::Time StoreTime(uint64_t events);

  // A schedule that fires when it is told to; its id.
  absl::StatusOr<std::string> CreateBatch(const std::string& target, uint64_t events,
                                          const std::string& policy = "");
  // Its name.
  absl::StatusOr<std::string> CreatePolicy(int64_t concurrent);
  absl::Status Trigger(const std::string& id);
  absl::Status Create(const std::string& id, const v1::Schedule& schedule);

  // Deliveries per second of a plain backlog of one-off events / of one run, from the first arrival
  // to the last.
  absl::StatusOr<double> BacklogRate(uint64_t events);
  absl::StatusOr<double> RunRate(uint64_t events);

  // Waits until so many distinct events have arrived there, looking at the memory meanwhile.
  absl::StatusOr<ReceiverCounts> AwaitArrivals(const ReceiverProcess& receiver, uint64_t events,
                                               absl::Duration timeout);
  // Passes the time, looking at the memory meanwhile.
  void PassUntil(absl::Time time);

  // SIGKILL; Restart waits until they are ready.
  void Kill(const std::vector<std::string>& services);
  absl::Status Restart(const std::vector<std::string>& services);

  // Of handler, store and emitter.
  static Resident Memory();
  // The most since the last call of it.
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

// Of the events due in [from, to) that have arrived.
LatenessOf LatenessBetween(const std::vector<ArrivalTimes>& arrivals, absl::Time from,
                           absl::Time to);
// Arrivals in [from, to].
uint64_t ArrivedBetween(const std::vector<ArrivalTimes>& arrivals, absl::Time from, absl::Time to);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_BEDS_OVERLOAD_BED_H_
