#include "services/master/notifications/subscription_check.h"

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/access_records.pb.h"
#include "escapement/storage/v1/notification_records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/notifications/problem_list.h"
#include "services/master/notifications/subscription_codec.h"
#include "services/master/operations/dead_letter_list.h"
#include "services/master/requests/list_filter.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/request_table.h"
#include "services/master/runs/occurrence_account.h"
#include "services/master/schedules/schedule_search.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using storage::v1::OpenRunRecord;
using storage::v1::ProblemRecord;
using storage::v1::SubscriptionRecord;
using storage::v1::SubscriptionStateRecord;
using v1::Subscription;

// Messages with an id that a client has taken are given the next one, so often.
constexpr int kNoticeIdsTried = 3;

absl::Duration LatenessOf(const v1::Occurrence& occurrence) {
  return ToDuration(occurrence.lateness()).value_or(absl::ZeroDuration());
}

absl::Time NominalOf(const v1::Occurrence& occurrence) {
  return FromMicros(TimestampMicros(occurrence.nominal_time()).value_or(0));
}

// A run that succeeds ends these.
constexpr Subscription::Kind kEndedBySuccess[] = {Subscription::FAILED, Subscription::MISSED};

// The reasons of runs that nobody asked to leave out.
bool IsMiss(absl::string_view reason) { return reason == "misfire" || reason == "quota"; }

class Check : public std::enable_shared_from_this<Check> {
 public:
  using Done = absl::AnyInvocable<void(absl::Status)>;
  Check(const SubscriptionWorld& world, kv::Entry row, Done done)
      : world_(world), row_(std::move(row)), done_(std::move(done)) {}

  void Start() {
    if (!record_.ParseFromString(row_.value)) return done_(BrokenRecord("a subscription"));
    if (world_.tenants.Find(record_.tenant()) == nullptr) return done_(absl::OkStatus());
    absl::StatusOr<ListFilter> filter = ReadScheduleFilter(record_.filter(), record_.tenant());
    if (!filter.ok()) return done_(filter.status());
    filter_ = *std::move(filter);
    context().client.MultiGet({{ColumnFamily::kPolicies,
                                SubscriptionStateKey(record_.tenant(), record_.subscription_id())}},
                              context().executor,
                              [self = shared_from_this()](absl::StatusOr<kv::GetResult> state) {
                                if (!state.ok()) return self->done_(StoreFailed(state.status()));
                                self->OnState(*state);
                              });
  }

 private:
  MasterContext& context() const { return world_.context; }

  void OnState(const kv::GetResult& result) {
    now_ = result.store_time;
    before_ = result.values[0];
    if (before_.has_value() && !state_.ParseFromString(*before_))
      return done_(BrokenRecord("the state of a subscription"));
    if (state_.uid() != record_.uid()) {
      state_.Clear();
      state_.set_uid(record_.uid());
      state_.set_checked_to_micros(record_.create_time_micros());
      state_.set_letters_to_micros(record_.create_time_micros());
    } else if (now_ < FromMicros(state_.checked_to_micros()) + kNotifyEvery) {
      return done_(absl::OkStatus());
    }
    checked_to_ = FromMicros(state_.checked_to_micros());
    check_end_ = std::min(now_, checked_to_ + kCheckedRangeMax);
    problems_.emplace(state_.problems());
    for (OpenRunRecord& run : *state_.mutable_open_runs())
      former_[run.schedule_id()].push_back(std::move(run));
    state_.clear_open_runs();
    ReadLetters();
  }

  void ReadLetters() {
    const absl::Time begin = FromMicros(state_.letters_to_micros());
    letters_to_ = std::max(begin, now_ - kLetterSettles);
    last_letter_ = begin;
    std::vector<KeyRange> ranges;
    if (Wants(record_, Subscription::FAILED) && begin < letters_to_) {
      ranges.push_back({ColumnFamily::kDeadLetters, DeadLetterKeyFrom(record_.tenant(), begin),
                        DeadLetterKeyFrom(record_.tenant(), letters_to_)});
    }
    ReadRanges(
        context(), std::move(ranges), kCheckedLettersMax,
        [self = shared_from_this()](const KeyRange&, kv::Entry& row) -> absl::StatusOr<bool> {
          self->letter_bytes_ += row.value.size();
          self->TakeLetter(row);
          self->letters_cut_ |= self->letter_bytes_ >= kCheckedLetterBytesMax;
          return !self->letters_cut_;
        },
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->done_(std::move(status));
          if (self->letters_cut_ || self->too_many_letters_)
            self->letters_to_ = self->last_letter_ + absl::Microseconds(1);
          self->VisitAll();
        },
        &too_many_letters_);
  }

  // One that cannot be read is left out: it must not hide the others.
  void TakeLetter(kv::Entry& row) {
    const auto letter = ReadDeadLetter(std::move(row.key), std::move(row.value));
    if (!letter.ok()) return;
    last_letter_ = letter->name.time;
    const storage::v1::DeadLetterRecord& record = letter->record;
    if (IsOneOff(record)) {
      if (!filter_.always() || IsNoticeEventId(letter->name.event_id)) return;
      problems_->Add("", Subscription::FAILED,
                     {.first = letter->name.time,
                      .last = letter->name.time,
                      .resource = EventNameOf(*letter),
                      .detail = CleanText(record.reason(), kProblemDetailBytesMax)});
      return;
    }
    letters_[record.schedule_id()][RunOf(*letter).ToString()] = {
        .first = letter->name.time,
        .last = letter->name.time,
        .detail = CleanText(record.reason(), kProblemDetailBytesMax)};
  }

  void VisitAll() {
    // The visit is a part of this check (next_), so it does not keep it.
    VisitSchedules(
        context(), record_.tenant(), filter_,
        [weak = weak_from_this()](std::vector<StoredSchedule> chunk, VisitSchedulesNext next) {
          const std::shared_ptr<Check> self = weak.lock();
          if (self == nullptr) return;
          self->chunk_ = std::move(chunk);
          self->at_ = 0;
          self->next_ = std::move(next);
          self->NextSchedule();
        },
        [weak = weak_from_this()](absl::Status status) {
          const std::shared_ptr<Check> self = weak.lock();
          if (self == nullptr) return;
          if (!status.ok()) return self->done_(std::move(status));
          self->Finish();
        });
  }

  StoredSchedule& schedule() { return chunk_[at_]; }
  const std::string& id() { return schedule().state.schedule_id(); }
  ScheduleName name() { return {record_.tenant(), id()}; }

  void NextSchedule() {
    while (at_ < chunk_.size()) {
      if (!filter_.always() && !filter_.Matches(Show(schedule(), now_))) {
        ++at_;
        continue;
      }
      BeginSchedule();
      if (PausedLately()) return ReadPauser();
      if (!ranges_.empty()) return NextRange();
      if (!EndSchedule()) return;
    }
    std::exchange(next_, nullptr)();
  }

  void BeginSchedule() {
    any_late_ = any_at_risk_ = false;
    asked_ = 0;
    was_late_ = problems_->Find(id(), Subscription::LATE) != nullptr;
    was_at_risk_ = problems_->Find(id(), Subscription::AT_RISK) != nullptr;
    ranges_.clear();
    of_schedule_.clear();
    counted_.clear();
    if (const auto former = former_.find(id()); former != former_.end()) {
      for (OpenRunRecord& run : former->second) {
        if (run.end_micros() == 0) {
          ranges_.push_back({.begin = FromMicros(run.nominal_time_micros()),
                             .end = FromMicros(run.nominal_time_micros() + 1),
                             .run = std::move(run)});
        } else if (FromMicros(run.end_micros()) >= letters_to_) {
          of_schedule_.push_back(std::move(run));
        } else {
          counted_.insert(run.run());
        }
      }
      former_.erase(former);
    }
    if (MayHaveOccurred()) ranges_.push_back({.begin = checked_to_, .end = check_end_, .run = {}});
    if (!Paused()) problems_->End(id(), Subscription::PAUSED, now_);
  }

  // A schedule that cannot be read does not hide the others. Its problems and open runs stay.
  void SkipSchedule(const absl::Status& status) {
    Log(LogLevel::kWarning, "master.notifications", "a schedule could not be checked",
        {{"schedule", name().ToString()}, {"error", status.ToString()}});
    occurrences_.clear();
    for (Range& range : ranges_) {
      if (!range.run.run().empty()) of_schedule_.push_back(std::move(range.run));
    }
    LeaveSchedule();
    NextSchedule();
  }

  // An occurrence since the last check, by the present definition. A definition that is younger
  // says nothing of the one before.
  bool MayHaveOccurred() {
    const Definition& definition = schedule().definition;
    if (FromMicros(definition.record.create_time_micros()) >= checked_to_) return true;
    const auto next = definition.timetable.FirstAtOrAfter(checked_to_);
    return next.has_value() && next->instant < check_end_;
  }

  bool Paused() { return schedule().state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED; }

  // A pause that may be a problem, and of which nothing is known yet.
  bool PausedLately() {
    const absl::Time since = FromMicros(schedule().state.pause_time_micros());
    return Paused() && Wants(record_, Subscription::PAUSED) &&
           since >= checked_to_ - kPauseSettles &&
           since >= FromMicros(record_.create_time_micros()) &&
           problems_->Find(id(), Subscription::PAUSED) == nullptr;
  }

  void ReadPauser() {
    const absl::Time since = FromMicros(schedule().state.pause_time_micros());
    ReadRanges(
        context(),
        {{ColumnFamily::kAudit, AuditKeyFrom(record_.tenant(), since),
          AuditKeyFrom(record_.tenant(), since + absl::Microseconds(1))}},
        kPauseAuditRowsMax,
        [self = shared_from_this(), since](const KeyRange&,
                                           const kv::Entry& row) -> absl::StatusOr<bool> {
          storage::v1::AuditRecord audit;
          if (audit.ParseFromString(row.value) && audit.resource() == self->name().ToString() &&
              audit.principal() == PlatformCaller().principal && audit.code() == 0) {
            self->problems_->Add(self->id(), Subscription::PAUSED,
                                 {.first = since,
                                  .last = since,
                                  .resource = "",
                                  .detail = self->schedule().state.pause_reason()});
          }
          return true;
        },
        [self = shared_from_this()](absl::Status status) {
          if (!status.ok()) return self->SkipSchedule(status);
          self->NextRange();
        });
  }

  void NextRange() {
    if (ranges_.empty()) {
      if (EndSchedule()) NextSchedule();
      return;
    }
    AccountQuery query;
    query.tenant = record_.tenant();
    query.schedule = id();
    query.begin = ranges_.front().begin;
    query.end = ranges_.front().end;
    query.after = std::exchange(ranges_.front().after, std::nullopt);
    query.limit = kAccountOccurrencesMax;
    query.retention_of = [tenants = &world_.tenants](const std::string& tenant) {
      return tenants->RetentionOf(tenant);
    };
    AccountOccurrences(context(), std::move(query),
                       [self = shared_from_this()](absl::StatusOr<AccountPage> page) {
                         if (!page.ok() && !absl::IsNotFound(page.status()))
                           return self->SkipSchedule(page.status());
                         // It may have been deleted.
                         self->OnAccount(page.ok() ? *std::move(page) : AccountPage());
                       });
  }

  void OnAccount(AccountPage page) {
    Range& range = ranges_.front();
    for (v1::Occurrence& occurrence : *page.response.mutable_occurrences()) {
      // Another one of the same time has a range of its own, or is not followed.
      if (range.run.run().empty() || range.run.run() == occurrence.run())
        occurrences_.push_back(std::move(occurrence));
    }
    range.after = std::move(page.next);
    NextOccurrence();
  }

  // The record of the occurrence from former checks, or a new one.
  OpenRunRecord Known(const v1::Occurrence& occurrence) {
    if (!ranges_.front().run.run().empty()) return ranges_.front().run;
    OpenRunRecord run;
    run.set_schedule_id(id());
    run.set_run(occurrence.run());
    run.set_nominal_time_micros(ToMicros(NominalOf(occurrence)));
    return run;
  }

  void NextOccurrence() {
    while (!occurrences_.empty()) {
      const v1::Occurrence occurrence = std::move(occurrences_.front());
      occurrences_.pop_front();
      const OpenRunRecord run = Known(occurrence);
      switch (occurrence.result()) {
        case v1::Occurrence::ON_TIME:
        case v1::Occurrence::LATE:
          if (LatenessOf(occurrence) > LateAfter() && !run.late())
            Add(Subscription::LATE, occurrence, absl::StrCat("it was sent ", LateText(occurrence)));
          break;
        case v1::Occurrence::SKIPPED:
          if (IsMiss(occurrence.reason()))
            Add(Subscription::MISSED, occurrence, occurrence.reason());
          break;
        case v1::Occurrence::UNACCOUNTED:
          Add(Subscription::MISSED, occurrence,
              absl::StrCat("the platform has no trace of it. ", occurrence.reason()));
          break;
        case v1::Occurrence::FAILED:
          return ReadFailed(occurrence, run);
        case v1::Occurrence::PENDING:
          if (Ask(occurrence)) return ReadPending(occurrence, run);
          KeepOpen(run);
          break;
        default:
          break;
      }
    }
    if (!ranges_.front().after.has_value()) ranges_.pop_front();
    NextRange();
  }

  absl::Duration Window() {
    return absl::Microseconds(schedule().definition.record.throttle().window().duration_micros());
  }
  absl::Duration LateAfter() { return absl::Microseconds(record_.late_by_micros()) + Window(); }

  static std::string LateText(const v1::Occurrence& occurrence) {
    return absl::StrCat(absl::FormatDuration(absl::Trunc(LatenessOf(occurrence), absl::Seconds(1))),
                        " late");
  }

  void Add(Subscription::Kind kind, const v1::Occurrence& occurrence, absl::string_view detail) {
    if (!Wants(record_, kind)) return;
    problems_->Add(id(), kind,
                   {.first = NominalOf(occurrence),
                    .last = NominalOf(occurrence),
                    .resource = occurrence.run(),
                    .detail = CleanText(detail, kProblemDetailBytesMax)});
  }

  // An event is cancelled only because somebody wants it.
  void ReadFailed(v1::Occurrence occurrence, OpenRunRecord run) {
    v1::GetRunRequest request;
    request.set_name(occurrence.run());
    world_.runs.GetRun(std::move(request),
                       [self = shared_from_this(), occurrence = std::move(occurrence),
                        run = std::move(run)](const absl::StatusOr<v1::Run>& read) mutable {
                         if (!read.ok() && !absl::IsNotFound(read.status()))
                           return self->SkipSchedule(read.status());
                         if (read.ok() && read->expired_count() > 0)
                           self->Add(Subscription::MISSED, occurrence, occurrence.reason());
                         if (read.ok() && read->failed_count() > 0) {
                           if (!run.failed())
                             self->Add(Subscription::FAILED, occurrence, occurrence.reason());
                           run.set_failed(true);
                           run.set_end_micros(ToMicros(self->now_));
                           self->of_schedule_.push_back(std::move(run));
                         }
                         self->NextOccurrence();
                       });
  }

  bool Windowed() {
    const storage::v1::DefinitionRecord& definition = schedule().definition.record;
    return definition.event_count() > 1 && Window() > absl::ZeroDuration();
  }

  // True if more must be read to say whether the occurrence is late or at risk. Only the
  // first ones of very many are judged.
  bool Ask(const v1::Occurrence& occurrence) {
    if (asked_ >= kOpenRunsOfSchedule) return false;
    const bool asks =
        (Wants(record_, Subscription::LATE) && LatenessOf(occurrence) > LateAfter()) ||
        (Wants(record_, Subscription::AT_RISK) && Windowed());
    if (asks) ++asked_;
    return asks;
  }

  void ReadPending(v1::Occurrence occurrence, OpenRunRecord run) {
    v1::GetRunRequest request;
    request.set_name(occurrence.run());
    world_.runs.GetRun(std::move(request),
                       [self = shared_from_this(), occurrence = std::move(occurrence),
                        run = std::move(run)](const absl::StatusOr<v1::Run>& read) mutable {
                         if (!read.ok() && !absl::IsNotFound(read.status()))
                           return self->SkipSchedule(read.status());
                         if (read.ok()) self->JudgeWindow(*read, occurrence, run);
                         if (LatenessOf(occurrence) <= self->LateAfter()) {
                           self->KeepOpen(std::move(run));
                           return self->NextOccurrence();
                         }
                         if (read.ok() && read->event_count() == 1)
                           return self->Explain(std::move(occurrence), std::move(run));
                         self->JudgeMany(read, std::move(occurrence), std::move(run));
                       });
  }

  void JudgeWindow(const v1::Run& read, const v1::Occurrence& occurrence, OpenRunRecord& run) {
    const v1::RunWindow::State state = read.window().state();
    if (state != v1::RunWindow::AT_RISK && state != v1::RunWindow::LATE) return;
    any_at_risk_ = true;
    if (!run.at_risk() || !was_at_risk_)
      Add(Subscription::AT_RISK, occurrence, absl::StrCat(Progress(read), WindowEnd(read)));
    run.set_at_risk(true);
  }

  static int64_t EndedOf(const v1::Run& run) {
    return run.succeeded_count() + run.failed_count() + run.skipped_count() +
           run.cancelled_count() + run.expired_count();
  }
  static std::string Progress(const v1::Run& run) {
    return absl::StrCat(EndedOf(run), " of ", run.event_count(), " events have ended");
  }
  static std::string WindowEnd(const v1::Run& run) {
    const auto close = TimestampMicros(run.window().close_time());
    return absl::StrCat("; the window closes at ", TimeText(close.value_or(0)));
  }

  // A run of several events, or one that is not emitted.
  void JudgeMany(const absl::StatusOr<v1::Run>& read, v1::Occurrence occurrence,
                 OpenRunRecord run) {
    if (!read.ok()) {
      SetLate(occurrence, occurrence.reason(), run);
    } else if (EndedOf(*read) + read->running_count() < read->event_count()) {
      SetLate(occurrence, Progress(*read), run);
    }
    KeepOpen(std::move(run));
    NextOccurrence();
  }

  // Says of a run of one event whether it waits, and for what.
  void Explain(v1::Occurrence occurrence, OpenRunRecord run) {
    v1::ExplainEventRequest request;
    request.set_name(absl::StrCat(occurrence.run(), "/events/0"));
    world_.explanations.ExplainEvent(
        std::move(request),
        [self = shared_from_this(), occurrence = std::move(occurrence),
         run = std::move(run)](const absl::StatusOr<v1::EventExplanation>& why) mutable {
          // It may have ended by now: the next check reports.
          if (!why.ok() && !absl::IsNotFound(why.status())) return self->SkipSchedule(why.status());
          if (why.ok() &&
              (why->status() == v1::Event::SCHEDULED || why->status() == v1::Event::FAILED ||
               why->status() == v1::Event::TARGET_DOWN))
            self->SetLate(occurrence, why->summary(), run);
          self->KeepOpen(std::move(run));
          self->NextOccurrence();
        });
  }

  void SetLate(const v1::Occurrence& occurrence, absl::string_view why, OpenRunRecord& run) {
    any_late_ = true;
    if (!run.late() || !was_late_)
      Add(Subscription::LATE, occurrence, absl::StrCat(LateText(occurrence), ". ", why));
    run.set_late(true);
  }

  // Runs of a paused schedule are not followed: nobody expects them.
  void KeepOpen(OpenRunRecord run) {
    if (!Paused()) of_schedule_.push_back(std::move(run));
  }

  // False: it goes on with the next schedule by itself.
  bool EndSchedule() {
    CountLetters();
    if (!any_late_) problems_->End(id(), Subscription::LATE, now_);
    if (!any_at_risk_) problems_->End(id(), Subscription::AT_RISK, now_);
    absl::Time since = absl::InfiniteFuture();
    for (const Subscription::Kind kind : kEndedBySuccess) {
      if (const ProblemRecord* problem = problems_->Find(id(), kind); problem != nullptr)
        since = std::min(since, FromMicros(problem->last_micros()));
    }
    if (since < absl::InfiniteFuture()) {
      ReadSuccesses(since);
      return false;
    }
    LeaveSchedule();
    return true;
  }

  void LeaveSchedule() {
    if (problems_->Knows(id())) seen_.insert(id());
    KeepFirst(of_schedule_, kOpenRunsOfSchedule);
    for (OpenRunRecord& run : of_schedule_) open_.push_back(std::move(run));
    ++at_;
  }

  // Keeps so many: first the runs that count as a problem, then the oldest.
  static void KeepFirst(std::vector<OpenRunRecord>& runs, size_t count) {
    if (runs.size() <= count) return;
    const auto rank = [](const OpenRunRecord& run) {
      return std::pair(!run.late() && !run.at_risk() && !run.failed(), run.nominal_time_micros());
    };
    std::stable_sort(runs.begin(), runs.end(), [&](const OpenRunRecord& a, const OpenRunRecord& b) {
      return rank(a) < rank(b);
    });
    runs.resize(count);
  }

  // Runs that were triggered, and events that were redriven, end problems, too.
  void ReadSuccesses(absl::Time since) {
    v1::ListRunsRequest request;
    request.set_parent(name().ToString());
    request.set_order_by("nominal_time desc");
    request.set_filter(
        absl::FormatTime("state = COMPLETED AND nominal_time >= \"%Y-%m-%dT%H:%M:%E*SZ\"", since,
                         absl::UTCTimeZone()));
    world_.runs.ListRuns(std::move(request), [self = shared_from_this()](
                                                 const absl::StatusOr<v1::ListRunsResponse>& runs) {
      if (!runs.ok() && !absl::IsNotFound(runs.status())) return self->SkipSchedule(runs.status());
      if (runs.ok()) self->EndBySuccess(*runs);
      self->LeaveSchedule();
      self->NextSchedule();
    });
  }

  void EndBySuccess(const v1::ListRunsResponse& runs) {
    for (const v1::Run& run : runs.runs()) {
      if (run.status() != v1::Event::COMPLETED || run.expired_count() > 0) continue;
      const int64_t nominal = TimestampMicros(run.nominal_time()).value_or(0);
      for (const Subscription::Kind kind : kEndedBySuccess) {
        const ProblemRecord* problem = problems_->Find(id(), kind);
        if (problem != nullptr && nominal >= problem->last_micros())
          problems_->End(id(), kind, now_);
      }
    }
  }

  // Counts the runs with dead letters that do not count yet. Runs that are no occurrences of the
  // schedule, or are not followed, get the time of the letter. Their records are kept as long as
  // further letters come.
  void CountLetters() {
    const auto letters = letters_.find(id());
    if (letters == letters_.end()) return;
    for (auto& [run, evidence] : letters->second) {
      evidence.resource = run;
      const auto known = std::find_if(of_schedule_.begin(), of_schedule_.end(),
                                      [&evidence = evidence](const OpenRunRecord& record) {
                                        return record.run() == evidence.resource;
                                      });
      OpenRunRecord& record =
          known != of_schedule_.end() ? *known : of_schedule_.emplace_back(Unfollowed(run));
      if (!record.failed()) {
        if (record.end_micros() == 0)
          evidence.first = evidence.last = FromMicros(record.nominal_time_micros());
        problems_->Add(id(), Subscription::FAILED, evidence);
      }
      record.set_failed(true);
      if (record.end_micros() != 0) record.set_end_micros(ToMicros(now_));
    }
  }

  OpenRunRecord Unfollowed(const std::string& name) {
    OpenRunRecord run;
    run.set_schedule_id(id());
    run.set_run(name);
    run.set_nominal_time_micros(ToMicros(now_));
    run.set_end_micros(ToMicros(now_));
    run.set_failed(counted_.contains(name));
    return run;
  }

  void Finish() {
    // If a schedule was deleted, or the filter does not cover it any more, its problems have ended.
    const auto covered = [this](const ProblemRecord& problem) {
      return problem.schedule_id().empty() ? filter_.always()
                                           : seen_.contains(problem.schedule_id());
    };
    for (const ProblemRecord& problem : problems_->ToRecords()) {
      if (!covered(problem))
        problems_->End(problem.schedule_id(), static_cast<Subscription::Kind>(problem.kind()),
                       now_);
    }
    if (const ProblemRecord* one_offs = problems_->Find("", Subscription::FAILED);
        one_offs != nullptr && FromMicros(one_offs->last_micros()) + kNotifyAgainAfter <= now_)
      problems_->End("", Subscription::FAILED, now_);
    problems_->Retain([this](const ProblemRecord& problem) {
      return Wants(record_, static_cast<Subscription::Kind>(problem.kind())) &&
             now_ < FromMicros(std::max(problem.last_micros(), problem.notify_micros())) +
                        kProblemKeptFor;
    });
    news_ = problems_->TakeNews(now_);
    problems_->Retain(covered);
    state_.set_checked_to_micros(ToMicros(check_end_));
    state_.set_letters_to_micros(ToMicros(letters_to_));
    *state_.mutable_problems() = problems_->ToRecords();
    KeepFirst(open_, kOpenRunsMax);
    for (OpenRunRecord& run : open_) *state_.add_open_runs() = std::move(run);
    Commit(0);
  }

  void Commit(int tried) {
    kv::Commit commit;
    kv::Group group;
    const std::string key = SubscriptionStateKey(record_.tenant(), record_.subscription_id());
    group.conditions = {kv::ValueIs(ColumnFamily::kPolicies, row_.key, row_.value),
                        kv::Unchanged(ColumnFamily::kPolicies, key, before_)};
    if (!news_.empty()) {
      const absl::Time now = context().client.NowLow();
      state_.set_messages(state_.messages() + 1);
      state_.set_message_time_micros(ToMicros(now));
      const InternedDelivery interned = Intern(record_.delivery(), now);
      commit.groups.push_back(InternGroup(interned));
      AddNoticeEvent(record_, NoticeEventId(record_.uid(), state_.messages()),
                     NoticeOf(record_, news_, now_), interned, context().layout.queue_shards, now,
                     group);
    }
    group.mutations.push_back(kv::Put(ColumnFamily::kPolicies, key, state_.SerializeAsString()));
    commit.groups.push_back(std::move(group));
    context().client.CommitAsync(
        std::move(commit), context().executor,
        [self = shared_from_this(), tried](const absl::StatusOr<kv::CommitResult>& result) {
          if (!result.ok()) return self->done_(StoreFailed(result.status()));
          self->OnCommitted(result->verdicts.back(), tried);
        });
  }

  void OnCommitted(const kv::Verdict& verdict, int tried) {
    constexpr uint16_t kNoSuchEvent = 2;
    if (!verdict.applied && verdict.failed_condition >= kNoSuchEvent && tried + 1 < kNoticeIdsTried)
      return Commit(tried + 1);
    if (verdict.applied && !news_.empty()) context().metrics.notices.Increment();
    // Otherwise another master was faster, or the subscription was changed.
    done_(absl::OkStatus());
  }

  // Occurrences to account for.
  struct Range {
    absl::Time begin, end;
    OpenRunRecord run;  // only this one; without a name: all
    std::optional<AccountPosition> after = std::nullopt;
  };

  const SubscriptionWorld world_;
  const kv::Entry row_;
  Done done_;
  SubscriptionRecord record_;
  ListFilter filter_;
  std::optional<std::string> before_;  // the state as it was read
  SubscriptionStateRecord state_;
  absl::Time now_;                     // store time when it was read
  absl::Time checked_to_, check_end_;  // the range of this check
  std::optional<ProblemList> problems_;
  std::map<std::string, std::vector<OpenRunRecord>> former_;  // by schedule; those to be visited
  std::vector<OpenRunRecord> open_;                           // for the next check
  // Schedule → run → its failed events.
  std::map<std::string, std::map<std::string, Evidence>> letters_;
  absl::Time letters_to_, last_letter_;
  bool too_many_letters_ = false, letters_cut_ = false;  // by their number, and by their bytes
  size_t letter_bytes_ = 0;
  // Schedules that are being visited, and the one whose turn it is.
  std::vector<StoredSchedule> chunk_;
  size_t at_ = 0;
  VisitSchedulesNext next_;
  std::set<std::string> seen_;              // visited schedules with problems
  std::vector<OpenRunRecord> of_schedule_;  // for the next check, of the present schedule
  std::set<std::string> counted_;           // its runs that have ended and count as failed
  std::deque<Range> ranges_;                // occurrences of the present schedule to account for
  std::deque<v1::Occurrence> occurrences_;
  bool any_late_ = false, any_at_risk_ = false;
  size_t asked_ = 0;                             // occurrences of which more was read
  bool was_late_ = false, was_at_risk_ = false;  // when its turn came
  News news_;
};

}  // namespace

std::shared_ptr<void> CheckSubscription(const SubscriptionWorld& world, kv::Entry row,
                                        absl::AnyInvocable<void(absl::Status)> done) {
  auto check = std::make_shared<Check>(world, std::move(row), std::move(done));
  check->Start();
  return check;
}

}  // namespace escapement::master
