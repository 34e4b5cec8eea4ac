#include "tests/bench/footprint_stages.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/bench/compacted_store.h"
#include "tests/bench/ingest_client.h"
#include "tests/bench/path_stages.h"
#include "tests/bench/process_stats.h"
#include "tests/integration/api_client.h"

namespace escapement::bench {
namespace {

constexpr uint64_t kBareRowsMax = 1'000'000;
constexpr uint64_t kLoadedPerShard = 3000;  // below the bound of a lane
// Longer than the handler's horizon, so that nothing is loaded while it is ingested.
constexpr absl::Duration kBeyondHorizon = absl::Seconds(15);
constexpr char kRowsInMemory[] = "escapement_handler_rows_in_memory";

absl::Duration Scattered(uint64_t i) {
  constexpr uint64_t kMicros = uint64_t{30} * 24 * 3600 * 1'000'000;
  return absl::Microseconds(static_cast<int64_t>(i * 0x9e3779b97f4a7c15 % kMicros));
}

// Waits until they are loaded; how many are.
absl::StatusOr<uint64_t> AwaitLoaded(const PlatformBed& bed, uint64_t events, absl::Time due) {
  while (true) {
    const auto rows = bed.Metric("handler", kRowsInMemory);
    if (!rows.ok()) return rows.status();
    if (*rows >= static_cast<double>(events)) return static_cast<uint64_t>(*rows);
    if (absl::Now() > due - absl::Seconds(1)) {
      return absl::DeadlineExceededError(
          absl::StrCat(*rows, " of ", events, " events were loaded before they were due"));
    }
    absl::SleepFor(absl::Milliseconds(50));
  }
}

}  // namespace

absl::StatusOr<absl::Duration> StorePending(const PlatformBed& bed, const ReceiverProcess& receiver,
                                            uint64_t events, size_t payload_bytes) {
  const absl::Time begin = absl::Now() + absl::Hours(24);
  return Ingest({.master = bed.front("master"),
                 .target = integration::GrpcTo(receiver.grpc_target()),
                 .events = events,
                 .payload_bytes = payload_bytes,
                 .half_random = true,
                 .due_time = [begin](uint64_t i) { return begin + Scattered(i); }});
}

absl::StatusOr<double> CostOfEvent(PlatformBed& bed, ReceiverProcess& receiver, uint64_t events,
                                   size_t payload_bytes) {
  PathStages stages({.payload_bytes = payload_bytes}, &bed, &receiver);
  const double before = bed.CpuSeconds();
  const auto rate = stages.OneOffRate(integration::GrpcTo(receiver.grpc_target()), events);
  if (!rate.ok()) return rate.status();
  if (auto status = bed.AwaitIdle(kIdleShare, kIdleMax); !status.ok()) return status;
  return (bed.CpuSeconds() - before) / static_cast<double>(events);
}

absl::StatusOr<Disk> DiskOf(const std::string& platform_folder, uint64_t events,
                            size_t payload_bytes) {
  const std::string data = platform_folder + "/data";
  const auto n = static_cast<double>(events);
  Disk disk;
  disk.as_left = static_cast<double>(FolderBytes(data)) / n;
  const auto sizes = CompactStore(data);
  if (!sizes.ok()) return sizes.status();
  const auto found = sizes->find("events");
  if (found == sizes->end()) return absl::NotFoundError("the store has no family of events");
  disk.events = static_cast<double>(found->second) / n;
  disk.rest = static_cast<double>(FolderBytes(data)) / n - disk.events;
  const std::string folder = platform_folder + "/bare";
  const auto bare = BareBytesPerRow(data, folder, std::min(events, kBareRowsMax), [=](uint64_t i) {
    return HalfRandomPayload(payload_bytes, i);
  });
  if (!bare.ok()) return bare.status();
  std::filesystem::remove_all(folder);
  disk.bare = *bare;
  return disk;
}

absl::StatusOr<Loaded> LoadEvents(PlatformBed::Options options, const ReceiverProcess& receiver,
                                  uint32_t queue_shards, size_t payload_bytes) {
  options.separate = true;
  options.extra_arguments["store"] = {absl::StrCat("--queue_shards=", queue_shards)};
  PlatformBed bed(options);
  if (auto status = bed.Start(); !status.ok()) return status;
  if (auto status = bed.AwaitIdle(0.2, absl::Minutes(1)); !status.ok()) return status;
  const uint64_t events = queue_shards * kLoadedPerShard;
  const uint64_t before = bed.ResidentBytes("handler");
  const absl::Time due =
      absl::Now() + kBeyondHorizon + absl::Microseconds(30) * static_cast<int64_t>(events);
  const auto took = Ingest({.master = bed.front("master"),
                            .target = integration::GrpcTo(receiver.grpc_target()),
                            .events = events,
                            .payload_bytes = payload_bytes,
                            .due_time = [due](uint64_t) { return due; }});
  if (!took.ok()) return took.status();
  const auto loaded = AwaitLoaded(bed, events, due);
  if (!loaded.ok()) return loaded.status();
  // What the reads left behind is given back by then; what is loaded is not touched before it is
  // due.
  absl::SleepFor(due - absl::Seconds(1) - absl::Now());
  const uint64_t after = bed.ResidentBytes("handler");
  return Loaded{.events = *loaded,
                .bytes_per_event = (static_cast<double>(after) - static_cast<double>(before)) /
                                   static_cast<double>(*loaded)};
}

}  // namespace escapement::bench
