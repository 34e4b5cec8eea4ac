// The stages of the footprint: many pending events, and what they take.
//
// Threads: the main thread only.

#ifndef TESTS_BENCH_STAGES_FOOTPRINT_STAGES_H_
#define TESTS_BENCH_STAGES_FOOTPRINT_STAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/beds/receiver_process.h"

namespace escapement::bench {

// What the platform does behind its work (compaction…) counts as over below this share of a core.
inline constexpr double kIdleShare = 0.05;
inline constexpr absl::Duration kIdleMax = absl::Minutes(10);

// Stores so many one-off events whose payloads are half random, due in scattered order within 30
// days, none of them today; how long it took.
absl::StatusOr<absl::Duration> StorePending(const PlatformBed& bed, const ReceiverProcess& receiver,
                                            uint64_t events, size_t payload_bytes);

// Processor seconds of all processes of the platform for each of so many events, from their ingest
// over their delivery by gRPC and their durable ends until the platform is idle again.
absl::StatusOr<double> CostOfEvent(PlatformBed& bed, ReceiverProcess& receiver, uint64_t events,
                                   size_t payload_bytes);

// Bytes for each pending event.
struct Disk {
  double as_left = 0;  // the whole folder after an orderly stop
  double events = 0;   // the table of events after compaction
  double rest = 0;     // all other tables, logs and files after compaction
  double bare = 0;     // the payload alone in RocksDB, see BareBytesPerRow
};
// Of a platform that has stopped.
absl::StatusOr<Disk> DiskOf(const std::string& platform_folder, uint64_t events,
                            size_t payload_bytes);

struct Loaded {
  uint64_t events = 0;
  double bytes_per_event = 0;  // by which the handler's resident memory has grown
};
// Five processes with so many queue shards; 3,000 events for each of them come within the horizon.
absl::StatusOr<Loaded> LoadEvents(PlatformBed::Options options, const ReceiverProcess& receiver,
                                  uint32_t queue_shards, size_t payload_bytes);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_STAGES_FOOTPRINT_STAGES_H_
