// The stages of the footprint: many pending events, and the resources they take.
//
// Threads: the main thread only.

#ifndef TESTS_BENCH_STAGES_FOOTPRINT_STAGES_H_
#define TESTS_BENCH_STAGES_FOOTPRINT_STAGES_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/platform_bed.h"

namespace escapement::bench {

// Below this share of a core, background work of the platform (compaction…) counts as over.
inline constexpr double kIdleShare = 0.05;
inline constexpr absl::Duration kIdleMax = absl::Minutes(10);

// Stores this many one-off events whose payloads are half random, due in scattered order within 30
// days, none of them today. Returns how long it took.
absl::StatusOr<absl::Duration> StorePending(const PlatformBed& bed, const ReceiverProcess& receiver,
                                            uint64_t events, size_t payload_bytes);

// Processor seconds of all processes for each event. They are counted from the ingest, through
// delivery by gRPC and durable ends, until the platform is idle again.
absl::StatusOr<double> CostOfEvent(PlatformBed& bed, ReceiverProcess& receiver, uint64_t events,
                                   size_t payload_bytes);

// Bytes of disk for each pending event.
struct Disk {
  double as_left = 0;  // the whole folder after an orderly stop
  double events = 0;   // the table of events after compaction
  double rest = 0;     // all other tables, logs and files after compaction
  double bare = 0;     // the payload alone in RocksDB, see BareBytesPerRow
};
// Requires that the platform has stopped.
absl::StatusOr<Disk> DiskOf(const std::string& platform_folder, uint64_t events,
                            size_t payload_bytes);

struct Loaded {
  uint64_t events = 0;
  double bytes_per_event = 0;  // growth of the handler's resident memory
};
// Runs five processes with this many queue shards. For each shard, 3,000 events come within the
// horizon.
absl::StatusOr<Loaded> LoadEvents(PlatformBed::Options options, const ReceiverProcess& receiver,
                                  uint32_t queue_shards, size_t payload_bytes);

}  // namespace escapement::bench

#endif  // TESTS_BENCH_STAGES_FOOTPRINT_STAGES_H_
