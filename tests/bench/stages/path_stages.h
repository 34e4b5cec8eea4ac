// The stages of the whole path, each measured through the public doors: real processes, RocksDB, a
// receiver.
//
// Threads: the main thread only.

#ifndef TESTS_BENCH_STAGES_PATH_STAGES_H_
#define TESTS_BENCH_STAGES_PATH_STAGES_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "escapement/v1/resources.pb.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/figures/figures.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/fixtures/latency_histogram.h"

namespace escapement::bench {

// Lateness of receipts, in microseconds after the due times.
struct Lateness {
  double p50 = 0;
  double p99 = 0;
  double p999 = 0;
  double max = 0;
  double last = 0;  // last receipt less last due time
  uint64_t early = 0;
  // Lateness of a thread of this process that slept until 1,000 instants a second during the load.
  fixtures::LatencyHistogram timer;
  MachineLimits machine;  // limits of the platform's disk and the processors at that time
};

struct RunResult {
  double trigger_seconds = 0;  // until the trigger was answered: its rows are durable
  double per_second = 0;       // from the first arrival until the last Done record is durable
};

// kReplaced: client-chosen ids, each of an event that waits and is replaced (UPSERT).
enum class Ids { kServerMade, kClientChosen, kReplaced };

class PathStages {
 public:
  struct Options {
    size_t payload_bytes = 500;
    // How long after its ingest the events of OneOffRate fall due.
    absl::Duration lead = absl::Seconds(2);
    // Called when the measured part of a rate begins and ends, unless null. A delivery begins
    // kBeforeDue before its events are due, or with its trigger.
    std::function<void()> begin = nullptr;
    std::function<void()> end = nullptr;
  };
  // Then handlers begin to load events, and emitters to emit those of schedules.
  static constexpr absl::Duration kBeforeDue = absl::Seconds(11);

  // `bed`, which runs, and `receiver` outlive it.
  PathStages(const Options& options, PlatformBed* bed, ReceiverProcess* receiver);

  // One-off events per second that were acknowledged as durable. None falls due during the
  // measurement.
  absl::StatusOr<double> IngestRate(uint64_t events, Ids ids = Ids::kServerMade);
  // All one-off events fall due at one instant. Returns events per second, from the first arrival
  // until the last Done record is durable.
  absl::StatusOr<double> OneOffRate(const v1::Target& target, uint64_t events);
  // As many schedules fire once, all at one instant. Returns events per second, as OneOffRate.
  absl::StatusOr<double> OccurrencesRate(const v1::Target& target, uint64_t schedules);
  // One run of a schedule with this many events. The bed must not be secured.
  absl::StatusOr<RunResult> RunRate(const v1::Target& target, uint64_t events);
  // Lateness of one-off events that are due at evenly spread instants.
  absl::StatusOr<Lateness> LatenessAt(const v1::Target& target, double per_second, uint64_t events);

 private:
  struct Stored {
    absl::Time begin;         // when the first event is due
    double ended_before = 0;  // events that the handlers had ended before any of these was due
  };
  // Stores one-off events at a distance of `step`; the first is due `lead` after they are stored.
  // Tries again if the machine took longer than expected.
  absl::StatusOr<Stored> StoreBeforeDue(const v1::Target& target, uint64_t events,
                                        absl::Duration step, absl::Duration lead);
  // Stores schedules that fire at this minute (UTC), and once a year.
  absl::Status CreateSchedules(const v1::Target& target, uint64_t schedules, absl::CivilMinute due);
  // Calls Options::begin before the events fall due at `due`.
  void BeginBefore(absl::Time due) const;
  // Waits until this many distinct events have arrived.
  absl::StatusOr<ReceiverCounts> AwaitArrivals(uint64_t events);
  // Waits until the handlers have durably ended this many events in all.
  absl::Status AwaitEnded(double ended, uint64_t events);
  absl::StatusOr<double> Ended() const;
  // Events per second from the first arrival until now. Call it when the last end is durable.
  absl::StatusOr<double> RateOfAll(double ended_before, uint64_t events);

  const Options options_;
  PlatformBed* const bed_;
  ReceiverProcess* const receiver_;
  uint64_t made_ = 0;           // number of schedules and client ids made
  absl::Duration ingest_time_;  // planned time for one event; follows the measured time
};

// Adds each percentile of `late` in milliseconds, beside the timer's and the disk's at the same
// time. p99 has the bound. No event may be early.
void AddLateness(const std::string& name, const Lateness& late, const Bound& p99, Figures& figures);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_STAGES_PATH_STAGES_H_
