#include "services/master/launch_reader.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "common/base/micros.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/errors.h"
#include "services/master/limits.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

class Reading : public std::enable_shared_from_this<Reading> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<std::vector<WaitingLaunch>>)>;
  Reading(MasterContext& context, const Uid& uid, absl::Time end, Read done)
      : context_(context), uid_(uid), done_(std::move(done)) {
    const uint16_t partition = PartitionOf(uid, context.layout.partitions);
    begin_ = LaunchPrefix(partition);
    LaunchKey last;
    last.partition = partition;
    last.launch_time = end;
    end_ = EncodeLaunchKey(last);
  }

  void Scan() {
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kCheckpoints;
    scan.begin = begin_;
    scan.end = end_;
    scan.limit = 10'000;
    scan.bytes_max = 4 << 20;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           if (!page.ok()) return self->done_(StoreFailed(page.status()));
                           self->OnPage(*std::move(page));
                         });
  }

 private:
  void OnPage(kv::ScanResult page) {
    rows_read_ += page.entries.size();
    for (kv::Entry& entry : page.entries) {
      begin_ = entry.key + std::string(1, '\0');
      auto key = DecodeLaunchKey(entry.key);
      if (!key.has_value() || key->uid != uid_) continue;
      WaitingLaunch& launch = launches_.emplace_back();
      launch.key = *std::move(key);
      launch.bytes = std::move(entry.value);
      if (!launch.record.ParseFromString(launch.bytes))
        return done_(BrokenRecord("a launch record"));
    }
    if (page.more && !page.entries.empty() && rows_read_ < kLaunchRowsMax) return Scan();
    ReadRuns();
  }

  void ReadRuns() {
    if (launches_.empty()) return done_(std::move(launches_));
    std::vector<kv::Key> keys;
    for (const WaitingLaunch& launch : launches_)
      keys.push_back({ColumnFamily::kRuns, EncodeRunKey({uid_, launch.key.occurrence})});
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> runs) {
                               if (!runs.ok()) return self->done_(StoreFailed(runs.status()));
                               self->OnRuns(*runs);
                             });
  }

  void OnRuns(const kv::GetResult& runs) {
    std::vector<WaitingLaunch> waiting;
    for (size_t i = 0; i < launches_.size(); ++i) {
      if (!runs.values[i].has_value()) waiting.push_back(std::move(launches_[i]));
    }
    done_(std::move(waiting));
  }

  MasterContext& context_;
  const Uid uid_;
  Read done_;
  std::string begin_, end_;
  size_t rows_read_ = 0;
  std::vector<WaitingLaunch> launches_;
};

}  // namespace

void ReadWaitingLaunches(
    MasterContext& context, const ChangeInput& input,
    absl::AnyInvocable<void(absl::StatusOr<std::vector<WaitingLaunch>>)> done) {
  // None is further ahead than what was emitted, with its jitter.
  const absl::Time covered = FromMicros(input.snapshot.state.covered_to_micros());
  std::make_shared<Reading>(context, input.snapshot.uid, std::min(input.now, covered + kJitterMax),
                            std::move(done))
      ->Scan();
}

}  // namespace escapement::master
