#include "services/master/schedules/changes/schedule_transaction.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/runtime/perturb.h"
#include "common/storage/children_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/joint_calls.h"
#include "services/master/schedules/changes/parked_row.h"
#include "services/master/schedules/changes/schedule_warnings.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

constexpr absl::Duration kRetryDelayMin = absl::Milliseconds(5);
constexpr absl::Duration kRetryDelayMax = absl::Milliseconds(500);

class Transaction : public std::enable_shared_from_this<Transaction> {
 public:
  Transaction(MasterContext& context, std::shared_ptr<JointCalls> calls, ScheduleChange change,
              ScheduleChanged done)
      : context_(context),
        calls_(std::move(calls)),
        change_(std::move(change)),
        done_(std::move(done)),
        fresh_uid_(context_.NewUid()) {}

  // The name tells the uid; the uid tells where the rest is.
  void ReadName() {
    snapshot_ = ScheduleSnapshot();
    Get(Keys(std::nullopt), &Transaction::OnName);
  }

 private:
  using Next = void (Transaction::*)(kv::GetResult);

  void Get(std::vector<kv::Key> keys, Next next) {
    calls_->MultiGet(std::move(keys),
                     [self = shared_from_this(), next](absl::StatusOr<kv::GetResult> result) {
                       if (!result.ok()) return self->done_(StoreFailed(result.status()));
                       ((*self).*next)(*std::move(result));
                     });
  }

  // Schedule and request (always the same two first), then what belongs to the uid.
  std::vector<kv::Key> Keys(const std::optional<Uid>& uid) const {
    std::vector<kv::Key> keys = {
        {ColumnFamily::kSchedules, ScheduleKey(change_.name.tenant, change_.name.schedule)},
        change_.mark.active() ? change_.mark.key()
                              : kv::Key{ColumnFamily::kRequests, RequestKeyOfNobody()}};
    if (!uid.has_value()) return keys;
    const uint16_t partition = PartitionOf(*uid, context_.layout.partitions);
    keys.push_back({ColumnFamily::kStates, StateKey(*uid)});
    keys.push_back({ColumnFamily::kCheckpoints, PlannedToKey(partition)});
    keys.push_back({ColumnFamily::kCheckpoints, EmittedToKey(partition)});
    keys.push_back({ColumnFamily::kCheckpoints, CursorKey(partition)});
    return keys;
  }
  static std::string RequestKeyOfNobody() { return std::string(1, '\0'); }

  // True if the call has been answered.
  bool Replay(const std::optional<std::string>& row) {
    const absl::StatusOr<bool> replayed = change_.mark.Replay(row, change_.response.get());
    if (replayed.ok() && !*replayed) return false;
    if (!replayed.ok()) {
      done_(replayed.status());
    } else {
      done_(std::move(change_.response));
    }
    return true;
  }

  bool ReadRecord(const std::optional<std::string>& row) {
    snapshot_.uid = fresh_uid_;
    snapshot_.record.reset();
    if (!row.has_value()) return true;
    if (!snapshot_.record.emplace().ParseFromString(*row) ||
        snapshot_.record->uid().size() != Uid::kBytes) {
      done_(BrokenRecord(change_.name.ToString()));
      return false;
    }
    snapshot_.uid = Uid::FromBytes(snapshot_.record->uid());
    return true;
  }

  void OnName(kv::GetResult result) {
    if (Replay(result.values[1]) || !ReadRecord(result.values[0])) return;
    uid_read_ = snapshot_.uid;
    Get(Keys(uid_read_), &Transaction::OnState);
  }

  void OnState(kv::GetResult result) {
    auto& values = result.values;
    if (Replay(values[1]) || !ReadRecord(values[0])) return;
    // The schedule was deleted, or deleted and created again, between the two reads.
    if (snapshot_.uid != uid_read_ || Perturb(context_.runtime, Site::kMasterChangeReadsAgain))
      return Again();
    snapshot_.planned_to = std::move(values[3]);
    snapshot_.emitted_to = std::move(values[4]);
    snapshot_.cursor_present = values[5].has_value();
    if (!snapshot_.record.has_value()) return Decide();
    snapshot_.state_bytes = values[2].value_or(std::string());
    if (!values[2].has_value() || !snapshot_.state.ParseFromString(snapshot_.state_bytes)) {
      return done_(BrokenRecord(change_.name.ToString()));
    }
    Get({{ColumnFamily::kDefinitions, DefinitionKey(snapshot_.uid, snapshot_.state.version())}},
        &Transaction::OnDefinition);
  }

  void OnDefinition(kv::GetResult result) {
    storage::v1::DefinitionRecord record;
    if (!result.values[0].has_value() || !record.ParseFromString(*result.values[0])) {
      return done_(BrokenRecord(change_.name.ToString()));
    }
    absl::StatusOr<Definition> definition = LoadDefinition(std::move(record));
    if (!definition.ok()) return done_(definition.status());
    definition->timetable = EndingAt(definition->timetable, FinishOf(snapshot_.state));
    snapshot_.definition = *std::move(definition);
    const bool paused = snapshot_.state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED;
    if (change_.takes_parked && paused) return ReadParked();
    ReadMore();
  }

  void ReadMore() {
    if (change_.read_more == nullptr) return Decide();
    change_.read_more(
        {snapshot_, change_.name, context_.layout, context_.secrets, context_.client.NowLow()},
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          self->Decide();
        });
  }

  void ReadParked() {
    context_.client.Scan(ScanOfParked(snapshot_.uid), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> result) {
                           if (!result.ok()) return self->done_(StoreFailed(result.status()));
                           self->OnParked(*std::move(result));
                         });
  }

  void OnParked(kv::ScanResult result) {
    snapshot_.parked_more = result.more;
    size_t rows = 0;
    for (kv::Entry& entry : result.entries) {
      absl::StatusOr<ParkedRow> parked = ReadParkedRow(std::move(entry));
      if (!parked.ok()) return done_(parked.status());
      // The writes of a skip: a waiting row may stand for events of all queue shards.
      rows += SlicesOf(*parked, context_.layout).size() + 1;
      if (rows > kParkedRowsMax && !snapshot_.parked.empty()) {
        snapshot_.parked_more = true;
        break;
      }
      if (HasRun(parked->row))
        snapshot_.run_parts[RunPartKey({parked->uid, parked->occurrence}, kMasterRunPart)];
      snapshot_.parked.push_back(*std::move(parked));
    }
    if (snapshot_.run_parts.empty()) return ReadMore();
    std::vector<kv::Key> keys;
    for (const auto& [key, unread] : snapshot_.run_parts)
      keys.push_back({ColumnFamily::kRunParts, key});
    Get(std::move(keys), &Transaction::OnRunParts);
  }

  void OnRunParts(kv::GetResult result) {
    size_t i = 0;
    for (auto& [key, part] : snapshot_.run_parts) part = std::move(result.values[i++]);
    ReadMore();
  }

  void Decide() {
    const absl::Time now = context_.client.NowLow();
    absl::StatusOr<Decision> decision =
        change_.decide({snapshot_, change_.name, context_.layout, context_.secrets, now});
    if (!decision.ok()) return done_(decision.status());
    decision_ = *std::move(decision);
    decided_at_ = now;
    decides_again_ = false;
    if (decision_.policies.empty() || !snapshot_.policies.empty()) return ReadCalendar();
    decides_again_ = true;
    std::vector<kv::Key> keys;
    for (const auto& [id, field] : decision_.policies)
      keys.push_back({ColumnFamily::kPolicies, PolicyKey(change_.name.tenant, id)});
    Get(std::move(keys), &Transaction::OnPolicies);
  }

  void OnPolicies(kv::GetResult result) {
    size_t i = 0;
    for (const auto& [id, field] : decision_.policies) {
      const std::string policy = PolicyName{change_.name.tenant, id}.ToString();
      const std::optional<std::string>& bytes = result.values[i++];
      if (!bytes.has_value()) return done_(PolicyMissing(policy, field));
      if (!snapshot_.policies[id].emplace().ParseFromString(*bytes))
        return done_(BrokenRecord(policy));
    }
    ReadCalendar();
  }

  void ReadCalendar() {
    if (!decision_.calendar.empty() && !snapshot_.calendars.has_value()) {
      decides_again_ = true;
      snapshot_.calendars.emplace();
      return ReadCalendars({decision_.calendar});
    }
    decides_again_ ? Decide() : Act();
  }

  // Each level takes a read. There are no circles, and the depth is bounded.
  void ReadCalendars(std::vector<std::string> ids) {
    std::vector<kv::Key> keys;
    keys.reserve(ids.size());
    for (const std::string& id : ids)
      keys.push_back({ColumnFamily::kPolicies, CalendarKey(change_.name.tenant, id)});
    reading_calendars_ = std::move(ids);
    Get(std::move(keys), &Transaction::OnCalendars);
  }

  void OnCalendars(kv::GetResult result) {
    std::set<std::string> further;
    for (size_t i = 0; i < reading_calendars_.size(); ++i) {
      const std::string& id = reading_calendars_[i];
      const std::string calendar = CalendarName{change_.name.tenant, id}.ToString();
      std::optional<std::string>& bytes = result.values[i];
      if (!bytes.has_value()) return done_(CalendarMissing(calendar, "schedule.calendar"));
      StoredCalendar& stored = (*snapshot_.calendars)[id];
      if (!stored.record.ParseFromString(*bytes)) return done_(BrokenRecord(calendar));
      stored.bytes = *std::move(bytes);
      further.insert(stored.record.others().begin(), stored.record.others().end());
    }
    std::erase_if(further,
                  [this](const std::string& id) { return snapshot_.calendars->contains(id); });
    if (further.empty()) return Decide();
    ReadCalendars({further.begin(), further.end()});
  }

  void Act() {
    if (change_.validate_only) {
      if (decision_.response == nullptr) return done_(TooManyParked(change_.name.ToString()));
      return done_(std::move(decision_.response));
    }
    if (change_.waits_for_emitter && snapshot_.cursor_present) return Again();
    if (!decision_.partial) {
      const uint64_t version_before = snapshot_.record.has_value() ? snapshot_.state.version() : 0;
      change_.mark.AddTo(*decision_.response, decided_at_, version_before, decision_.group);
    }
    if (!Perturb(context_.runtime, Site::kMasterChangeLate)) return Commit();
    context_.executor->PostAfter(kRetryDelayMax, [self = shared_from_this()] { self->Commit(); });
  }

  void Commit() {
    calls_->Commit(std::move(decision_.group),
                   [self = shared_from_this()](const absl::StatusOr<kv::Verdict>& verdict) {
                     self->OnCommitted(verdict);
                   });
  }

  void OnCommitted(const absl::StatusOr<kv::Verdict>& verdict) {
    if (!verdict.ok()) return done_(StoreFailed(verdict.status()));
    if (!verdict->applied) return Again();
    if (decision_.partial) return ReadName();
    context_.metrics.schedule_changes.Increment();
    context_.metrics.occurrences_emitted.Increment(static_cast<double>(decision_.occurrences));
    done_(std::move(decision_.response));
  }

  void Again() {
    context_.metrics.schedule_change_conflicts.Increment();
    if (++attempts_ >= kChangeAttemptsMax) return done_(Contended(change_.name.ToString()));
    // The first tries follow at once: most races are with one step of an emitter.
    const absl::Duration delay =
        attempts_ <= 2 ? absl::ZeroDuration()
                       : std::min(kRetryDelayMin * (int64_t{1} << std::min(attempts_ - 3, 10)),
                                  kRetryDelayMax);
    context_.executor->PostAfter(delay, [self = shared_from_this()] { self->ReadName(); });
  }

  MasterContext& context_;
  const std::shared_ptr<JointCalls> calls_;
  ScheduleChange change_;
  ScheduleChanged done_;
  Uid fresh_uid_;
  Uid uid_read_;
  ScheduleSnapshot snapshot_;
  Decision decision_;
  absl::Time decided_at_;
  bool decides_again_ = false;  // true: something that the decision names was read after it
  std::vector<std::string> reading_calendars_;
  int attempts_ = 0;
};

void ChangeSchedule(MasterContext& context, std::shared_ptr<JointCalls> calls,
                    ScheduleChange change, ScheduleChanged done) {
  std::make_shared<Transaction>(context, std::move(calls), std::move(change), std::move(done))
      ->ReadName();
}

// Changes that are made together: each one that ends begins the next.
class Batch : public std::enable_shared_from_this<Batch> {
 public:
  using Changed = absl::AnyInvocable<void(std::vector<ScheduleAnswer>)>;

  Batch(MasterContext& context, std::vector<absl::StatusOr<ScheduleChange>> changes, Changed done)
      : context_(context),
        changes_(std::move(changes)),
        answers_(changes_.size()),
        done_(std::move(done)) {}

  void Start() {
    for (int part = 0; part < 2; ++part) {
      context_.executor->Post(
          [self = shared_from_this(), calls = std::make_shared<JointCalls>(context_)] {
            for (size_t i = 0; i < kJointChangesMax; ++i) self->BeginNext(calls);
          });
    }
  }

 private:
  void BeginNext(const std::shared_ptr<JointCalls>& calls) {
    while (next_ < changes_.size()) {
      const size_t i = next_++;
      if (!changes_[i].ok()) {
        End(i, changes_[i].status());
        continue;
      }
      auto ended = [self = shared_from_this(), calls, i](ScheduleAnswer answer) {
        self->End(i, std::move(answer));
        self->BeginNext(calls);
      };
      return ChangeSchedule(context_, calls, *std::move(changes_[i]), std::move(ended));
    }
  }

  void End(size_t i, ScheduleAnswer answer) {
    answers_[i] = std::move(answer);
    if (++ended_ == answers_.size()) done_(std::move(answers_));
  }

  MasterContext& context_;
  std::vector<absl::StatusOr<ScheduleChange>> changes_;  // those before next_ have begun
  std::vector<ScheduleAnswer> answers_;
  Changed done_;
  size_t next_ = 0;
  size_t ended_ = 0;
};

}  // namespace

void ChangeSchedule(MasterContext& context, ScheduleChange change, ScheduleChanged done) {
  ChangeSchedule(context, std::make_shared<JointCalls>(context), std::move(change),
                 std::move(done));
}

void ChangeSchedules(MasterContext& context, std::vector<absl::StatusOr<ScheduleChange>> changes,
                     absl::AnyInvocable<void(std::vector<ScheduleAnswer>)> done) {
  std::make_shared<Batch>(context, std::move(changes), std::move(done))->Start();
}

}  // namespace escapement::master
