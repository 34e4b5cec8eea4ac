#include "services/master/runs/run_reader.h"

#include <memory>
#include <utility>
#include <vector>

#include "common/base/key_codec.h"
#include "common/status/errors.h"
#include "common/storage/run_table.h"
#include "services/master/base/errors.h"
#include "services/master/runs/run_codec.h"
#include "services/master/schedules/schedule_reader.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

class RunRead : public std::enable_shared_from_this<RunRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<StoredRun>)>;
  RunRead(MasterContext& context, RunName name, Read done)
      : context_(context), name_(std::move(name)), done_(std::move(done)) {}

  void Start() {
    ReadScheduleOfRuns(context_, name_.schedule,
                       [self = shared_from_this()](absl::StatusOr<StoredSchedule> schedule) {
                         if (!schedule.ok()) return self->done_(schedule.status());
                         self->run_.source = SourceOf(schedule->definition.record);
                         self->ReadRecord();
                       });
  }

 private:
  RunKey Key() const { return {run_.source.uid, name_.occurrence}; }

  void ReadRecord() {
    const kv::Key key = {ColumnFamily::kRuns, EncodeRunKey(Key())};
    context_.client.MultiGet({key}, context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               self->OnRecord(std::move(result));
                             });
  }

  void OnRecord(absl::StatusOr<kv::GetResult> result) {
    if (!result.ok()) return done_(StoreFailed(result.status()));
    if (!result->values[0].has_value()) {
      FindSingleEvent(context_, run_.source, name_.occurrence,
                      [self = shared_from_this()](absl::StatusOr<SingleEvent> single) {
                        self->OnSingle(std::move(single));
                      });
      return;
    }
    if (!run_.record.emplace().ParseFromString(*result->values[0]))
      return done_(BrokenRecord("a run"));
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kRunParts;
    scan.begin = RunPartPrefix(Key());
    scan.end = PrefixEnd(scan.begin);
    scan.limit = context_.RunPartsMax();
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> parts) {
                           self->OnParts(std::move(parts));
                         });
  }

  void OnSingle(absl::StatusOr<SingleEvent> single) {
    if (!single.ok()) return done_(single.status());
    if (!single->done.has_value() && !single->row.has_value())
      return done_(NotFound(name_.ToString()));
    run_.single = *std::move(single);
    done_(std::move(run_));
  }

  void OnParts(absl::StatusOr<kv::ScanResult> parts) {
    if (!parts.ok()) return done_(StoreFailed(parts.status()));
    for (const kv::Entry& entry : parts->entries) {
      storage::v1::RunPartRecord part;
      if (!part.ParseFromString(entry.value)) return done_(BrokenRecord("a part of a run"));
      AddCounts(part, run_.counts);
    }
    done_(std::move(run_));
  }

  MasterContext& context_;
  const RunName name_;
  Read done_;
  StoredRun run_;
};

}  // namespace

void ReadRun(MasterContext& context, RunName name,
             absl::AnyInvocable<void(absl::StatusOr<StoredRun>)> done) {
  std::make_shared<RunRead>(context, std::move(name), std::move(done))->Start();
}

}  // namespace escapement::master
