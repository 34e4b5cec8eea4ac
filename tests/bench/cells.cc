// How capacity grows with cells: rates of delivery and lateness of one, two and four cells, in one
// run, and what a cell costs in memory while it has no work.
//
//   tools/dev bench cells [--events=30000] [and the flags of bench_run.h]
//
// Each cell is a replicated store with its own PostgreSQL, an emitter, a token manager and a
// handler. All of these together get a quarter of a core, by a control group. The master, the
// receiver and the client are outside, and have the rest of the machine. The cells are all there
// all the time; the ones that are not measured have no work. In each repetition other cells are
// measured.
//
// It needs the right to make control groups.

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/tenant_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/bench/beds/cpu_quota.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/beds/ingest_client.h"
#include "tests/bench/beds/platform_bed.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/figures/machine.h"
#include "tests/fixtures/postgres/postgres.h"
#include "tests/integration/api_client.h"

ABSL_FLAG(uint64_t, events, 30'000, "of each cell, for each rate");

namespace escapement::bench {
namespace {

constexpr int kCells = 4;
constexpr double kCoresOfCell = 0.25;
constexpr size_t kPayloadBytes = 500;
constexpr double kLatenessPerSecond = 200;  // events of each cell
constexpr absl::Duration kPoll = absl::Milliseconds(20);
// After the ingest, the cells have their rest before the first event is due.
constexpr absl::Duration kLead = absl::Seconds(15);

std::string NameIn(int cell, const char* service) {
  return cell == 0 ? service : absl::StrCat(service, "@", cell);
}
std::string TenantOf(int cell) { return absl::StrCat("of-cell-", cell); }

class CellsBench {
 public:
  CellsBench(const BenchSetting& setting, ReceiverProcess* receiver, Figures* figures)
      : setting_(setting),
        receiver_(receiver),
        figures_(figures),
        events_(absl::GetFlag(FLAGS_events) / (setting.quick ? 5 : 1)) {}

  absl::Status Run() {
    RETURN_IF_ERROR(MeasureLoneMaster());
    RETURN_IF_ERROR(Start());
    RETURN_IF_ERROR(bed_->AwaitIdle());
    ReportMemory();
    // A new cell is slower than one that has worked for a while.
    RETURN_IF_ERROR(Rate(First(kCells, 0)).status());
    for (int i = 0; i < setting_.repetitions; ++i) {
      setting_.Measure("deliver", *figures_, [&] { return Deliver(i); });
      setting_.Measure("lateness", *figures_, [&] { return MeasureLateness(i); });
    }
    return absl::OkStatus();
  }

 private:
  absl::Status MeasureLoneMaster() {
    PlatformBed alone(
        {.bin = setting_.bin, .folder = setting_.folder + "/alone", .separate = true});
    RETURN_IF_ERROR(alone.Start());
    RETURN_IF_ERROR(alone.AwaitIdle());
    lone_master_ = alone.ResidentBytes("master");
    return alone.Stop();
  }

  absl::Status Start() {
    PlatformBed::Options options{.bin = setting_.bin,
                                 .folder = setting_.folder + "/cells",
                                 .separate = true,
                                 .cells = kCells};
    for (int cell = 0; cell < kCells; ++cell) {
      ASSIGN_OR_RETURN(auto postgres, fixtures::Postgres::Start());
      // The advertised address is not used, because there is no follower.
      options.process_arguments[NameIn(cell, "store")] = {
          absl::StrCat("--replicate_through=", postgres->url()), "--store_id=bench",
          "--advertise=127.0.0.1:1"};
      postgres_.push_back(std::move(postgres));
    }
    bed_ = std::make_unique<PlatformBed>(options);
    RETURN_IF_ERROR(bed_->Start());
    for (int cell = 0; cell < kCells; ++cell) {
      ASSIGN_OR_RETURN(auto quota,
                       CpuQuota::Make(absl::StrCat("escapement-cell", cell), kCoresOfCell));
      for (const pid_t pid : postgres_[cell]->Processes()) RETURN_IF_ERROR(quota->Add(pid));
      for (const char* service : {"store", "emitter", "token_manager", "handler"})
        RETURN_IF_ERROR(quota->Add(bed_->platform().pid(NameIn(cell, service))));
      quotas_.push_back(std::move(quota));
      RETURN_IF_ERROR(CreateTenant(cell));
    }
    return absl::OkStatus();
  }

  absl::Status CreateTenant(int cell) {
    const auto stub = v1::TenantService::NewStub(NewChannelOf({}, bed_->front("master")));
    v1::CreateTenantRequest request;
    request.set_tenant_id(TenantOf(cell));
    request.mutable_tenant()->set_cell(absl::StrCat("cells/", cell));
    grpc::ClientContext context;
    v1::Tenant tenant;
    return FromGrpcStatus(stub->CreateTenant(&context, request, &tenant));
  }

  void ReportMemory() {
    const auto add = [&](absl::string_view what, double bytes) {
      figures_->Add(absl::StrCat("memory of an idle cell: ", what), "MiB", bytes / (1 << 20));
    };
    double services = 0;
    for (const char* service : {"store", "emitter", "token_manager", "handler"})
      services += static_cast<double>(bed_->ResidentBytes(NameIn(1, service)));
    add("its services", services);
    double postgres = 0;
    for (const pid_t pid : postgres_[1]->Processes())
      postgres += static_cast<double>(ProportionalBytesOf(pid));
    add("its PostgreSQL", postgres);
    add("more in each master",
        (static_cast<double>(bed_->ResidentBytes("master")) - static_cast<double>(lone_master_)) /
            (kCells - 1));
  }

  // `count` cells, beginning with another one in each repetition.
  static std::vector<int> First(int count, int repetition) {
    std::vector<int> cells;
    for (int i = 0; i < count; ++i) cells.push_back((repetition + i) % kCells);
    return cells;
  }

  // Stores `events` for each of the cells at a distance of `step`. The first is due at the time
  // that is returned, which is after all are stored.
  absl::StatusOr<absl::Time> Store(const std::vector<int>& cells, uint64_t events,
                                   absl::Duration step) {
    // At least 3,000/s are stored by a quarter of a core.
    const absl::Time due = absl::Now() + kLead + absl::Seconds(static_cast<double>(events) / 3000);
    std::vector<absl::Status> stored(cells.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < cells.size(); ++i) {
      threads.emplace_back([&, i] {
        stored[i] =
            Ingest({.master = bed_->front("master"),
                    .parent = "tenants/" + TenantOf(cells[i]),
                    .target = integration::GrpcTo(receiver_->grpc_target()),
                    .events = events,
                    .payload_bytes = kPayloadBytes,
                    .due_time =
                        [due, step](uint64_t n) { return due + step * static_cast<int64_t>(n); }})
                .status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const absl::Status& status : stored) RETURN_IF_ERROR(status);
    if (absl::Now() > due - kLead / 2)
      return absl::DeadlineExceededError(
          "the ingest left the cells no rest before the first is due");
    return due;
  }

  absl::StatusOr<double> Ended() {
    return bed_->Metric("handler", "escapement_handler_succeeded_total");
  }

  // Waits until so many events have arrived and their ends are durable.
  absl::StatusOr<ReceiverCounts> AwaitAll(uint64_t events, double ended_before) {
    const absl::Time deadline = absl::Now() + absl::Minutes(3);
    while (true) {
      ASSIGN_OR_RETURN(const auto counts, receiver_->Counts());
      ASSIGN_OR_RETURN(const auto ended, Ended());
      if (counts.distinct >= events && ended >= ended_before + static_cast<double>(events))
        return counts;
      if (absl::Now() > deadline)
        return absl::DeadlineExceededError(absl::StrCat(counts.distinct, " of ", events));
      absl::SleepFor(kPoll);
    }
  }

  // Events per second of all these cells together, from the first arrival until the last end is
  // durable. All events are due at one instant.
  absl::StatusOr<double> Rate(const std::vector<int>& cells) {
    RETURN_IF_ERROR(receiver_->Clear());
    ASSIGN_OR_RETURN(const auto ended_before, Ended());
    RETURN_IF_ERROR(Store(cells, events_, absl::ZeroDuration()).status());
    const uint64_t all = events_ * cells.size();
    ASSIGN_OR_RETURN(const auto counts, AwaitAll(all, ended_before));
    if (counts.early > 0)
      return absl::InternalError(absl::StrCat(counts.early, " events were early"));
    const absl::Time end =
        std::max(absl::Now() - kPoll, absl::FromUnixMicros(counts.last_wall_micros));
    return static_cast<double>(all) /
           absl::ToDoubleSeconds(end - absl::FromUnixMicros(counts.first_wall_micros));
  }

  absl::Status Deliver(int repetition) {
    double one = 0;
    for (const int count : {1, 2, kCells}) {
      ASSIGN_OR_RETURN(const auto rate, Rate(First(count, repetition)));
      const std::string name =
          absl::StrCat("deliver, gRPC: ", count, count == 1 ? " cell" : " cells");
      figures_->Add(name, "/s", rate);
      if (count == 1) one = rate;
      if (count > 1) figures_->Add(name + ", of one", "x", rate / one, {.at_least = 0.9 * count});
    }
    return absl::OkStatus();
  }

  absl::Status MeasureLateness(int repetition) {
    const uint64_t events = setting_.quick ? 400 : 2000;
    double one = 0;
    for (const int count : {1, kCells}) {
      RETURN_IF_ERROR(receiver_->Clear());
      ASSIGN_OR_RETURN(const auto ended_before, Ended());
      const std::vector<int> cells = First(count, repetition);
      ASSIGN_OR_RETURN(const auto due, Store(cells, events, absl::Seconds(1 / kLatenessPerSecond)));
      // Sleeps, since questions to the working receiver would make it late.
      absl::SleepFor(due + absl::Seconds(static_cast<double>(events) / kLatenessPerSecond) -
                     absl::Now());
      ASSIGN_OR_RETURN(const auto counts, AwaitAll(events * cells.size(), ended_before));
      const std::string name = absl::StrCat("lateness p99 at ", kLatenessPerSecond,
                                            "/s of each: ", count, count == 1 ? " cell" : " cells");
      figures_->Add(name, "ms", counts.late_p99 / 1e3);
      if (counts.early > 0)
        figures_->AddFailure(name, absl::InternalError(absl::StrCat(counts.early, " were early")));
      if (count == 1) one = counts.late_p99;
      if (count > 1)
        figures_->Add(name + ", of one", "x", counts.late_p99 / one, {.at_most = 1.25});
    }
    return absl::OkStatus();
  }

  const BenchSetting& setting_;
  ReceiverProcess* const receiver_;
  Figures* const figures_;
  const uint64_t events_;
  uint64_t lone_master_ = 0;  // bytes of a master without further cells
  std::vector<std::unique_ptr<fixtures::Postgres>> postgres_;
  std::unique_ptr<PlatformBed> bed_;
  std::vector<std::unique_ptr<CpuQuota>> quotas_;
};

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(setting.bin));
  CellsBench bench(setting, receiver.get(), &figures);
  return bench.Run();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "cells",
       .usage = "rates and lateness of one, two and four cells, each with a quarter of a core",
       .repetitions = 5,
       .run = escapement::bench::Run});
}
