#include "services/master/schedules/changes/launch_reader.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "common/base/micros.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/range_reader.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

class Reading : public std::enable_shared_from_this<Reading> {
 public:
  using Launches = absl::AnyInvocable<void(absl::StatusOr<std::vector<WaitingLaunch>>)>;
  Reading(MasterContext& context, const Uid& uid, absl::Time end, Launches done)
      : context_(context), uid_(uid), done_(std::move(done)) {
    LaunchKey last;
    last.partition = PartitionOf(uid, context.layout.partitions);
    last.launch_time = end;
    range_ = {ColumnFamily::kCheckpoints, LaunchPrefix(last.partition), EncodeLaunchKey(last)};
  }

  void Read() {
    ReadRanges(
        context_, {range_}, kLaunchRowsMax,
        [self = shared_from_this()](const KeyRange&, kv::Entry& entry) { return self->Add(entry); },
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          self->ReadRuns();
        });
  }

 private:
  absl::StatusOr<bool> Add(kv::Entry& entry) {
    auto key = DecodeLaunchKey(entry.key);
    if (!key.has_value() || key->uid != uid_) return true;
    WaitingLaunch& launch = launches_.emplace_back();
    launch.key = *std::move(key);
    launch.bytes = std::move(entry.value);
    if (!launch.record.ParseFromString(launch.bytes)) return BrokenRecord("a launch record");
    return true;
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
  Launches done_;
  KeyRange range_;
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
      ->Read();
}

}  // namespace escapement::master
