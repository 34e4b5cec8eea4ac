#include "services/master/runs/run_cancel.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/key_codec.h"
#include "common/base/micros.h"
#include "common/kv/kv_store.h"
#include "common/records/currency.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/runs/run_codec.h"
#include "services/master/runs/run_reader.h"
#include "services/master/schedules/changes/decision.h"
#include "services/master/schedules/changes/parked_ends.h"
#include "services/master/schedules/changes/parked_row.h"
#include "services/master/schedules/changes/schedule_transaction.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using ConditionKind = kv::Condition::Kind;
using storage::v1::CancelledRunRecord;

// A run whose record is gone so long after its cancellation has ended and been forgotten. Earlier,
// its only event may just have been on its way from one place to another.
constexpr absl::Duration kForgottenAfter = absl::Hours(24);

// The run's rows in the store, without those of the schedule.
struct RunToCancel {
  v1::Run shown;
  std::vector<CancelledRunRecord> others;  // cancelled runs of the schedule that have not ended
  std::vector<ParkedRow> parked;           // rows of the run; read once it is cancelled
  StoredRunParts parts;                    // the run's parts, if any of its rows is parked
};

bool Ended(const StoredRun& run) {
  if (run.record.has_value()) return run.record->complete_time_micros() != 0;
  return run.single.done.has_value();
}

// One try: reads, of a schedule as it is in `input`, what the decision needs.
class CancelRead : public std::enable_shared_from_this<CancelRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::Status)>;
  CancelRead(MasterContext& context, const RunName& name, const ChangeInput& input,
             std::shared_ptr<RunToCancel> found, Read done)
      : context_(context),
        name_(name),
        uid_(input.snapshot.uid),
        now_(input.now),
        layout_(input.layout),
        found_(std::move(found)),
        done_(std::move(done)) {
    const storage::v1::StateRecord& state = input.snapshot.state;
    for (const CancelledRunRecord& run : state.cancelled_runs()) {
      if (run.occurrence() != name_.occurrence) others_.push_back(run);
    }
    reads_parked_ = state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED &&
                    CancelledByUser(name_.occurrence, state);
  }

  void Start() {
    *found_ = RunToCancel();
    ReadRun(context_, name_, [self = shared_from_this()](absl::StatusOr<StoredRun> run) {
      if (!run.ok()) return self->done_(run.status());
      self->found_->shown = run->record.has_value()
                                ? ShowRun(self->name_, *run->record, run->counts, self->now_)
                                : ShowSingleRun(self->name_, run->single);
      self->ReadOther(0);
    });
  }

 private:
  void ReadOther(size_t i) {
    if (i == others_.size()) return ReadParked(ParkedPrefix(uid_));
    ReadRun(context_, {name_.schedule, others_[i].occurrence()},
            [self = shared_from_this(), i](absl::StatusOr<StoredRun> run) {
              const CancelledRunRecord& other = self->others_[i];
              bool ended = false;
              if (run.ok()) {
                ended = Ended(*run);
              } else if (absl::IsNotFound(run.status())) {
                ended = FromMicros(other.cancel_time_micros()) + kForgottenAfter < self->now_;
              } else {
                return self->done_(run.status());
              }
              if (!ended) self->found_->others.push_back(other);
              self->ReadOther(i + 1);
            });
  }

  // Rows of all runs of the schedule are parked side by side.
  void ReadParked(std::string begin) {
    if (!reads_parked_) return done_(absl::OkStatus());
    kv::ScanRequest scan = ScanOfParked(uid_);
    scan.begin = std::move(begin);
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> rows) {
                           if (!rows.ok()) return self->done_(StoreFailed(rows.status()));
                           self->OnParked(*std::move(rows));
                         });
  }

  void OnParked(kv::ScanResult rows) {
    const std::string last = rows.entries.empty() ? std::string() : rows.entries.back().key;
    for (kv::Entry& entry : rows.entries) {
      absl::StatusOr<ParkedRow> parked = ReadParkedRow(std::move(entry));
      if (!parked.ok()) return done_(parked.status());
      if (parked->occurrence != name_.occurrence) continue;
      // The writes of its end: a waiting row may stand for events of all queue shards.
      written_ += SlicesOf(*parked, layout_).size() + 1;
      if (written_ > kParkedRowsMax && !found_->parked.empty()) return ReadPart();
      found_->parked.push_back(*std::move(parked));
    }
    if (rows.more) return ReadParked(KeyAfter(last));
    ReadPart();
  }

  void ReadPart() {
    const bool counted =
        absl::c_any_of(found_->parked, [](const ParkedRow& parked) { return HasRun(parked.row); });
    if (!counted) return done_(absl::OkStatus());
    const std::string key = RunPartKey({uid_, name_.occurrence}, kMasterRunPart);
    context_.client.MultiGet({{ColumnFamily::kRunParts, key}}, context_.executor,
                             [self = shared_from_this(), key](absl::StatusOr<kv::GetResult> part) {
                               if (!part.ok()) return self->done_(StoreFailed(part.status()));
                               self->found_->parts[key] = std::move(part->values[0]);
                               self->done_(absl::OkStatus());
                             });
  }

  MasterContext& context_;
  const RunName name_;
  const Uid uid_;
  const absl::Time now_;
  const kv::Layout layout_;
  const std::shared_ptr<RunToCancel> found_;
  Read done_;
  std::vector<CancelledRunRecord> others_;
  bool reads_parked_ = false;
  size_t written_ = 0;
};

absl::StatusOr<Decision> Decide(const ChangeInput& input, const RunName& name,
                                const RunToCancel& run) {
  if (absl::Status status = CheckCurrent(input, std::string()); !status.ok()) return status;
  const ScheduleSnapshot& snapshot = input.snapshot;
  Decision decision;
  decision.response = std::make_unique<v1::Run>(run.shown);
  kv::Group& group = decision.group;
  group.conditions.push_back({.cf = ColumnFamily::kStates,
                              .key = StateKey(snapshot.uid),
                              .kind = ConditionKind::kValueEquals,
                              .value = snapshot.state_bytes});
  if (run.shown.state() == v1::Run::CANCELLED) return decision;
  if (run.shown.state() != v1::Run::ACTIVE) return RunEnded(name.ToString());

  if (!CancelledByUser(name.occurrence, snapshot.state)) {
    if (run.others.size() >= static_cast<size_t>(kCancelledRunsMax))
      return TooManyCancelled(input.name.ToString());
    storage::v1::StateRecord state = snapshot.state;
    state.clear_cancelled_runs();
    for (const CancelledRunRecord& other : run.others) *state.add_cancelled_runs() = other;
    CancelledRunRecord& added = *state.add_cancelled_runs();
    added.set_occurrence(name.occurrence);
    added.set_cancel_time_micros(ToMicros(input.now));
    group.mutations.push_back({.cf = ColumnFamily::kStates,
                               .key = StateKey(snapshot.uid),
                               .value = state.SerializeAsString()});
    // From now on none of its rows is parked; what was parked before is read again and ended.
    decision.partial = state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED;
    return decision;
  }

  ParkedEnds ends(run.parts, input.layout, input.now);
  for (const ParkedRow& parked : run.parked) {
    absl::Status status =
        ends.End(parked, storage::v1::OUTCOME_KIND_CANCELLED, kCancelledByUser, group);
    if (!status.ok()) return status;
  }
  ends.PutRunParts(group);
  decision.partial = !run.parked.empty();
  return decision;
}

}  // namespace

void CancelRunOfSchedule(MasterContext& context, RunName name, RequestMark mark, bool validate_only,
                         Done<v1::Run> done) {
  auto found = std::make_shared<RunToCancel>();
  ScheduleChange change{.name = name.schedule, .mark = std::move(mark)};
  change.read_more = [&context, name, found](const ChangeInput& input, auto read) {
    std::make_shared<CancelRead>(context, name, input, found, std::move(read))->Start();
  };
  change.decide = [name, found](const ChangeInput& input) { return Decide(input, name, *found); };
  change.response = std::make_unique<v1::Run>();
  change.waits_for_emitter = false;
  change.validate_only = validate_only;
  ChangeSchedule(context, std::move(change), As(std::move(done)));
}

}  // namespace escapement::master
