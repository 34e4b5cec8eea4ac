#include "tests/simulation/actors/schedule_user.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "escapement/v1/run_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "google/protobuf/util/time_util.h"
#include "tests/simulation/actors/message_parts.h"

namespace escapement::simulation {

void ScheduleUser::Start() {
  calls_.After(calls_.Between(absl::ZeroDuration(), options_.first_call_max), [this] { Create(); });
}

void ScheduleUser::Next() {
  if (!options_.changes && !finishing_) {
    calls_.After(absl::Seconds(1), [this] { Next(); });
    return;
  }
  calls_.After(
      finishing_ ? absl::ZeroDuration() : calls_.Between(options_.rest_min, options_.rest_max),
      [this] {
        if (finishing_) {
          if (state_ == State::kNone) {
            finished_ = true;
            return;
          }
          // Half of the paused schedules are deleted while rows wait for the resume.
          return state_ == State::kPaused && calls_.random().Below(2) == 0 ? Resume() : Delete();
        }
        if (state_ == State::kNone) return Create();
        if (options_.cancels && calls_.random().Below(8) == 0) return CancelRun();
        const uint64_t lot = calls_.random().Below(100);
        if (lot < 6) return Delete();
        if (lot < 36) return Update();
        if (state_ == State::kPaused) {
          if (lot < 50) return Trigger();
          return options_.times && lot < 60 ? BackfillRange() : Resume();
        }
        // A schedule that may have no more occurrences would refuse a pause or trigger. An earlier
        // try of the same call may have taken effect even so.
        if (MayFinish(current_, lives_.back().changes.front().called, calls_.Now()))
          return Update();
        if (options_.times && lot >= 82) return BackfillRange();
        return lot < 62 ? Pause() : Trigger();
      });
}

template <typename T>
void ScheduleUser::Change(ScheduleChange change, State state, UserCalls::Invoke<T> invoke,
                          std::function<void(const T&)> then) {
  change.called = calls_.Now();
  calls_.UntilKnown<T>(std::move(invoke), [this, change, state, then = std::move(then)](
                                              absl::StatusOr<T> answer) mutable {
    if (!answer.ok()) {
      Complain(absl::StrCat("a change (", Describe(change.definition), ")"), answer.status());
      return Next();
    }
    if (change.kind == ScheduleChange::Kind::kCreate ||
        change.kind == ScheduleChange::Kind::kUpdate)
      current_ = change.definition;
    change.answered = calls_.Now();
    if (then) then(*answer);
    static constexpr absl::string_view kKinds[] = {"created", "updated", "paused", "resumed",
                                                   "deleted"};
    calls_.Note(absl::StrCat(lives_.back().uid, " ", kKinds[static_cast<int>(change.kind)],
                             " since ", absl::FormatDuration(change.answered - change.called), " ",
                             Describe(change.definition)));
    lives_.back().changes.push_back(std::move(change));
    state_ = state;
    Next();
  });
}

void ScheduleUser::Create() {
  if (options_.throttling.has_value() && !options_.throttling->ready()) {
    calls_.After(absl::Milliseconds(300), [this] { Create(); });
    return;
  }
  may_drop_ = false;
  const Definition definition = DrawDefinition();
  v1::CreateScheduleRequest request;
  request.set_parent(calls_.parent());
  request.set_schedule_id(options_.id);
  *request.mutable_schedule() = Message(definition);
  request.set_request_id(calls_.NewRequestId());
  ScheduleChange change;
  change.kind = ScheduleChange::Kind::kCreate;
  change.definition = definition;
  Change<v1::Schedule>(
      change, State::kEnabled,
      [request](MasterApis& master, auto done) {
        master.schedules->CreateSchedule(request, std::move(done));
      },
      [this](const v1::Schedule& made) {
        lives_.push_back({.id = options_.id, .uid = made.uid(), .changes = {}, .triggered = {}});
        lives_.back().target = options_.target;
        lives_.back().may_drop = may_drop_;
      });
}

void ScheduleUser::Update() {
  const Definition definition = DrawDefinition();
  v1::UpdateScheduleRequest request;
  *request.mutable_schedule() = Message(definition);
  request.mutable_schedule()->set_name(Name());
  for (const char* path : {"time_zone", "event_count", "payload"})
    request.mutable_update_mask()->add_paths(path);
  for (const std::string& path :
       options_.times ? TimesPaths(request.schedule()) : std::vector<std::string>{"cron"})
    request.mutable_update_mask()->add_paths(path);
  if (options_.throttling.has_value()) {
    for (const char* path : {"policy", "policy_key", "limits", "window", "completion"})
      request.mutable_update_mask()->add_paths(path);
    if (options_.times) request.mutable_update_mask()->add_paths("priority");
    lives_.back().may_drop = may_drop_;
  }
  request.set_request_id(calls_.NewRequestId());
  ScheduleChange change;
  change.kind = ScheduleChange::Kind::kUpdate;
  change.definition = definition;
  Change<v1::Schedule>(change, state_, [request](MasterApis& master, auto done) {
    master.schedules->UpdateSchedule(request, std::move(done));
  });
}

void ScheduleUser::Pause() {
  v1::PauseScheduleRequest request;
  request.set_name(Name());
  request.set_reason("simulated");
  request.set_request_id(calls_.NewRequestId());
  ScheduleChange change;
  change.kind = ScheduleChange::Kind::kPause;
  Change<v1::Schedule>(change, State::kPaused, [request](MasterApis& master, auto done) {
    master.schedules->PauseSchedule(request, std::move(done));
  });
}

void ScheduleUser::Resume() {
  v1::ResumeScheduleRequest request;
  request.set_name(Name());
  request.set_request_id(calls_.NewRequestId());
  ScheduleChange change;
  change.kind = ScheduleChange::Kind::kResume;
  Change<v1::Schedule>(change, State::kEnabled, [request](MasterApis& master, auto done) {
    master.schedules->ResumeSchedule(request, std::move(done));
  });
}

void ScheduleUser::Delete() {
  v1::DeleteScheduleRequest request;
  request.set_name(Name());
  request.set_request_id(calls_.NewRequestId());
  ScheduleChange change;
  change.kind = ScheduleChange::Kind::kDelete;
  Change<google::protobuf::Empty>(change, State::kNone, [request](MasterApis& master, auto done) {
    master.schedules->DeleteSchedule(request, std::move(done));
  });
}

void ScheduleUser::Trigger() {
  v1::TriggerScheduleRequest request;
  request.set_name(Name());
  if (calls_.random().Below(2) == 0)
    request.set_event_count(1 + static_cast<int64_t>(calls_.random().Below(5)));
  request.set_request_id(calls_.NewRequestId());
  const absl::Time called = calls_.Now();
  calls_.UntilKnown<v1::Run>(
      [request](MasterApis& master, auto done) {
        master.schedules->TriggerSchedule(request, std::move(done));
      },
      [this, called](absl::StatusOr<v1::Run> run) {
        if (run.ok()) {
          const std::string occurrence = run->name().substr(run->name().rfind('/') + 1);
          lives_.back().triggered.push_back({occurrence, run->event_count(), called});
        } else {
          Complain("trigger", run.status());
        }
        Next();
      });
}

void ScheduleUser::BackfillRange() {
  const absl::Time called = calls_.Now();
  Backfill backfill;
  backfill.called = called;
  const auto ago = [&](absl::Time from, absl::Duration most) {
    return absl::FromUnixMicros(
        absl::ToUnixMicros(from - calls_.Between(absl::Milliseconds(100), most)));
  };
  backfill.end = ago(called, absl::Seconds(6));
  backfill.begin = ago(backfill.end, absl::Seconds(50));
  v1::BackfillScheduleRequest request;
  request.set_name(Name());
  *request.mutable_start_time() = ToTimestamp(backfill.begin);
  *request.mutable_end_time() = ToTimestamp(backfill.end);
  request.set_max_occurrences(static_cast<int32_t>(1 + calls_.random().Below(60)));
  request.set_request_id(calls_.NewRequestId());
  calls_.UntilKnown<v1::BackfillScheduleResponse>(
      [request](MasterApis& master, auto done) {
        master.schedules->BackfillSchedule(request, std::move(done));
      },
      [this, backfill](absl::StatusOr<v1::BackfillScheduleResponse> answer) mutable {
        if (answer.ok()) {
          backfill.answered = calls_.Now();
          backfill.fired = answer->fired_count();
          backfill.done_to =
              answer->has_next_start_time()
                  ? absl::FromUnixMicros(google::protobuf::util::TimeUtil::TimestampToMicroseconds(
                        answer->next_start_time()))
                  : backfill.end;
          calls_.Note(absl::StrCat(lives_.back().uid, " backfilled ", backfill.fired, " from ",
                                   absl::FormatTime(backfill.begin, absl::UTCTimeZone()), " to ",
                                   absl::FormatTime(backfill.done_to, absl::UTCTimeZone()), ", ",
                                   answer->present_count(), " were there"));
          lives_.back().backfills.push_back(backfill);
        } else {
          Complain("backfill", answer.status());
        }
        Next();
      });
}

void ScheduleUser::CancelRun() {
  v1::ListRunsRequest request;
  request.set_parent(Name());
  request.set_order_by("nominal_time desc");
  request.set_filter("state = ACTIVE");
  request.set_page_size(5);
  calls_.UntilKnown<v1::ListRunsResponse>(
      [request](MasterApis& master, auto done) { master.runs->ListRuns(request, std::move(done)); },
      [this](absl::StatusOr<v1::ListRunsResponse> page) {
        if (!page.ok()) Complain("a list of runs", page.status());
        if (!page.ok() || page->runs().empty()) return Next();
        const auto lot = calls_.random().Below(static_cast<uint64_t>(page->runs_size()));
        CancelOne(page->runs(static_cast<int>(lot)).name());
      });
}

// The run may have ended since it was listed. The row of a run with one event may be moving between
// two tables just now.
void ScheduleUser::CancelOne(const std::string& run) {
  v1::CancelRunRequest request;
  request.set_name(run);
  request.set_request_id(calls_.NewRequestId());
  CancelledRun cancel;
  cancel.occurrence = run.substr(run.rfind('/') + 1);
  cancel.called = calls_.Now();
  lives_.back().cancels.push_back(cancel);
  calls_.UntilKnown<v1::Run>(
      [request](MasterApis& master, auto done) {
        master.runs->CancelRun(request, std::move(done));
      },
      [this](absl::StatusOr<v1::Run> answer) {
        CancelledRun& cancel = lives_.back().cancels.back();
        cancel.cancelled = answer.ok();
        calls_.Note(absl::StrCat(lives_.back().uid, " run ", cancel.occurrence,
                                 " cancelled: ", answer.status().ToString()));
        if (!answer.ok() && !absl::IsNotFound(answer.status()) &&
            !absl::IsFailedPrecondition(answer.status()))
          Complain("a cancellation", answer.status());
        Next();
      });
}

void ScheduleUser::Complain(absl::string_view call, const absl::Status& status) {
  complaints_.push_back(absl::StrCat(call, " of ", options_.id, " at ",
                                     absl::FormatTime(calls_.Now(), absl::UTCTimeZone()), ": ",
                                     status.ToString()));
}

Definition ScheduleUser::DrawDefinition() {
  Definition definition;
  definition.zone = options_.zones[calls_.random().Below(options_.zones.size())];
  bool frequent = false;
  definition.cron = DrawCron(&frequent);
  if (options_.throttling.has_value()) {
    DrawThrottle(&frequent, &definition);
    if (options_.times) DrawTimes(calls_.random(), calls_.Now(), frequent, &definition);
    return definition;
  }
  const uint64_t lot = calls_.random().Below(10);
  definition.count =
      lot < 5 ? 1
              : 1 + static_cast<int64_t>(calls_.random().Below(lot < 8 ? 4 : options_.count_max));
  if (options_.times) DrawTimes(calls_.random(), calls_.Now(), frequent, &definition);
  return definition;
}

void ScheduleUser::DrawThrottle(bool* frequent, Definition* definition) {
  sim::SimRandom& random = calls_.random();
  const Throttling& throttling = *options_.throttling;
  throttle_.Clear();
  // Batches at a few times rather than a trickle.
  if (!options_.times) {
    definition->cron = absl::StrCat(random.Below(20), ",", 20 + random.Below(40), " * * * * *");
  } else if (random.Below(3) > 0) {
    // The three seconds are far apart, so no exclusion removes every occurrence.
    definition->cron = absl::StrCat(random.Below(20), ",", 20 + random.Below(20), ",",
                                    40 + random.Below(20), " * * * * *");
    *frequent = true;
  }
  const uint64_t lot = random.Below(10);
  const int64_t most = lot < 5 ? 20 : lot < 9 ? throttling.count_max / 8 : throttling.count_max;
  definition->count = 1 + static_cast<int64_t>(random.Below(static_cast<uint64_t>(most)));
  if (throttling.batch > 0) {
    const absl::CivilSecond soon =
        absl::ToCivilSecond(calls_.Now() + absl::Seconds(15), absl::UTCTimeZone());
    definition->zone = "UTC";
    definition->cron = absl::StrCat(soon.second(), " ", soon.minute(), " * * * *");
    definition->count = throttling.batch;
  }
  // One definition in twelve is not throttled.
  if (throttling.batch == 0 && random.Below(12) == 0) return;
  // Some have no policy, but still a window or a completion.
  const bool alone = throttling.batch == 0 && random.Below(6) == 0;
  if (!alone) {
    SetLimits(throttling.policies, throttling.several, random.Next(), &throttle_);
  }
  const uint64_t completion = random.Below(4);
  if (alone || completion == 0) {
    throttle_.set_completion(v1::ON_RELEASE);
  } else if (completion == 1) {
    throttle_.set_completion(v1::ON_DELIVERY);
  }
  if (throttling.batch == 0 && random.Below(2) == 0) DrawWindow(definition);
}

void ScheduleUser::DrawWindow(Definition* definition) {
  sim::SimRandom& random = calls_.random();
  v1::Window& window = *throttle_.mutable_window();
  const auto seconds = static_cast<int64_t>(1 + random.Below(20));
  window.mutable_duration()->set_seconds(seconds);
  if (random.Below(2) == 0) {
    window.set_pacing(v1::Window::EVEN);
    definition->paced = absl::Seconds(seconds);
  }
  switch (random.Below(3)) {
    case 0:
      window.set_on_close(v1::Window::DROP);
      may_drop_ = true;
      break;
    case 1:
      window.set_on_close(v1::Window::CARRY_OVER);
      break;
    default:
      break;  // FINISH_LATE
  }
}

std::string ScheduleUser::DrawCron(bool* frequent) {
  sim::SimRandom& random = calls_.random();
  // Times of day in the next minutes, in a zone whose offset is whole hours.
  const absl::CivilSecond soon =
      absl::ToCivilSecond(calls_.Now() + absl::Seconds(5 + static_cast<int64_t>(random.Below(60))),
                          absl::UTCTimeZone());
  if (options_.leap > absl::ZeroDuration()) {
    const uint64_t second = random.Below(60);
    if (random.Below(2) == 0) return absl::StrCat(soon.second(), " ", soon.minute(), " * * * *");
    return options_.leap > absl::Hours(1) ? absl::StrCat(second, " */20 * * * *")
                                          : absl::StrCat(second, " * * * * *");
  }
  if (options_.minute_lists && random.Below(4) == 0) return DrawMinuteList();
  const uint64_t kind = random.Below(6);
  *frequent = kind < 3;
  switch (kind) {
    case 0:
      return absl::StrCat("*/", 2 + random.Below(9), " * * * * *");
    case 1:
      return absl::StrCat(random.Below(20), ",", 20 + random.Below(20), ",", 40 + random.Below(20),
                          " * * * * *");
    case 2:
      return absl::StrCat(random.Below(30), "-59/", 3 + random.Below(9), " * * * * *");
    case 3:
      return "* * * * *";
    case 4:
      return absl::StrCat(soon.second(), " ", soon.minute(), " * * * *");
    default:
      return absl::StrCat(soon.second(), " ", soon.minute(), " ",
                          (soon.hour() + random.Below(4)) % 24, " ", soon.day(), " ", soon.month(),
                          " *");
  }
}

// The list may span the end of an hour. Then the child of a later minute stands before the child of
// an earlier one.
std::string ScheduleUser::DrawMinuteList() {
  sim::SimRandom& random = calls_.random();
  const int minute = absl::ToCivilMinute(calls_.Now(), absl::UTCTimeZone()).minute();
  std::vector<int> minutes;
  for (int ahead = 0; ahead < 6; ++ahead) {
    if (ahead == 1 || random.Below(2) == 0) minutes.push_back((minute + ahead) % 60);
  }
  std::sort(minutes.begin(), minutes.end());
  return absl::StrCat(random.Below(30), ",", 30 + random.Below(30), " ",
                      absl::StrJoin(minutes, ","), " * * * *");
}

v1::Schedule ScheduleUser::Message(const Definition& definition) {
  v1::Schedule schedule;
  ++definitions_;
  if (options_.times) {
    SetTimes(definition, definitions_ % 4 == 0, &schedule);
  } else {
    schedule.set_cron(definition.cron);
  }
  schedule.set_time_zone(definition.zone);
  schedule.set_event_count(definition.count);
  schedule.set_priority(static_cast<int32_t>(calls_.random().Below(10)));
  schedule.set_payload(absl::StrCat("definition ", definitions_, " of ", options_.id));
  // Throttled schedules have short hold times, so they get the short timeout, too.
  const bool throttled = throttle_.ByteSizeLong() > 0;
  SetDelivery(&schedule, throttled ? kDeliveryTimeout : DeliveryTimeoutOf(definitions_));
  // Two thirds retry past their next occurrence, which is never far away.
  schedule.mutable_retry_policy()->set_keep(definitions_ % 3 != 0);
  *schedule.mutable_target() = TargetOfKind(options_.kind, options_.target);
  schedule.MergeFrom(throttle_);
  return schedule;
}

}  // namespace escapement::simulation
