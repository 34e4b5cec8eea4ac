// The stages of the whole path, each measured through the public doors: real processes, RocksDB, a
// receiver.
//
// Threads: the main thread only.

#ifndef TESTS_BENCH_STAGES_PATH_STAGES_H_
#define TESTS_BENCH_STAGES_PATH_STAGES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/v1/resources.pb.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/beds/receiver_process.h"
#include "tests/bench/figures/figures.h"
#include "tests/bench/machine_limits.h"
#include "tests/fixtures/latency_histogram.h"

namespace escapement::bench {

// Of receipts behind the due times, in microseconds.
struct Lateness {
  double p50 = 0;
  double p99 = 0;
  double p999 = 0;
  double max = 0;
  double last = 0;  // the last receipt behind the last due time
  uint64_t early = 0;
  // Of a thread of this process that slept until 1,000 instants a second while they fell due.
  fixtures::LatencyHistogram timer;
  MachineLimits machine;  // at that time, of the platform's disk
};

struct RunResult {
  double trigger_seconds = 0;  // until the call that set it off was answered: its rows are durable
  double per_second = 0;       // from the first arrival until the last one's Done is durable
};

enum class Ids { kServerMade, kClientChosen };

class PathStages {
 public:
  struct Options {
    size_t payload_bytes = 500;
  };

  // `bed`, which runs, and `receiver` outlive it.
  PathStages(const Options& options, PlatformBed* bed, ReceiverProcess* receiver);

  // One-off events per second that were acknowledged as durable; none falls due while it is
  // measured.
  absl::StatusOr<double> IngestRate(uint64_t events, Ids ids = Ids::kServerMade);
  // One-off events that all fall due at one instant: events per second from the first arrival until
  // the last one's Done record is durable.
  absl::StatusOr<double> OneOffRate(const v1::Target& target, uint64_t events);
  // One run of a schedule with so many events.
  absl::StatusOr<RunResult> RunRate(const v1::Target& target, uint64_t events);
  // One-off events due at evenly spread instants, as they arrive.
  absl::StatusOr<Lateness> LatenessAt(const v1::Target& target, double per_second, uint64_t events);

 private:
  struct Stored {
    absl::Time begin;         // when the first is due
    double ended_before = 0;  // events that the handlers had ended when none of these was due
  };
  // Stores one-off events, each due one step after the other, `lead` before the first is due; tries
  // again if the machine took longer than it did before.
  absl::StatusOr<Stored> StoreBeforeDue(const v1::Target& target, uint64_t events,
                                        absl::Duration step, absl::Duration lead);
  // Waits until so many distinct events have arrived.
  absl::StatusOr<ReceiverCounts> AwaitArrivals(uint64_t events);
  // Waits until the handlers have ended so many events in all, durably.
  absl::Status AwaitEnded(double ended, uint64_t events);
  absl::StatusOr<double> Ended() const;
  // Events per second from the first arrival until now, when the last end is known to be durable.
  absl::StatusOr<double> RateOfAll(double ended_before, uint64_t events);

  const Options options_;
  PlatformBed* const bed_;
  ReceiverProcess* const receiver_;
  uint64_t made_ = 0;           // schedules and ids of clients
  absl::Duration ingest_time_;  // that one event may take; follows what it took
};

// Each percentile of `late` in milliseconds beside the timer's of the same time, and what the disk
// did; p99 has the bound. Early ones are to be none.
void AddLateness(const std::string& name, const Lateness& late, const Bound& p99, Figures& figures);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_STAGES_PATH_STAGES_H_
