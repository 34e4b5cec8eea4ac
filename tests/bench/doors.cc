// Both doors of a standalone process beside each other: GetSchedule, events:batchCreate and ingest,
// by gRPC and by REST; lists of few of many schedules and of many pending events; and
// schedules:batchCreate.
//
//   tools/dev bench doors [--schedules=1000000] [--pending=1000000] [and the flags of bench_run.h]

#include <cstdint>
#include <functional>
#include <string>

#include "absl/flags/flag.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/beds/stored_schedules.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/figures/figures.h"
#include "tests/bench/stages/doors_stages.h"

ABSL_FLAG(int64_t, schedules, 1'000'000, "stored");
ABSL_FLAG(uint64_t, pending, 1'000'000, "one-off events that are listed");

namespace escapement::bench {
namespace {

constexpr int kBatchEvents = 100;
constexpr int kBatchSchedules = 1000;

using Rate = std::function<absl::StatusOr<double>()>;

// Two figures, and what part of the first the second is. `turn`: the two are measured in this order
// and the other one by turns, because the store still works on the first one's events during the
// second.
absl::Status Pair(Figures& figures, const std::string& name, int turn, const Rate& grpc_rate,
                  const Rate& rest_rate, const std::string& rest_name, const Bound& rate,
                  const Bound& percent) {
  absl::StatusOr<double> grpc = absl::UnknownError("not measured");
  if (turn % 2 == 0) grpc = grpc_rate();
  const absl::StatusOr<double> rest = rest_rate();
  if (turn % 2 != 0) grpc = grpc_rate();
  if (!grpc.ok()) return grpc.status();
  if (!rest.ok()) return rest.status();
  figures.Add(absl::StrCat(name, ": gRPC"), "/s", *grpc);
  figures.Add(absl::StrCat(name, ": ", rest_name), "/s", *rest, rate);
  figures.Add(absl::StrCat(name, ": ", rest_name, " as part of gRPC"), "%", *rest / *grpc * 100,
              percent);
  return absl::OkStatus();
}

absl::Status Store(const std::string& folder, int64_t schedules) {
  ASSIGN_OR_RETURN(auto stored, StoredSchedules::Make({.folder = folder,
                                                       .schedules = schedules,
                                                       .due_per_window = 0,
                                                       .windows = 0,
                                                       .teams = schedules / 100}));
  return stored->Create().status();
}

absl::Status Lists(Figures& figures, const DoorsStages& stages, int64_t schedules) {
  for (const char* filter :
       {"name = \"s77*\"", "labels.team = t7", "labels.team = t7 AND state = ENABLED"}) {
    ASSIGN_OR_RETURN(const auto slowest, stages.ListByRest(filter));
    figures.Add(absl::StrCat("10 of ", schedules, " schedules, ", filter, ": slowest of 20"), "ms",
                slowest, {.at_most = 100});
  }
  return absl::OkStatus();
}

absl::Status EventLists(Figures& figures, const DoorsStages& stages, uint64_t events) {
  struct List {
    const char* filter;
    const char* order_by;
  };
  for (const List& list : {List{"", "due_time"}, List{"", "due_time desc"},
                           List{"due_time > \"2090-01-20T00:00:00Z\"", "due_time"},
                           List{"target = grpc AND state = PENDING", "due_time"}}) {
    ASSIGN_OR_RETURN(const auto slowest, stages.ListEventsByRest(list.filter, list.order_by));
    figures.Add(absl::StrCat("10 of ", events, " pending events by ", list.order_by,
                             *list.filter == '\0' ? "" : ", ", list.filter, ": slowest of 20"),
                "ms", slowest, {.at_most = 100});
  }
  return absl::OkStatus();
}

absl::Status Schedules(Figures& figures, const DoorsStages& stages, absl::Duration time) {
  ASSIGN_OR_RETURN(const auto rate,
                   stages.SchedulesByGrpc({.outstanding = 4, .time = time}, kBatchSchedules));
  figures.Add(absl::StrCat("schedules, batchCreate of ", kBatchSchedules, ": gRPC"), "/s", rate,
              {.at_least = 10'000});
  return absl::OkStatus();
}

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  const uint64_t pending = setting.quick ? 10'000 : absl::GetFlag(FLAGS_pending);
  const int64_t schedules = setting.quick ? 10'000 : absl::GetFlag(FLAGS_schedules);
  PlatformBed bed({.bin = setting.bin, .folder = setting.folder + "/doors"});
  RETURN_IF_ERROR(Store(bed.data_folder(), schedules));
  RETURN_IF_ERROR(bed.Start());
  DoorsStages stages(bed.platform().grpc_address("standalone"),
                     bed.platform().http_address("standalone"));
  RETURN_IF_ERROR(stages.Prepare());
  RETURN_IF_ERROR(stages.PrepareEvents(pending));
  const DoorsLoad load{.time = setting.quick ? absl::Seconds(1) : absl::Seconds(5)};
  const DoorsLoad batches{.outstanding = 16, .time = load.time};
  const uint64_t events = setting.quick ? 100'000 : 500'000;
  for (int i = 0; i < setting.repetitions; ++i) {
    setting.Measure("GetSchedule", figures, [&] {
      return Pair(
          figures, "GetSchedule", i, [&] { return stages.GetByGrpc(load); },
          [&] { return stages.GetByRest(load); }, "REST", {}, {.at_least = 60});
    });
    setting.Measure("batchCreate", figures, [&] {
      return Pair(
          figures, absl::StrCat("batchCreate of ", kBatchEvents, ", events"), i,
          [&] { return stages.BatchByGrpc(batches, kBatchEvents); },
          [&] { return stages.BatchByRest(batches, kBatchEvents); }, "REST", {}, {.at_least = 60});
    });
    setting.Measure("lists", figures, [&] { return Lists(figures, stages, schedules); });
    setting.Measure("event lists", figures, [&] { return EventLists(figures, stages, pending); });
    setting.Measure("ingest", figures, [&] {
      return Pair(
          figures, "ingest, events", i, [&] { return stages.IngestByGrpc(events); },
          [&] { return stages.IngestByNdjson(events); }, "NDJSON", {.at_least = 60'000}, {});
    });
    setting.Measure("schedules", figures, [&] { return Schedules(figures, stages, load.time); });
  }
  return bed.Stop();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(argc, argv,
                                     {.name = "doors",
                                      .usage = "compares gRPC and REST on this machine",
                                      .repetitions = 3,
                                      .run = escapement::bench::Run});
}
