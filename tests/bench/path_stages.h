// The stages of the whole path, each measured through the public doors: real processes, RocksDB, a
// receiver.

#ifndef TESTS_BENCH_PATH_STAGES_H_
#define TESTS_BENCH_PATH_STAGES_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "escapement/v1/resources.pb.h"
#include "tests/bench/receiver_process.h"
#include "tests/integration/platform.h"

namespace escapement::bench {

struct Lateness {
  double p50 = 0;  // microseconds
  double p99 = 0;
  double max = 0;
  uint64_t early = 0;
};

class PathStages {
 public:
  struct Options {
    std::string bin;     // holds services/{service}/{service}
    std::string folder;  // exists, empty
    bool separate = false;
    size_t payload_bytes = 500;
  };

  // `receiver` outlives it.
  PathStages(const Options& options, ReceiverProcess* receiver);

  absl::Status Start();

  // One-off events per second that were acknowledged as durable; none falls due while it is
  // measured.
  absl::StatusOr<double> IngestRate(uint64_t events);
  // One-off events that all fall due at one instant: events per second from the first arrival until
  // the last one's Done record is durable.
  absl::StatusOr<double> OneOffRate(const v1::Target& target, uint64_t events);
  // The same of one run of a schedule with so many events.
  absl::StatusOr<double> RunRate(const v1::Target& target, uint64_t events);
  // One-off events due at evenly spread instants, as they arrive.
  absl::StatusOr<Lateness> LatenessAt(const v1::Target& target, double per_second, uint64_t events);

 private:
  // Waits until so many distinct events have arrived.
  absl::StatusOr<ReceiverCounts> AwaitArrivals(uint64_t events);
  // Waits until the handler has ended so many events in all, durably.
  absl::Status AwaitEnded(double events);
  absl::StatusOr<double> Ended();
  const std::string& master() const;

  const Options options_;
  ReceiverProcess* const receiver_;
  integration::Platform platform_;
  uint64_t schedules_ = 0;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_PATH_STAGES_H_
