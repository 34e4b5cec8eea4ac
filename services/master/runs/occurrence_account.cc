#include "services/master/runs/occurrence_account.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/base/uid.h"
#include "common/cron/zone.h"
#include "common/kv/kv_store.h"
#include "common/status/errors.h"
#include "common/storage/children_table.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/tzdata/tzdata_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/resource_name.h"
#include "services/master/runs/expected_occurrences.h"
#include "services/master/runs/run_codec.h"
#include "services/master/runs/run_window.h"
#include "services/master/runs/single_event.h"
#include "services/master/schedules/changes/backfill_decision.h"
#include "services/master/schedules/changes/backfill_reader.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using storage::v1::DefinitionRecord;
using storage::v1::DoneRecord;
using storage::v1::RunPartRecord;
using storage::v1::RunRecord;
using storage::v1::StateRecord;

constexpr FilterField kOccurrenceFields[] = {{.name = "result"}};

// A run of several events counts as lost if it has no rows this long after its launch time.
// Younger runs are not looked for.
constexpr absl::Duration kRunMayBeMissing = absl::Seconds(60);
constexpr absl::Duration kOldOccurrence = absl::Hours(1);
constexpr absl::Duration kDay = absl::Hours(24);
// No record is made so long ahead of an occurrence.
constexpr absl::Duration kWrittenAhead = absl::Minutes(10);

constexpr absl::string_view kNotDue = "not due";
constexpr absl::string_view kPaused = "the schedule is paused";
constexpr absl::string_view kOnItsWay = "it waits, or is being sent";
constexpr absl::string_view kNotClosed = "its events have ended, and its run is being closed";
constexpr absl::string_view kTooManyRows = "not found: too many rows wait to read them all";

struct AccountedOccurrence {
  ExpectedOccurrence expected;
  std::optional<RunRecord> run;
  RunPartRecord counts;  // the sum of the run's parts
  std::optional<DoneRecord> done;
  std::optional<absl::Time> sent;  // LastFirstSent of the run, if it may be late
  bool left_out = false;           // it need not have been, or its records have been dropped
  bool searched = false;
  v1::Occurrence shown;  // its result is set once it is known

  const std::string& id() const { return expected.emitted.id; }
  absl::Time nominal() const { return expected.emitted.nominal_time; }
  absl::Time launch() const { return expected.emitted.launch_time; }
  bool open() const { return shown.result() == v1::Occurrence::RESULT_UNSPECIFIED && !left_out; }
};

struct AccountedSchedule {
  ScheduleName name;
  Uid uid;
  absl::Time create_time;
  StateRecord state;
  std::vector<DefinitionRecord> versions;  // the present one first, without payloads
  std::vector<VersionTerm> terms;
  // Everything before it is emitted or skipped.
  absl::Time covered;
  std::vector<AccountedOccurrence> occurrences;
  bool complete = false;  // these are all up to the end of the range
  int tries = 0;          // number of looks at it that left something open
  bool gone = false;      // it was deleted

  bool paused() const { return state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED; }
};

using SchedulePtr = std::shared_ptr<AccountedSchedule>;

class Account : public std::enable_shared_from_this<Account> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<AccountPage>)>;
  Account(MasterContext& context, AccountQuery query, Done done)
      : context_(context), query_(std::move(query)), done_(std::move(done)) {}

  void Start() {
    position_ = query_.after.value_or(
        AccountPosition{.schedule = {}, .ended = false, .time = query_.begin, .passed = 0});
    if (query_.schedule.empty()) return NextGroup();
    context_.client.MultiGet(
        {{ColumnFamily::kSchedules, ScheduleKey(query_.tenant, query_.schedule)}},
        context_.executor, [self = shared_from_this()](absl::StatusOr<kv::GetResult> row) {
          if (!row.ok()) return self->done_(StoreFailed(row.status()));
          if (!row->values[0].has_value()) return self->done_(self->NoSchedule());
          if (!self->AddSchedule(self->query_.schedule, *row->values[0])) return;
          self->ReadStates(self->group_);
        });
  }

 private:
  absl::Status NoSchedule() const {
    return NotFound(ScheduleName{query_.tenant, query_.schedule}.ToString());
  }

  // The next schedules of the tenant.
  void NextGroup() {
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kSchedules;
    scan.begin = SchedulePrefix(query_.tenant);
    scan.end = PrefixEnd(scan.begin);
    if (!position_.schedule.empty()) {
      scan.begin = ScheduleKey(query_.tenant, position_.schedule);
      if (position_.ended) scan.begin = KeyAfter(scan.begin);
    }
    scan.limit = static_cast<uint32_t>(
        std::min(kAccountSchedulesAtOnce, kAccountSchedulesMax - schedules_seen_));
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> rows) {
                           if (!rows.ok()) return self->done_(StoreFailed(rows.status()));
                           self->OnSchedules(*rows);
                         });
  }

  void OnSchedules(const kv::ScanResult& rows) {
    group_.clear();
    more_schedules_ = rows.more;
    const size_t prefix = SchedulePrefix(query_.tenant).size();
    for (const kv::Entry& row : rows.entries) {
      KeyReader reader(absl::string_view(row.key).substr(prefix));
      const std::string id = reader.Text();
      if (!reader.done()) return done_(BrokenRecord("the name of a schedule"));
      if (!AddSchedule(id, row.value)) return;
    }
    if (group_.empty()) return done_(Finished());
    ReadStates(group_);
  }

  // False if the answer has been given.
  bool AddSchedule(const std::string& id, const std::string& bytes) {
    storage::v1::ScheduleRecord record;
    if (!record.ParseFromString(bytes) || record.uid().size() != Uid::kBytes) {
      done_(BrokenRecord("a schedule"));
      return false;
    }
    auto schedule = std::make_shared<AccountedSchedule>();
    schedule->name = {query_.tenant, id};
    schedule->uid = Uid::FromBytes(record.uid());
    schedule->create_time = FromMicros(record.create_time_micros());
    group_.push_back(std::move(schedule));
    return true;
  }

  // First of all, in one snapshot: what it says has been written is looked for later.
  void ReadStates(std::vector<SchedulePtr> reading) {
    reading_ = std::move(reading);
    std::vector<kv::Key> keys;
    for (const SchedulePtr& schedule : reading_) {
      keys.push_back({ColumnFamily::kStates, StateKey(schedule->uid)});
      keys.push_back({ColumnFamily::kCheckpoints,
                      EmittedToKey(PartitionOf(schedule->uid, context_.layout.partitions))});
    }
    context_.client.MultiGet(std::move(keys), context_.executor,
                             [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
                               if (!result.ok()) return self->done_(StoreFailed(result.status()));
                               self->OnStates(*result);
                             });
  }

  void OnStates(const kv::GetResult& result) {
    now_ = result.store_time;
    std::vector<kv::Key> keys;
    for (size_t i = 0; i < reading_.size(); ++i) {
      AccountedSchedule& schedule = *reading_[i];
      const std::optional<std::string>& state = result.values[2 * i];
      const std::optional<std::string>& emitted = result.values[2 * i + 1];
      schedule.gone = !state.has_value();
      if (state.has_value() && !schedule.state.ParseFromString(*state))
        return done_(BrokenRecord("the state of a schedule"));
      schedule.gone |= schedule.state.kind() == storage::v1::SCHEDULE_STATE_KIND_DELETED;
      schedule.covered = FromMicros(schedule.state.covered_to_micros());
      if (!schedule.paused() && emitted.has_value())
        schedule.covered = std::max(schedule.covered, DecodeCheckpoint(*emitted));
      keys.push_back(
          {ColumnFamily::kDefinitions, DefinitionKey(schedule.uid, schedule.state.version())});
    }
    if (!query_.schedule.empty() && reading_[0]->gone) return done_(NoSchedule());
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this()](absl::StatusOr<KeyValues> values) {
               self->OnDefinitions(std::move(values));
             });
  }

  void OnDefinitions(absl::StatusOr<KeyValues> values) {
    if (!values.ok()) return done_(values.status());
    for (size_t i = 0; i < reading_.size(); ++i) {
      reading_[i]->versions.clear();
      if (reading_[i]->gone) continue;
      const std::optional<std::string>& value = (*values)[i];
      if (!value.has_value()) return done_(BrokenRecord("a definition"));
      if (absl::Status status = AddVersion(*reading_[i], *value); !status.ok())
        return done_(status);
    }
    ReadVersions(0);
  }

  static absl::Status AddVersion(AccountedSchedule& schedule, const std::string& bytes) {
    DefinitionRecord record;
    if (!record.ParseFromString(bytes)) return BrokenRecord("a definition");
    record.clear_payload();
    record.clear_delivery();
    if (record.has_on_complete()) record.mutable_on_complete()->Clear();
    schedule.versions.push_back(std::move(record));
    return absl::OkStatus();
  }

  absl::Time BeginOf(const AccountedSchedule& schedule) const {
    return schedule.name.schedule == position_.schedule && !position_.ended ? position_.time
                                                                            : query_.begin;
  }

  // Reads former versions of reading_[i] and of those behind it, as far as they were in force in
  // the range.
  void ReadVersions(size_t i) {
    const auto back_to_begin = [this](const AccountedSchedule& schedule) {
      return schedule.gone || schedule.versions.back().version() <= 1 ||
             FromMicros(schedule.versions.back().create_time_micros()) <= BeginOf(schedule);
    };
    while (i < reading_.size() && back_to_begin(*reading_[i])) ++i;
    if (i == reading_.size()) return reading_[0]->tries > 0 ? ExpectAgain() : ExpectAll();
    AccountedSchedule& schedule = *reading_[i];
    if (schedule.versions.size() >= kAccountVersionsMax) {
      return done_(InvalidField(
          "start_time", absl::StrCat("is too early: ", schedule.name.ToString(), " has more than ",
                                     kAccountVersionsMax, " versions since then")));
    }
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kDefinitions;
    scan.begin = DefinitionKey(schedule.uid, 1);
    scan.end = DefinitionKey(schedule.uid, schedule.versions.back().version());
    scan.reverse = true;
    scan.limit = kAccountVersionsAtOnce;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this(), i](absl::StatusOr<kv::ScanResult> rows) {
                           if (!rows.ok()) return self->done_(StoreFailed(rows.status()));
                           self->OnVersions(i, *rows);
                         });
  }

  void OnVersions(size_t i, const kv::ScanResult& rows) {
    for (const kv::Entry& row : rows.entries) {
      if (absl::Status status = AddVersion(*reading_[i], row.value); !status.ok())
        return done_(status);
    }
    // Older versions have been swept: nothing of their time is in the range (kVersionKeptFor).
    ReadVersions(rows.entries.empty() ? i + 1 : i);
  }

  void ExpectAll() {
    size_t room = kAccountOccurrencesMax - examined_;
    if (query_.filter.always())
      room = std::min(room, query_.limit - static_cast<size_t>(page_.response.occurrences_size()));
    size_t used = 0;
    for (; used < group_.size() && room > 0; ++used) {
      AccountedSchedule& schedule = *group_[used];
      if (schedule.gone) continue;
      if (absl::Status status = ExpectOf(schedule, room); !status.ok()) return done_(status);
      room -= schedule.occurrences.size();
    }
    // The others are read again for the next page.
    more_schedules_ |= used < group_.size();
    group_.resize(used);
    ReadRecords();
  }

  static absl::Status MakeTerms(AccountedSchedule& schedule) {
    absl::StatusOr<std::vector<VersionTerm>> terms = TermsOf(schedule.versions, schedule.state);
    if (!terms.ok()) return BrokenRecord(schedule.name.ToString());
    schedule.terms = *std::move(terms);
    schedule.versions.clear();
    return absl::OkStatus();
  }

  absl::Status ExpectOf(AccountedSchedule& schedule, size_t max) const {
    RETURN_IF_ERROR(MakeTerms(schedule));
    const bool at_position = schedule.name.schedule == position_.schedule && !position_.ended;
    std::vector<ExpectedOccurrence> expected =
        Expect(schedule.terms, BeginOf(schedule), query_.end,
               at_position ? static_cast<size_t>(position_.passed) : 0, max + 1);
    schedule.complete = expected.size() <= max;
    if (!schedule.complete) expected.pop_back();
    for (ExpectedOccurrence& of_term : expected) {
      AccountedOccurrence& occurrence = schedule.occurrences.emplace_back();
      occurrence.expected = std::move(of_term);
      occurrence.shown.set_run(RunName{schedule.name, occurrence.id()}.ToString());
      SetTimestamp(ToMicros(occurrence.nominal()), *occurrence.shown.mutable_nominal_time());
      if (occurrence.nominal() >= std::max(schedule.covered, now_ + kWrittenAhead))
        SetNotEmitted(schedule, occurrence);
    }
    return absl::OkStatus();
  }

  // The second look: a change may have taken occurrences away.
  void ExpectAgain() {
    for (const SchedulePtr& schedule : reading_) {
      if (schedule->gone) {
        for (AccountedOccurrence& occurrence : schedule->occurrences)
          occurrence.left_out |= occurrence.open();
        continue;
      }
      if (absl::Status status = MakeTerms(*schedule); !status.ok()) return done_(status);
      for (AccountedOccurrence& occurrence : schedule->occurrences) {
        if (!occurrence.open()) continue;
        occurrence.run.reset();
        occurrence.searched = false;
        const std::vector<VersionTerm>& terms = schedule->terms;
        const auto term =
            std::find_if(terms.begin(), terms.end(), [&](const VersionTerm& candidate) {
              return candidate.begin <= occurrence.nominal() &&
                     occurrence.nominal() < candidate.end &&
                     candidate.timetable.Has(occurrence.id(), occurrence.nominal());
            });
        occurrence.left_out = term == terms.end();
        if (!occurrence.left_out)
          occurrence.expected.term = static_cast<size_t>(term - terms.begin());
      }
    }
    ReadRecords();
  }

  void SetNotEmitted(const AccountedSchedule& schedule, AccountedOccurrence& occurrence) const {
    std::string reason(kNotDue);
    if (schedule.paused()) {
      reason = std::string(kPaused);
    } else if (occurrence.nominal() < now_) {
      reason = absl::StrCat(
          "not emitted yet: partition ", PartitionOf(schedule.uid, context_.layout.partitions),
          " is emitted to ", absl::FormatTime(schedule.covered, absl::UTCTimeZone()));
    }
    // A pause makes nothing late.
    SetPending(reason, schedule.paused() ? now_ : occurrence.launch(), now_, occurrence.shown);
  }

  const OccurrenceSource& SourceOfTerm(const AccountedSchedule& schedule,
                                       const AccountedOccurrence& occurrence) const {
    return schedule.terms[occurrence.expected.term].source;
  }

  // Open occurrences of the whole group.
  std::vector<std::pair<AccountedSchedule*, AccountedOccurrence*>> Open() {
    std::vector<std::pair<AccountedSchedule*, AccountedOccurrence*>> open;
    for (const SchedulePtr& schedule : group_) {
      for (AccountedOccurrence& occurrence : schedule->occurrences) {
        if (occurrence.open()) open.emplace_back(schedule.get(), &occurrence);
      }
    }
    return open;
  }

  void ReadRecords() {
    std::vector<kv::Key> keys;
    for (const auto& [schedule, occurrence] : Open()) {
      keys.push_back({ColumnFamily::kRuns, EncodeRunKey({schedule->uid, occurrence->id()})});
      for (const auto& [key, unread] : DoneKeys(SourceOfTerm(*schedule, *occurrence),
                                                occurrence->expected.emitted, context_.layout))
        keys.push_back({ColumnFamily::kDone, key});
    }
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this()](absl::StatusOr<KeyValues> values) {
               if (!values.ok()) return self->done_(values.status());
               self->OnRecords(*values);
             });
  }

  void OnRecords(const KeyValues& values) {
    size_t next = 0;
    for (const auto& [schedule, occurrence] : Open()) {
      const std::optional<std::string>& run = values[next++];
      if (run.has_value() && !occurrence->run.emplace().ParseFromString(*run))
        return done_(BrokenRecord("a run"));
      const size_t done_keys = DoneKeys(SourceOfTerm(*schedule, *occurrence),
                                        occurrence->expected.emitted, context_.layout)
                                   .size();
      for (const size_t end = next + done_keys; next < end; ++next) {
        if (!values[next].has_value()) continue;
        if (!occurrence->done.emplace().ParseFromString(*values[next]))
          return done_(BrokenRecord("a Done record"));
      }
      // The run's own record says more than that of one of its events.
      if (occurrence->run.has_value()) occurrence->done.reset();
    }
    ReadCounts();
  }

  void ReadCounts() {
    std::vector<kv::Key> keys;
    for (const auto& [schedule, occurrence] : Open()) {
      if (!occurrence->run.has_value()) continue;
      for (kv::Key& key : RunPartKeys({schedule->uid, occurrence->id()}, context_.layout))
        keys.push_back(std::move(key));
    }
    ReadKeys(context_, std::move(keys),
             [self = shared_from_this()](absl::StatusOr<KeyValues> values) {
               if (!values.ok()) return self->done_(values.status());
               self->OnCounts(*values);
             });
  }

  void OnCounts(const KeyValues& values) {
    size_t next = 0;
    for (const auto& [schedule, occurrence] : Open()) {
      if (!occurrence->run.has_value()) continue;
      occurrence->counts.Clear();
      for (const size_t end = next + context_.RunPartsMax(); next < end; ++next) {
        RunPartRecord part;
        if (values[next].has_value() && part.ParseFromString(*values[next]))
          AddCounts(part, occurrence->counts);
      }
    }
    DecideByRecords();
    ReadSent();
  }

  absl::Duration Allowance(const AccountedSchedule& schedule,
                           const AccountedOccurrence& occurrence) const {
    return schedule.terms[occurrence.expected.term].allowance;
  }

  static bool Ended(const AccountedOccurrence& occurrence) {
    return occurrence.run.has_value() && occurrence.run->complete_time_micros() != 0;
  }

  void DecideByRecords() {
    for (const auto& [schedule, occurrence] : Open()) {
      if (occurrence->done.has_value()) {
        SetEnded(*occurrence->done, Allowance(*schedule, *occurrence), occurrence->shown);
      } else if (occurrence->run.has_value() && !Ended(*occurrence)) {
        SetUnderWay(*schedule, *occurrence);
      } else if (!occurrence->run.has_value() &&
                 occurrence->nominal() >= std::min(schedule->covered, now_)) {
        // It may have a row: that of an occurrence ahead, or of a window that is half emitted.
        SetNotEmitted(*schedule, *occurrence);
      }
    }
  }

  // Runs that should have rows, and are to be looked for, stay open.
  void SetUnderWay(const AccountedSchedule& schedule, AccountedOccurrence& occurrence) const {
    if (EndedCount(occurrence.counts) >= occurrence.run->event_count())
      return SetPending(kNotClosed, occurrence.launch(), now_, occurrence.shown);
    if (!occurrence.searched && occurrence.launch() + kRunMayBeMissing < now_) return;
    SetFound(schedule, occurrence);
  }

  void SetFound(const AccountedSchedule& schedule, AccountedOccurrence& occurrence) const {
    const absl::string_view reason = occurrence.launch() > now_ ? kNotDue
                                     : schedule.paused()        ? kPaused
                                                                : kOnItsWay;
    SetPending(reason, schedule.paused() ? now_ : occurrence.launch(), now_, occurrence.shown);
  }

  // Finds out when the last event was first sent, for runs of several events that may be late.
  void ReadSent() {
    for (const auto& [schedule, occurrence] : Open()) {
      if (!Ended(*occurrence)) continue;
      const absl::Time closed = FromMicros(occurrence->run->complete_time_micros());
      const absl::Duration allowance = Allowance(*schedule, *occurrence);
      if (closed <= occurrence->launch() + allowance || occurrence->sent.has_value()) {
        SetEnded(occurrence->counts, occurrence->launch(), occurrence->sent, allowance,
                 occurrence->shown);
        continue;
      }
      return ReadSentOf(*schedule, *occurrence, closed);
    }
    ReadSummaries(0);
  }

  void ReadSentOf(const AccountedSchedule& schedule, AccountedOccurrence& occurrence,
                  absl::Time closed) {
    FindLastSent(context_, {schedule.uid, occurrence.id()},
                 {DoneDay(occurrence.nominal()), DoneDay(occurrence.launch()),
                  DoneDay(occurrence.nominal() + kDay)},
                 [self = shared_from_this(), &occurrence, closed](absl::StatusOr<LastSent> sent) {
                   if (!sent.ok()) return self->done_(sent.status());
                   // Without a sent event it is on time: nothing was late.
                   occurrence.sent = sent->cut ? closed : sent->time.value_or(occurrence.launch());
                   self->ReadSent();
                 });
  }

  // The open occurrences of a schedule without a run record: nothing is known of them yet.
  static std::vector<AccountedOccurrence*> OpenWithoutRun(AccountedSchedule& schedule) {
    std::vector<AccountedOccurrence*> open;
    for (AccountedOccurrence& occurrence : schedule.occurrences) {
      if (occurrence.open() && !occurrence.run.has_value()) open.push_back(&occurrence);
    }
    return open;
  }

  // Summaries, for group_[i] and those behind it. One that begins within the range was found among
  // the Done records; one that begins before it is searched for.
  void ReadSummaries(size_t i) {
    if (i == group_.size()) return Search(0);
    AccountedSchedule& schedule = *group_[i];
    std::vector<SkipSummary> known;
    for (const AccountedOccurrence& occurrence : schedule.occurrences) {
      if (!occurrence.done.has_value()) continue;
      if (auto summary = SummaryOf(*occurrence.done); summary.has_value())
        known.push_back(*std::move(summary));
    }
    if (ApplySummaries(known, schedule)) return ReadSummaries(i + 1);
    const std::vector<AccountedOccurrence*> open = OpenWithoutRun(schedule);
    const absl::Time oldest = open.front()->nominal();
    // An old occurrence is hardly on its way, a young one hardly part of a long summary.
    const bool far = schedule.tries > 0 || oldest + kOldOccurrence < now_;
    SummaryQuery query;
    query.uid = schedule.uid;
    query.first = oldest;
    query.last = open.back()->nominal();
    query.back_to =
        std::min(oldest, std::max(schedule.create_time,
                                  far ? now_ - kVersionKeptFor : oldest - kAccountSummaryNear));
    for (const VersionTerm& term : schedule.terms)
      query.zones.push_back(term.timetable.spec().zone);
    query.enough = [self = shared_from_this(), i](const std::vector<SkipSummary>& found) {
      return self->ApplySummaries(found, *self->group_[i]);
    };
    FindSummaries(context_, std::move(query), [self = shared_from_this(), i](absl::Status status) {
      if (!status.ok()) return self->done_(std::move(status));
      self->ReadSummaries(i + 1);
    });
  }

  // True if nothing is open any more.
  static bool ApplySummaries(const std::vector<SkipSummary>& summaries,
                             AccountedSchedule& schedule) {
    bool all = true;
    for (AccountedOccurrence* occurrence : OpenWithoutRun(schedule)) {
      const auto covers = [&](const SkipSummary& summary) {
        return summary.first <= occurrence->nominal() && occurrence->nominal() <= summary.last;
      };
      const auto found = std::find_if(summaries.begin(), summaries.end(), covers);
      all &= found != summaries.end();
      if (found != summaries.end()) SetSkipped(found->reason, occurrence->shown);
    }
    return all;
  }

  // All places where rows may be, for group_[i] and those behind it.
  void Search(size_t i) {
    while (i < group_.size() && OpenWithoutRun(*group_[i]).empty()) ++i;
    if (i == group_.size()) return SearchRuns();
    AccountedSchedule& schedule = *group_[i];
    BackfillScope scope;
    scope.source = schedule.terms.back().source;
    for (const AccountedOccurrence* occurrence : OpenWithoutRun(schedule)) {
      BackfillOccurrence& wanted = scope.occurrences.emplace_back();
      wanted.emitted = occurrence->expected.emitted;
      wanted.done = DoneKeys(SourceOfTerm(schedule, *occurrence), wanted.emitted, context_.layout);
    }
    ReadBackfill(context_, std::move(scope),
                 [self = shared_from_this(), i](absl::StatusOr<BackfillScope> found) {
                   if (!found.ok()) return self->done_(found.status());
                   self->OnFound(i, *found);
                 });
  }

  void OnFound(size_t i, const BackfillScope& scope) {
    AccountedSchedule& schedule = *group_[i];
    const std::vector<AccountedOccurrence*> open = OpenWithoutRun(schedule);
    for (size_t k = 0; k < open.size(); ++k) {
      AccountedOccurrence& occurrence = *open[k];
      const BackfillOccurrence& found = scope.occurrences[k];
      for (const auto& [key, value] : found.done) {
        DoneRecord done;
        if (value.has_value() && done.ParseFromString(*value))
          SetEnded(done, Allowance(schedule, occurrence), occurrence.shown);
      }
      if (occurrence.open() && found.present) SetFound(schedule, occurrence);
      if (occurrence.open() && scope.cut)
        SetPending(kTooManyRows, occurrence.launch(), now_, occurrence.shown);
    }
    Search(i + 1);
  }

  // Finds out whether anything is left of runs with a record that are under way for long.
  void SearchRuns() {
    for (const auto& [schedule, occurrence] : Open()) {
      if (!occurrence->run.has_value() || occurrence->searched) continue;
      return FindRunRows(context_,
                         {.source = schedule->terms.back().source,
                          .occurrence = occurrence->id(),
                          .nominal_time = occurrence->nominal()},
                         [self = shared_from_this(), schedule = schedule,
                          occurrence = occurrence](absl::StatusOr<RunRows> found) {
                           if (!found.ok()) return self->done_(found.status());
                           occurrence->searched = true;
                           if (*found != RunRows::kNone) self->SetFound(*schedule, *occurrence);
                           self->SearchRuns();
                         });
    }
    ReadAgain();
  }

  // Open occurrences have no trace now. The second look begins with the state, so it also follows a
  // change of the schedule.
  void ReadAgain() {
    std::vector<SchedulePtr> again;
    for (const SchedulePtr& schedule : group_) {
      if (std::any_of(schedule->occurrences.begin(), schedule->occurrences.end(),
                      [](const AccountedOccurrence& occurrence) { return occurrence.open(); }) &&
          schedule->tries++ == 0)
        again.push_back(schedule);
    }
    if (again.empty()) return CheckKept();
    ReadStates(std::move(again));
  }

  // An occurrence without a trace may be so old that its outcome has been dropped.
  void CheckKept() {
    const absl::Duration retention = query_.retention_of(query_.tenant);
    for (const auto& [schedule, occurrence] : Open()) {
      const VersionTerm& term = schedule->terms[occurrence->expected.term];
      if (occurrence->run.has_value()) {
        SetUnaccounted(*occurrence);
      } else if (!rules_change_.has_value() && term.timetable.calendar()) {
        return ReadRulesChange();
      } else if (term.end_unknown || MayBeMoved(term, *occurrence)) {
        occurrence->left_out = true;
      } else if (occurrence->nominal() + kRetentionMin > now_ ||
                 occurrence->launch() + retention > now_) {
        SetUnaccounted(*occurrence);
      } else if (retention > absl::ZeroDuration()) {
        occurrence->left_out = true;
      } else {
        const std::string event_id =
            RunIdentity(query_.tenant, schedule->uid, occurrence->id()).EventId(0);
        const auto day = std::pair(ShardOfEventId(event_id, context_.layout.queue_shards),
                                   DoneDay(occurrence->launch()));
        const auto kept = kept_.find(day);
        if (kept == kept_.end()) return ReadDay(day);
        occurrence->left_out = !kept->second;
        if (kept->second) SetUnaccounted(*occurrence);
      }
    }
    Answer();
  }

  void ReadRulesChange() {
    context_.client.MultiGet(
        {{ColumnFamily::kMeta, std::string(tzdata::kSwitchKey)}}, context_.executor,
        [self = shared_from_this()](absl::StatusOr<kv::GetResult> row) {
          if (!row.ok()) return self->done_(StoreFailed(row.status()));
          self->rules_change_.emplace();
          if (row->values[0].has_value())
            self->rules_change_ = tzdata::DecodeSwitch(*row->values[0]).value_or(tzdata::Switch());
          self->CheckKept();
        });
  }

  // True if the rules of its zone have changed after its time: by the former rules it may have been
  // at another time, or not at all.
  bool MayBeMoved(const VersionTerm& term, const AccountedOccurrence& occurrence) const {
    return term.timetable.calendar() &&
           rules_change_->before.contains(term.timetable.spec().zone.name()) &&
           occurrence.nominal() < rules_change_->time + kWrittenAhead;
  }

  // The day's outcomes are kept if there is one of a tenant without a retention of its own: they
  // are deleted together.
  void ReadDay(std::pair<uint16_t, uint32_t> day) {
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kDone;
    scan.begin = DoneDayKey(day.first, day.second);
    scan.end = DoneDayKey(day.first, day.second + 1);
    scan.limit = kAccountKeptRowsMax;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this(), day](absl::StatusOr<kv::ScanResult> rows) {
                           if (!rows.ok()) return self->done_(StoreFailed(rows.status()));
                           bool kept = false;
                           for (const kv::Entry& row : rows->entries) {
                             DoneRecord done;
                             kept |=
                                 done.ParseFromString(row.value) &&
                                 self->query_.retention_of(done.tenant()) == absl::ZeroDuration();
                           }
                           self->kept_[day] = kept;
                           self->CheckKept();
                         });
  }

  static void SetUnaccounted(AccountedOccurrence& occurrence) {
    occurrence.shown.set_result(v1::Occurrence::UNACCOUNTED);
    if (!occurrence.run.has_value()) return;
    const uint64_t ended = EndedCount(occurrence.counts);
    occurrence.shown.set_reason(absl::StrCat(ended, " of ", occurrence.run->event_count(),
                                             " events have ended, the others are not found"));
  }

  // Counts what was examined, up to where the page is full.
  void Answer() {
    for (const SchedulePtr& schedule : group_) {
      if (!schedule->gone && !TakeOccurrences(*schedule)) return EndPage();
      position_ = {.schedule = schedule->name.schedule, .ended = true, .time = {}, .passed = 0};
      ++schedules_seen_;
      if (!schedule->gone) page_.response.set_schedule_count(page_.response.schedule_count() + 1);
    }
    if (!more_schedules_) return done_(Finished());
    if (schedules_seen_ >= kAccountSchedulesMax || examined_ >= kAccountOccurrencesMax || Full())
      return EndPage();
    NextGroup();
  }

  bool Full() const {
    return static_cast<size_t>(page_.response.occurrences_size()) >= query_.limit;
  }

  // False if the page ends before the schedule does.
  bool TakeOccurrences(AccountedSchedule& schedule) {
    for (AccountedOccurrence& occurrence : schedule.occurrences) {
      if (Full()) return false;
      const bool same_time = position_.schedule == schedule.name.schedule && !position_.ended &&
                             position_.time == occurrence.nominal();
      position_ = {.schedule = schedule.name.schedule,
                   .ended = false,
                   .time = occurrence.nominal(),
                   .passed = same_time ? position_.passed + 1 : 1};
      ++examined_;
      if (occurrence.left_out) continue;
      ++counts_[occurrence.shown.result()];
      if (query_.filter.Matches(occurrence.shown))
        *page_.response.add_occurrences() = std::move(occurrence.shown);
    }
    return schedule.complete;
  }

  void EndPage() {
    AccountPage page = Finished();
    page.next = position_;
    done_(std::move(page));
  }

  AccountPage Finished() {
    for (const auto& [result, count] : counts_) {
      v1::ListOccurrencesResponse::ResultCount& of_result = *page_.response.add_counts();
      of_result.set_result(result);
      of_result.set_count(count);
    }
    return std::move(page_);
  }

  MasterContext& context_;
  const AccountQuery query_;
  Done done_;
  absl::Time now_;  // store time when the states of the group were read
  AccountPosition position_;
  std::vector<SchedulePtr> group_;    // accounted for together
  std::vector<SchedulePtr> reading_;  // those of the group whose state and versions are read
  bool more_schedules_ = false;       // behind the group
  size_t schedules_seen_ = 0;
  size_t examined_ = 0;                                 // occurrences
  std::map<std::pair<uint16_t, uint32_t>, bool> kept_;  // shard and day → outcomes are kept
  std::optional<tzdata::Switch> rules_change_;  // the last one of time zone rules, once it is read
  std::map<v1::Occurrence::Result, int64_t> counts_;
  AccountPage page_;
};

}  // namespace

absl::StatusOr<ListFilter> ReadOccurrenceFilter(absl::string_view text) {
  return ListFilter::Read<v1::Occurrence>(text, "", kOccurrenceFields);
}

void AccountOccurrences(MasterContext& context, AccountQuery query,
                        absl::AnyInvocable<void(absl::StatusOr<AccountPage>)> done) {
  std::make_shared<Account>(context, std::move(query), std::move(done))->Start();
}

}  // namespace escapement::master
