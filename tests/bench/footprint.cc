// The cost of pending one-off events: disk, memory, and their effect on the cost of other events.
//
//   tools/dev bench footprint [--pending=1000,100000,1000000,10000000] [--loaded_shards=64]
//                             [--modes=standalone,separate] [and the flags of bench_run.h]
//
// Stages: pending (disk, memory, cost), loaded. For each number a platform of its own gets this
// many events. They are due in scattered order over the next 30 days. Each has 500 B of payload,
// the first half random. All platforms then run side by side, and take turns to deliver events that
// are due now. Their cost is the processor time of all processes for each event, from the ingest
// until compaction is over.

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "tests/bench/beds/delivery_peers.h"
#include "tests/bench/figures/bench_run.h"
#include "tests/bench/stages/footprint_stages.h"

ABSL_FLAG(std::vector<std::string>, pending,
          (std::vector<std::string>{"1000", "100000", "1000000", "10000000"}),
          "numbers of pending events, ascending");
ABSL_FLAG(std::vector<std::string>, modes, (std::vector<std::string>{"standalone", "separate"}),
          "one process and five, one after the other");
ABSL_FLAG(uint64_t, cost_events, 200'000, "delivered for each measurement of what one costs");
ABSL_FLAG(uint32_t, loaded_shards, 64,
          "queue shards of the platform in which events are loaded, 3,000 in each");

namespace escapement::bench {
namespace {

constexpr double kMiB = 1 << 20;
// With fewer events, the store's own files would be most of the disk.
constexpr uint64_t kDiskEventsMin = 100'000;
constexpr size_t kPayloadBytes = 500;

class FootprintBench {
 public:
  FootprintBench(const BenchSetting& setting, ReceiverProcess* receiver, Figures* figures)
      : setting_(setting),
        receiver_(receiver),
        figures_(*figures),
        cost_events_(absl::GetFlag(FLAGS_cost_events) / scale()) {}

  absl::Status MeasurePending() {
    for (const std::string& text : absl::GetFlag(FLAGS_pending)) {
      Pending pending;
      if (!absl::SimpleAtoi(text, &pending.events) || pending.events == 0)
        return absl::InvalidArgumentError(absl::StrCat("--pending: ", text));
      // Quick runs leave larger numbers out.
      if (setting_.quick && pending.events > kDiskEventsMin) continue;
      pending.folder = absl::StrCat(setting_.folder, "/", text);
      pending.name = absl::StrCat(pending.events, " pending: ");
      RETURN_IF_ERROR(Store(pending));
      all_.push_back(pending);
    }
    for (const std::string& mode : absl::GetFlag(FLAGS_modes)) {
      RETURN_IF_ERROR(MeasureMode(mode == "separate"));
    }
    for (const Pending& pending : all_) {
      if (pending.events < kDiskEventsMin) continue;
      RETURN_IF_ERROR(MeasureDisk(pending));
    }
    return absl::OkStatus();
  }

  absl::Status MeasureLoaded() {
    const uint32_t shards = std::max<uint32_t>(1, absl::GetFlag(FLAGS_loaded_shards) / scale());
    for (const size_t payload : {size_t{0}, kPayloadBytes}) {
      if (setting_.quick && payload == 0) continue;
      ASSIGN_OR_RETURN(
          const auto loaded,
          LoadEvents({.bin = setting_.bin, .folder = absl::StrCat(setting_.folder, "/l", payload)},
                     *receiver_, shards, payload));
      figures_.Add(absl::StrCat("a loaded event of ", payload, " B payload: resident in handler"),
                   "B", loaded.bytes_per_event, {.at_most = 200 + static_cast<double>(payload)});
      figures_.Add(absl::StrCat("loaded events of ", payload, " B payload"), "",
                   static_cast<double>(loaded.events));
    }
    return absl::OkStatus();
  }

 private:
  struct Pending {
    uint64_t events = 0;
    std::string folder;
    std::string name;
  };

  uint64_t scale() const { return setting_.quick ? 10 : 1; }

  absl::Status Store(const Pending& pending) {
    PlatformBed bed({.bin = setting_.bin, .folder = pending.folder});
    RETURN_IF_ERROR(bed.Start());
    ASSIGN_OR_RETURN(const auto took, StorePending(bed, *receiver_, pending.events, kPayloadBytes));
    figures_.Add(pending.name + "ingest", "/s",
                 static_cast<double>(pending.events) / absl::ToDoubleSeconds(took));
    figures_.Add(pending.name + "resident after it, standalone", "MiB",
                 static_cast<double>(bed.ResidentBytes()) / kMiB);
    bed.AwaitIdle(kIdleShare, kIdleMax).IgnoreError();
    return bed.Stop();
  }

  absl::Status MeasureMode(bool separate) {
    std::vector<std::unique_ptr<PlatformBed>> beds;
    for (const Pending& pending : all_) {
      beds.push_back(std::make_unique<PlatformBed>(PlatformBed::Options{
          .bin = setting_.bin, .folder = pending.folder, .separate = separate}));
      RETURN_IF_ERROR(beds.back()->Start());
    }
    for (const auto& bed : beds) bed->AwaitIdle(kIdleShare, kIdleMax).IgnoreError();
    AddMemory(beds, "resident after a restart, ");
    // The first events of a new platform cost more than later ones.
    for (const auto& bed : beds) {
      if (const auto warm = CostOfEvent(*bed, *receiver_, cost_events_ / 4, kPayloadBytes);
          !warm.ok()) {
        return warm.status();
      }
    }
    for (int i = 0; i < setting_.repetitions; ++i) {
      RETURN_IF_ERROR(MeasureCosts(beds));
    }
    AddMemory(beds, "resident after the work, ");
    for (const auto& bed : beds) {
      RETURN_IF_ERROR(bed->Stop());
    }
    return absl::OkStatus();
  }

  absl::Status MeasureCosts(const std::vector<std::unique_ptr<PlatformBed>>& beds) {
    double first = 0;
    for (size_t i = 0; i < beds.size(); ++i) {
      const std::string row = absl::StrCat(all_[i].name, "an event costs, ", beds[i]->mode());
      ASSIGN_OR_RETURN(const auto seconds,
                       CostOfEvent(*beds[i], *receiver_, cost_events_, kPayloadBytes));
      figures_.Add(row, "CPU us", seconds * 1e6);
      if (i == 0) {
        first = seconds;
      } else {
        figures_.Add(absl::StrCat(row, ", of what it costs with ", all_[0].events), "x",
                     seconds / first, {.at_most = 1.5});
      }
    }
    return absl::OkStatus();
  }

  void AddMemory(const std::vector<std::unique_ptr<PlatformBed>>& beds, const std::string& when) {
    for (size_t i = 0; i < beds.size(); ++i) {
      const std::string name = absl::StrCat(all_[i].name, when);
      const auto add = [&](const std::string& of, uint64_t bytes) {
        figures_.Add(name + of, "MiB", static_cast<double>(bytes) / kMiB);
      };
      if (beds[i]->mode() == "separate") {
        // The other processes hold nothing of events.
        for (const char* process : {"store", "handler"})
          add(process, beds[i]->ResidentBytes(process));
        add("all five processes", beds[i]->ResidentBytes());
      } else {
        add("standalone", beds[i]->ResidentBytes());
      }
    }
  }

  absl::Status MeasureDisk(const Pending& pending) {
    ASSIGN_OR_RETURN(const auto disk, DiskOf(pending.folder, pending.events, kPayloadBytes));
    const std::string name = absl::StrCat(pending.name, "disk, B each: ");
    figures_.Add(name + "whole folder as it was left", "B", disk.as_left);
    figures_.Add(name + "table of events, compacted", "B", disk.events, {.at_most = 400});
    figures_.AddRaw(name + "table of events, compacted", "B",
                    "16 B of key and the payload alone in RocksDB", disk.bare);
    // The Done records of the delivered events, and the last log.
    figures_.Add(name + "all the rest, compacted", "B", disk.rest);
    return absl::OkStatus();
  }

  const BenchSetting& setting_;
  ReceiverProcess* const receiver_;
  Figures& figures_;
  const uint64_t cost_events_;
  std::vector<Pending> all_;
};

absl::Status Run(const BenchSetting& setting, Figures& figures) {
  ASSIGN_OR_RETURN(auto receiver, ReceiverProcess::Start(setting.bin));
  FootprintBench bench(setting, receiver.get(), &figures);
  setting.Measure("pending", figures, [&] { return bench.MeasurePending(); });
  setting.Measure("loaded", figures, [&] { return bench.MeasureLoaded(); });
  return absl::OkStatus();
}

}  // namespace
}  // namespace escapement::bench

int main(int argc, char** argv) {
  return escapement::bench::RunBench(
      argc, argv,
      {.name = "footprint",
       .usage = "disk, memory and processor time that pending events cost",
       .repetitions = 3,
       .run = escapement::bench::Run});
}
