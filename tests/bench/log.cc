// The shared log in PostgreSQL on this machine, beside bare inserts of the same bytes into the same
// server in the same run.
//
//   tools/dev bench log [and the flags of bench_run.h]
//
// Stages:
// - batches: rows of 500 kB, eight appends in flight, as a busy store commits; then a follower
// reads
//   them.
// - small: rows of 500 B, eight in flight.
// - latency: rows of 500 B, one after the other.
// - standby: batches and latency with a synchronous standby on the same disk.
//
// Server, standby and client share the machine.

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/log_writer.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/figures/figures.h"
#include "tests/bench/raw/raw_limits.h"
#include "tests/fixtures/postgres/postgres.h"

namespace escapement::bench {
namespace {

using fixtures::Postgres;

constexpr size_t kBatchBytes = 500'000;
constexpr size_t kSmallBytes = 500;
constexpr uint64_t kInFlight = 8;
constexpr double kMegabyte = 1e6;
constexpr char kRaw[] = "bare pipelined inserts";

struct Bed {
  std::unique_ptr<Postgres> server;
  std::unique_ptr<Postgres> standby;
  std::unique_ptr<LogWriter> log;
  std::unique_ptr<RawPostgres> raw;
};

absl::StatusOr<Bed> MakeBed(bool with_standby) {
  Bed bed;
  ASSIGN_OR_RETURN(auto server, Postgres::Start());
  bed.server = std::move(server);
  if (with_standby) {
    ASSIGN_OR_RETURN(auto standby, Postgres::StartStandby(*bed.server, {}));
    bed.standby = std::move(standby);
    if (auto set = bed.server->Sql("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
        !set.ok())
      return set.status();
    bed.server->One("SELECT pg_reload_conf()");
    while (bed.server->One("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") !=
           "1") {
    }
  }
  ASSIGN_OR_RETURN(auto log, LogWriter::Start(bed.server->url()));
  bed.log = std::move(log);
  ASSIGN_OR_RETURN(auto raw, RawPostgres::Open(bed.server->url()));
  bed.raw = std::move(raw);
  return bed;
}

absl::Status Rates(Bed& bed, const std::string& name, uint64_t appends, size_t bytes,
                   const Bound& share, bool log_first, Figures& figures) {
  double log_rate = 0, raw_rate = 0;
  for (const bool log_turn : {log_first, !log_first}) {
    ASSIGN_OR_RETURN(const auto rate, log_turn ? bed.log->AppendRate(appends, bytes, kInFlight)
                                               : bed.raw->InsertRate(appends, bytes, kInFlight));
    (log_turn ? log_rate : raw_rate) = rate;
  }
  figures.Add(name, "/s", log_rate);
  figures.AddRaw(name, "/s", kRaw, raw_rate);
  figures.Add(name + ": part of the bare inserts", "x", log_rate / raw_rate, share);
  figures.Add(name + ": bytes", "MB/s", log_rate * static_cast<double>(bytes) / kMegabyte);
  return absl::OkStatus();
}

absl::Status Latencies(Bed& bed, const std::string& name, uint64_t appends, bool log_first,
                       Figures& figures) {
  for (const bool log_turn : {log_first, !log_first}) {
    ASSIGN_OR_RETURN(const auto latencies, log_turn
                                               ? bed.log->AppendLatencies(appends, kSmallBytes)
                                               : bed.raw->InsertLatencies(appends, kSmallBytes));
    for (const auto& [percentile, fraction] : {std::pair{"p50", 0.5}, std::pair{"p99", 0.99}}) {
      const double millis = static_cast<double>(latencies.Percentile(fraction)) / 1000;
      const std::string figure = absl::StrCat(name, ": ", percentile);
      if (log_turn) {
        figures.Add(figure, "ms", millis);
      } else {
        figures.AddRaw(figure, "ms", "bare insert", millis);
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  const uint64_t scale = setting.quick ? 10 : 1;
  for (const bool standby : {false, true}) {
    const std::string with = standby ? "standby: " : "";
    if (!setting.Wanted(standby ? "standby" : "batches small latency")) continue;
    ASSIGN_OR_RETURN(auto bed, MakeBed(standby));
    for (int i = 0; i < setting.repetitions; ++i) {
      // They take turns to be first, since checkpoints and caches favour one of them.
      const bool log_first = i % 2 == 0;
      setting.Measure(with + "batches", figures, [&]() -> absl::Status {
        absl::Status status = Rates(bed, with + "batches of 500 kB", 400 / scale, kBatchBytes,
                                    {.at_least = 0.6}, log_first, figures);
        if (!status.ok() || standby) return status;
        ASSIGN_OR_RETURN(const auto read, bed.log->ReadRate());
        figures.Add("a follower reads batches", "MB/s", read / kMegabyte);
        return absl::OkStatus();
      });
      if (!standby) {
        setting.Measure("small", figures, [&] {
          return Rates(bed, "rows of 500 B", 4'000 / scale, kSmallBytes, {}, log_first, figures);
        });
      }
      setting.Measure(with + "latency", figures, [&] {
        return Latencies(bed, with + "one append of 500 B", 2'000 / scale, log_first, figures);
      });
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "log",
       .usage = "appends to the shared log in PostgreSQL, beside bare inserts",
       .repetitions = 5,
       .run = escapement::bench::Run});
}
