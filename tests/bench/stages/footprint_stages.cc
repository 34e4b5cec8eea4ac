#include "tests/bench/stages/footprint_stages.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/ingest_client.h"
#include "tests/bench/beds/stored_schedules.h"
#include "tests/bench/figures/machine.h"
#include "tests/bench/stages/path_stages.h"
#include "tests/integration/api_client.h"

namespace escapement::bench {
namespace {

constexpr uint64_t kBareRowsMax = 1'000'000;
constexpr uint64_t kLoadedPerShard = 3000;  // less than a lane may hold
// The handler's horizon. Events are due later than that, so it loads nothing before the ingest
// ends. Memory measured before the ingest is that of an idle handler.
constexpr absl::Duration kHorizon = absl::Seconds(10);
constexpr char kRowsInMemory[] = "escapement_handler_rows_in_memory";

absl::Duration Scattered(uint64_t i) {
  constexpr uint64_t kMicros = uint64_t{30} * 24 * 3600 * 1'000'000;
  return absl::Microseconds(static_cast<int64_t>(i * 0x9e3779b97f4a7c15 % kMicros));
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
  RETURN_IF_ERROR(stages.OneOffRate(integration::GrpcTo(receiver.grpc_target()), events).status());
  RETURN_IF_ERROR(bed.AwaitIdle(kIdleShare, kIdleMax));
  return (bed.CpuSeconds() - before) / static_cast<double>(events);
}

absl::StatusOr<Disk> DiskOf(const std::string& platform_folder, uint64_t events,
                            size_t payload_bytes) {
  const std::string data = platform_folder + "/data";
  const auto n = static_cast<double>(events);
  Disk disk;
  disk.as_left = static_cast<double>(FolderBytes(data)) / n;
  ASSIGN_OR_RETURN(const auto sizes, CompactStore(data));
  const auto found = sizes.find("events");
  if (found == sizes.end()) return absl::NotFoundError("the store has no family of events");
  disk.events = static_cast<double>(found->second) / n;
  disk.rest = static_cast<double>(FolderBytes(data)) / n - disk.events;
  const std::string folder = platform_folder + "/bare";
  ASSIGN_OR_RETURN(const auto bare,
                   BareBytesPerRow(data, folder, std::min(events, kBareRowsMax), [=](uint64_t i) {
                     return HalfRandomPayload(payload_bytes, i);
                   }));
  std::filesystem::remove_all(folder);
  disk.bare = bare;
  return disk;
}

absl::StatusOr<Loaded> LoadEvents(PlatformBed::Options options, const ReceiverProcess& receiver,
                                  uint32_t queue_shards, size_t payload_bytes) {
  options.separate = true;
  options.extra_arguments["store"] = {absl::StrCat("--queue_shards=", queue_shards)};
  PlatformBed bed(options);
  RETURN_IF_ERROR(bed.Start());
  RETURN_IF_ERROR(bed.AwaitIdle(0.2, absl::Minutes(1)));
  const uint64_t events = queue_shards * kLoadedPerShard;
  const uint64_t before = bed.ResidentBytes("handler");
  const absl::Time due = absl::Now() + kHorizon + absl::Seconds(5) +
                         absl::Microseconds(60) * static_cast<int64_t>(events);
  RETURN_IF_ERROR(Ingest({.master = bed.front("master"),
                          .target = integration::GrpcTo(receiver.grpc_target()),
                          .events = events,
                          .payload_bytes = payload_bytes,
                          .due_time = [due](uint64_t) { return due; }})
                      .status());
  if (absl::Now() > due - kHorizon)
    return absl::DeadlineExceededError("some came within the horizon before all were stored");
  // By then the memory that the reads used is given back. Loaded rows are not touched before they
  // are due.
  absl::SleepFor(due - absl::Seconds(1) - absl::Now());
  ASSIGN_OR_RETURN(const auto loaded, bed.Metric("handler", kRowsInMemory));
  if (loaded < static_cast<double>(events) / 2) {
    return absl::DeadlineExceededError(
        absl::StrCat(loaded, " of ", events, " events were loaded a second before they were due"));
  }
  const uint64_t after = bed.ResidentBytes("handler");
  return Loaded{
      .events = static_cast<uint64_t>(loaded),
      .bytes_per_event = (static_cast<double>(after) - static_cast<double>(before)) / loaded};
}

}  // namespace escapement::bench
