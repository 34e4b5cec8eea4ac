#include "tests/accounts/day.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/proto_time.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/policy_service.pb.h"

namespace escapement::accounts {
namespace {

using kv::ColumnFamily;
using simulation::MasterApis;

constexpr absl::Duration kQuiet = absl::Minutes(15);  // at the end
constexpr absl::Duration kCallTimeout = absl::Seconds(3);
constexpr absl::Duration kPageTimeout = absl::Minutes(2);
constexpr int64_t kBatch = 500;  // schedules that are created together
constexpr size_t kBreachesShown = 40;
constexpr int kPolicies = 3;
// The handlers' circuit breakers may hold events back so long after a target is up again.
constexpr absl::Duration kBreaker = absl::Minutes(2);

absl::Time TimeOf(const google::protobuf::Timestamp& stamp) {
  return absl::FromUnixSeconds(stamp.seconds()) + absl::Nanoseconds(stamp.nanos());
}

std::string NameOf(uint32_t number) {
  return absl::StrCat("tenants/default/schedules/", IdOf(number));
}

std::string TextOf(const Traits& traits) {
  return absl::StrCat("(target ", static_cast<int>(traits.target), ", overlap ",
                      static_cast<int>(traits.overlap), ", misfire ",
                      static_cast<int>(traits.misfire), ", ", traits.events, " events, policy ",
                      traits.policy, ")");
}

v1::ThrottlePolicy PolicyAt(int i) {
  v1::ThrottlePolicy policy;
  if (i == 0) policy.set_max_concurrent(200);
  if (i == 1) policy.set_max_per_second(50);
  if (i == 2) {
    policy.set_max_concurrent(500);
    policy.mutable_per_key()->set_max_concurrent(20);
  }
  return policy;
}

}  // namespace

Day::Day(DayOptions options)
    : options_(std::move(options)),
      quiet_from_(options_.start + options_.length - kQuiet),
      schedules_(options_.schedules),
      random_(options_.seed, "day") {
  std::vector<std::pair<absl::Time, absl::Time>> down;
  for (int quarter = 0; quarter < 4; ++quarter) {
    const absl::Time from = options_.start + options_.length * (quarter * 2 + 1) / 9;
    down.emplace_back(from, from + std::min(options_.length / 18, absl::Minutes(15)));
  }
  down_ = Windows(std::move(down));
  world_ = std::make_unique<AccountsWorld>(
      options_.seed, options_.start,
      [this](uint32_t number) -> const Traits& { return schedules_[number].life.traits; },
      [this] { return down_.Meets(world_->Now(), world_->Now()); });
}

Day::~Day() = default;

absl::Duration Day::DrawDuration(absl::Duration low, absl::Duration high) {
  const double part = static_cast<double>(random_.Below(1'000'000)) / 1e6;
  return low * std::pow(absl::FDivDuration(high, low), part);
}

Traits Day::DrawTraits() {
  Traits traits;
  const uint64_t misfire = random_.Below(100);
  traits.misfire = misfire < 60   ? Traits::Misfire::kFireAll
                   : misfire < 80 ? Traits::Misfire::kFireLatest
                                  : Traits::Misfire::kSkip;
  if (random_.Below(100) < 30) traits.catch_up = 3;
  if (random_.Below(1000) < 5) {
    traits.target = Traits::Target::kSlow;
    traits.overlap = random_.Below(2) == 0 ? Traits::Overlap::kSkip : Traits::Overlap::kBufferOne;
    return traits;
  }
  const uint64_t target = random_.Below(100);
  if (target < 3) traits.target = Traits::Target::kRefuses;
  if (target >= 3 && target < 7) traits.target = Traits::Target::kFlaky;
  if (target >= 7 && target < 11) traits.target = Traits::Target::kDown;
  if (random_.Below(100) < 10) traits.events = 2 + static_cast<int>(random_.Below(6));
  const uint64_t way = random_.Below(100);
  if (way < 4) traits.overlap = Traits::Overlap::kSkip;
  if (way >= 4 && way < 8) traits.overlap = Traits::Overlap::kBufferOne;
  if (way >= 8 && way < 20) traits.policy = static_cast<int>(random_.Below(kPolicies));
  return traits;
}

Times Day::DrawTimes(const Traits& traits) {
  const auto below = [this](int bound) {
    return static_cast<int>(random_.Below(static_cast<uint64_t>(bound)));
  };
  Times times;
  times.zone = below(kZones);
  times.hour = below(24);
  times.minute = below(60);
  times.second = below(60);
  if (traits.target == Traits::Target::kSlow) {
    times.kind = Times::Kind::kMinutes;
    times.every = 2;
    return times;
  }
  const int kind = below(100);
  if (kind < 25) {
    times.kind = Times::Kind::kDaily;
    // Some in the hours that changes of clocks leave out or repeat.
    if (below(4) == 0) times.hour = 1 + below(3);
  } else if (kind < 55) {
    times.kind = Times::Kind::kHourly;
  } else if (kind < 75) {
    times.kind = Times::Kind::kMinutes;
    times.every = std::array{15, 20, 30}[static_cast<size_t>(below(3))];
  } else if (kind < 90) {
    times.kind = Times::Kind::kInterval;
    times.every = 600 + below(7200);
    times.anchor = options_.start + absl::Seconds(below(100'000) - 50'000);
  } else {
    times.kind = Times::Kind::kList;
    std::set<absl::Time> list = {options_.start + options_.length + absl::Hours(24)};
    const int64_t range = absl::ToInt64Seconds(options_.length);
    for (int i = below(15); i >= 0; --i)
      list.insert(options_.start + absl::Seconds(below(static_cast<int>(range))));
    times.list.assign(list.begin(), list.end());
  }
  return times;
}

void Day::CreatePolicies() {
  for (int i = 0; i < kPolicies; ++i) {
    v1::CreatePolicyRequest request;
    request.set_parent("tenants/default");
    request.set_policy_id(absl::StrCat("p", i));
    *request.mutable_policy() = PolicyAt(i);
    const auto made =
        world_->Call<v1::ThrottlePolicy>(kCallTimeout, [request](MasterApis& apis, auto done) {
          apis.policies->CreatePolicy(request, std::move(done));
        });
    if (!made.ok()) complaints_.push_back(made.status().ToString());
  }
}

v1::CreateScheduleRequest Day::CreateRequest(uint32_t number, const Times& times) const {
  const Traits& traits = schedules_[number].life.traits;
  v1::CreateScheduleRequest request;
  request.set_parent("tenants/default");
  request.set_schedule_id(IdOf(number));
  v1::Schedule& schedule = *request.mutable_schedule();
  times.Write(schedule);
  static constexpr const char* kTargets[] = {"accepts", "refuses", "flaky", "down", "slow"};
  schedule.mutable_target()->mutable_http()->set_uri(
      absl::StrCat("http://", kTargets[static_cast<int>(traits.target)], "/"));
  schedule.set_event_count(traits.events);
  if (traits.target == Traits::Target::kSlow) schedule.mutable_delivery_timeout()->set_seconds(300);
  if (traits.misfire == Traits::Misfire::kFireLatest)
    schedule.mutable_misfire_policy()->set_action(v1::MisfirePolicy::FIRE_LATEST);
  if (traits.misfire == Traits::Misfire::kSkip)
    schedule.mutable_misfire_policy()->set_action(v1::MisfirePolicy::SKIP);
  schedule.mutable_misfire_policy()->set_max_catch_up(static_cast<int32_t>(traits.catch_up));
  if (traits.overlap == Traits::Overlap::kSkip) schedule.set_overlap_policy(v1::Schedule::SKIP);
  if (traits.overlap == Traits::Overlap::kBufferOne)
    schedule.set_overlap_policy(v1::Schedule::BUFFER_ONE);
  if (traits.policy >= 0) {
    schedule.set_policy(absl::StrCat("p", traits.policy));
    if (traits.policy == 2) schedule.set_policy_key(absl::StrCat("k", number % 50));
    schedule.set_completion(number % 2 == 0 ? v1::ON_DELIVERY : v1::ON_RELEASE);
  }
  return request;
}

void Day::OnCreated(uint32_t number, const Times& times, absl::Time called,
                    const v1::Schedule& created) {
  Schedule& schedule = schedules_[number];
  schedule.uid = created.uid();
  numbers_[schedule.uid] = number;
  schedule.life.pauses.clear();
  schedule.life.versions = {{.from = TimeOf(created.create_time()),
                             .called = called,
                             .answered = world_->Now(),
                             .times = times}};
  if (schedule.life.versions[0].from < called || schedule.life.versions[0].from > world_->Now())
    complaints_.push_back(absl::StrCat(NameOf(number), " was created at another time"));
  ++created_;
}

void Day::CreateAll() {
  for (uint32_t next = 0; next < options_.schedules;) {
    v1::BatchCreateSchedulesRequest request;
    request.set_parent("tenants/default");
    const uint32_t first = next;
    std::vector<Times> times;
    for (; next < options_.schedules && request.requests_size() < kBatch; ++next) {
      Life& life = schedules_[next].life;
      life.traits = DrawTraits();
      times.push_back(DrawTimes(life.traits));
      *request.add_requests() = CreateRequest(next, times.back());
    }
    const absl::Time called = world_->Now();
    const auto made = world_->Call<v1::BatchCreateSchedulesResponse>(
        kPageTimeout, [&request](MasterApis& apis, auto done) {
          apis.schedules->BatchCreateSchedules(request, std::move(done));
        });
    if (!made.ok() || made->results_size() != request.requests_size()) {
      complaints_.push_back(absl::StrCat("schedules were not created: ", made.status().ToString()));
      return;
    }
    for (uint32_t i = first; i < next; ++i) {
      const v1::ScheduleResult& result = made->results(static_cast<int>(i - first));
      if (result.has_error()) complaints_.push_back(result.error().ShortDebugString());
      OnCreated(i, times[i - first], called, result.schedule());
    }
  }
}

template <typename Request, typename Response>
void Day::Send(uint32_t number, void (master::ScheduleApi::*method)(Request, Done<Response>),
               Request request, std::function<void(absl::Time called, const Response&)> done) {
  ++schedules_[number].changing;
  request.set_request_id(absl::StrCat("r", ++requests_));
  world_->UntilKnown<Response>(
      kCallTimeout,
      [method, request](MasterApis& apis, auto answer) {
        (apis.schedules->*method)(request, std::move(answer));
      },
      [this, number, called = world_->Now(), done](const absl::StatusOr<Response>& answer) {
        --schedules_[number].changing;
        schedules_[number].changed = world_->Now();
        if (!answer.ok()) {
          complaints_.push_back(absl::StrCat(NameOf(number), ": ", answer.status().ToString()));
          return;
        }
        done(called, *answer);
      });
}

void Day::ChangeLater() {
  const absl::Duration mean = absl::Hours(1) / (options_.changes * options_.schedules);
  world_->world.After(DrawDuration(mean / 4, mean * 2.5), "change", [this] {
    if (!Faulty()) return;
    Change(static_cast<uint32_t>(random_.Below(options_.schedules)));
    ChangeLater();
  });
}

void Day::Change(uint32_t number) {
  const Schedule& schedule = schedules_[number];
  if (schedule.changing > 0) return;
  if (schedule.uid.empty()) return Create(number);
  const bool paused = !schedule.life.pauses.empty() &&
                      schedule.life.pauses.back().resumed == absl::InfiniteFuture();
  const uint64_t what = random_.Below(100);
  if (schedule.life.traits.target == Traits::Target::kSlow || what < 40) {
    if (!paused) Pause(number);
  } else if (what < 88) {
    Update(number);
  } else {
    Delete(number);
  }
}

void Day::Create(uint32_t number) {
  const Times times = DrawTimes(schedules_[number].life.traits);
  Send<v1::CreateScheduleRequest, v1::Schedule>(
      number, &master::ScheduleApi::CreateSchedule, CreateRequest(number, times),
      [this, number, times](absl::Time called, const v1::Schedule& created) {
        OnCreated(number, times, called, created);
      });
}

void Day::Update(uint32_t number) {
  const Times times = DrawTimes(schedules_[number].life.traits);
  v1::UpdateScheduleRequest request;
  request.mutable_schedule()->set_name(NameOf(number));
  times.Write(*request.mutable_schedule());
  Send<v1::UpdateScheduleRequest, v1::Schedule>(
      number, &master::ScheduleApi::UpdateSchedule, request,
      [this, number, times](absl::Time called, const v1::Schedule& updated) {
        ++updates_;
        Version version = {.from = TimeOf(updated.update_time()),
                           .called = called,
                           .answered = world_->Now(),
                           .times = times};
        if (version.from < called || version.from > version.answered)
          complaints_.push_back(absl::StrCat(NameOf(number), " was updated at another time"));
        schedules_[number].life.versions.push_back(std::move(version));
      });
}

void Day::Pause(uint32_t number) {
  v1::PauseScheduleRequest request;
  request.set_name(NameOf(number));
  const absl::Duration after = random_.Below(20) == 0
                                   ? absl::InfiniteDuration()
                                   : DrawDuration(absl::Seconds(5), absl::Hours(2));
  Send<v1::PauseScheduleRequest, v1::Schedule>(
      number, &master::ScheduleApi::PauseSchedule, request,
      [this, number, after](absl::Time called, const v1::Schedule&) {
        ++pauses_;
        Schedule& schedule = schedules_[number];
        schedule.life.pauses.push_back({.called = called, .answered = world_->Now()});
        if (after != absl::InfiniteDuration())
          ResumeLater(number, schedule.life.pauses.size() - 1, schedule.uid, after);
      });
}

void Day::ResumeLater(uint32_t number, size_t pause, const std::string& uid, absl::Duration after) {
  world_->world.After(after, "resume", [this, number, pause, uid] {
    if (schedules_[number].uid != uid || !Faulty()) return;
    if (schedules_[number].changing > 0) return ResumeLater(number, pause, uid, absl::Seconds(1));
    v1::ResumeScheduleRequest request;
    request.set_name(NameOf(number));
    Send<v1::ResumeScheduleRequest, v1::Schedule>(
        number, &master::ScheduleApi::ResumeSchedule, request,
        [this, number, pause](absl::Time called, const v1::Schedule&) {
          ++resumes_;
          accounts::Pause& ended = schedules_[number].life.pauses[pause];
          ended.resume_called = called;
          ended.resumed = world_->Now();
        });
  });
}

void Day::Delete(uint32_t number) {
  v1::DeleteScheduleRequest request;
  request.set_name(NameOf(number));
  Send<v1::DeleteScheduleRequest, google::protobuf::Empty>(
      number, &master::ScheduleApi::DeleteSchedule, request,
      [this, number](absl::Time, const google::protobuf::Empty&) {
        ++deletes_;
        Schedule& schedule = schedules_[number];
        schedule.uid.clear();
        schedule.life.versions.clear();
        schedule.life.pauses.clear();
      });
}

void Day::FaultLater(AccountsWorld::Service service, int i) {
  const absl::Duration after = DrawDuration(options_.fault_every / 5, options_.fault_every * 2.4);
  world_->world.After(after, "fault", [this, service, i] {
    if (!Faulty()) return;
    const absl::Duration away = DrawDuration(absl::Milliseconds(300), absl::Minutes(4));
    if (random_.Below(100) < 60) {
      Kill(service, i, away);
    } else {
      Freeze(service, i, away);
    }
    FaultLater(service, i);
  });
}

void Day::OutageLater(AccountsWorld::Service service) {
  const absl::Duration after = DrawDuration(options_.outage_every / 5, options_.outage_every * 2.4);
  world_->world.After(after, "outage", [this, service] {
    if (!Faulty()) return;
    ++outages_;
    const absl::Duration down = DrawDuration(absl::Seconds(30), absl::Minutes(6));
    for (int i = 0; i < AccountsWorld::kHosts; ++i) Kill(service, i, down);
    OutageLater(service);
  });
}

// One that is dead stays dead until its own time has come.
void Day::Kill(AccountsWorld::Service service, int i, absl::Duration down) {
  Host& host = hosts_[service][static_cast<size_t>(i)];
  if (host.killed.has_value()) return;
  ++kills_;
  TraceFault("is killed", service, i, down);
  host.killed = world_->Now();
  if (!host.away.empty()) {
    auto& [begin, end] = host.away.back();
    if (end > world_->Now()) host.killed = begin;  // it was frozen
    end = std::min(end, world_->Now());
  }
  world_->host(service, i).Kill();
  world_->world.After(down, "start", [this, service, i] { Start(service, i); });
}

void Day::Start(AccountsWorld::Service service, int i) {
  Host& host = hosts_[service][static_cast<size_t>(i)];
  host.away.emplace_back(*host.killed, world_->Now());
  host.killed.reset();
  world_->host(service, i).Start();
}

void Day::Freeze(AccountsWorld::Service service, int i, absl::Duration frozen) {
  Host& host = hosts_[service][static_cast<size_t>(i)];
  if (host.killed.has_value()) return;
  ++freezes_;
  TraceFault("is frozen", service, i, frozen);
  host.away.emplace_back(world_->Now(), world_->Now() + frozen);
  world_->host(service, i).Pause(frozen);
}

void Day::TraceFault(const char* what, AccountsWorld::Service service, int i,
                     absl::Duration duration) const {
  options_.trace(absl::StrCat(
      absl::FormatTime("%d %H:%M:%E3S ", world_->Now(), absl::UTCTimeZone()),
      world_->host(service, i).name(), " ", what, " for ", absl::FormatDuration(duration)));
}

Windows Day::Away(AccountsWorld::Service service, absl::Duration longer) const {
  std::vector<std::pair<absl::Time, absl::Time>> away;
  for (const Host& host : hosts_[service]) {
    for (const auto& [begin, end] : host.away) away.emplace_back(begin, end + longer);
    if (host.killed.has_value()) away.emplace_back(*host.killed, world_->Now() + absl::Hours(1));
  }
  return Windows(std::move(away));
}

Faults Day::FaultsSoFar() const {
  Faults faults;
  // Until leases have ended, and what the former owner has sent.
  faults.emission = Away(AccountsWorld::kEmitter, absl::Seconds(20));
  faults.delivery = Away(AccountsWorld::kHandler, absl::Seconds(40));
  faults.tokens = Away(AccountsWorld::kTokenManager, absl::Seconds(30));
  faults.down = Windows(down_, kBreaker);
  for (const Host& host : hosts_[AccountsWorld::kHandler]) {
    for (const auto& [begin, end] : host.away) faults.lost_handlers.push_back(begin);
    if (host.killed.has_value()) faults.lost_handlers.push_back(*host.killed);
  }
  std::array<Windows, AccountsWorld::kHosts> emitters;
  for (size_t i = 0; i < emitters.size(); ++i)
    emitters[i] = Windows(hosts_[AccountsWorld::kEmitter][i].away);
  faults.no_emitter = Windows::Common(emitters[0], emitters[1]);
  return faults;
}

Account Day::Run() {
  CreatePolicies();
  CreateAll();
  options_.say(absl::StrCat(created_, " schedules created, in ",
                            absl::FormatDuration(world_->Now() - options_.start)));
  for (int service = 0; service < AccountsWorld::kServices; ++service) {
    const auto each = static_cast<AccountsWorld::Service>(service);
    for (int i = 0; i < AccountsWorld::kHosts; ++i) FaultLater(each, i);
    OutageLater(each);
  }
  ChangeLater();
  Account all;
  const auto add = [&](const Account& account) {
    all.breach_count += account.breach_count;
    for (const std::string& breach : account.breaches) {
      if (all.breaches.size() < kBreachesShown) all.breaches.push_back(breach);
    }
  };
  const absl::Time end = options_.start + options_.length;
  for (int i = 1; i <= options_.accounts + 1; ++i) {
    const absl::Time next = i <= options_.accounts
                                ? options_.start + options_.length * i / (options_.accounts + 1.0)
                                : end;
    while (world_->Now() < next) {
      world_->world.RunUntil(std::min(next, world_->Now() + absl::Minutes(30)));
      options_.say(absl::StrCat(absl::FormatTime("%H:%M", world_->Now(), absl::UTCTimeZone()), ", ",
                                world_->attempts(), " attempts"));
    }
    Account account =
        Ask(i <= options_.accounts ? std::max(options_.start, world_->Now() - absl::Hours(2))
                                   : options_.start);
    options_.say(absl::StrCat(account.occurrences, " occurrences accounted for, ",
                              account.breach_count, " breaches"));
    add(account);
    if (i > options_.accounts) {
      all.schedules = account.schedules;
      all.occurrences = account.occurrences;
      all.unjudged = account.unjudged;
      all.counts = std::move(account.counts);
      all.unaccounted = std::move(account.unaccounted);
    }
  }
  for (std::string& complaint : complaints_) AddBreach(std::move(complaint), all);
  return all;
}

Account Day::Ask(absl::Time begin) {
  Account account;
  AccountTimes times = {
      .begin = begin, .end = world_->Now() + absl::Seconds(30), .called = world_->Now()};
  v1::ListOccurrencesRequest request;
  request.set_parent("tenants/default/schedules/-");
  SetTimestamp(ToMicros(times.begin), *request.mutable_start_time());
  SetTimestamp(ToMicros(times.end), *request.mutable_end_time());
  request.set_page_size(1000);
  judged_ = 0;
  rows_.clear();
  int64_t counted = 0;
  do {
    const auto page = world_->Call<v1::ListOccurrencesResponse>(
        kPageTimeout, [&request](MasterApis& apis, auto done) {
          apis.runs->ListOccurrences(request, std::move(done));
        });
    if (!page.ok()) {
      AddBreach(absl::StrCat("an account: ", page.status().ToString()), account);
      return account;
    }
    times.answered = world_->Now();
    for (const auto& count : page->counts()) counted += count.count();
    account.schedules += page->schedule_count();
    TakePage(*page, times, FaultsSoFar(), account);
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  JudgeUpTo(options_.schedules, times, FaultsSoFar(), account);
  if (counted != account.occurrences)
    AddBreach(absl::StrCat(counted, " counted, ", account.occurrences, " shown"), account);
  return account;
}

void Day::TakePage(const v1::ListOccurrencesResponse& page, const AccountTimes& times,
                   const Faults& faults, Account& account) {
  for (const v1::Occurrence& occurrence : page.occurrences()) {
    const std::vector<absl::string_view> parts = absl::StrSplit(occurrence.run(), '/');
    const std::optional<uint32_t> number = parts.size() == 6 ? NumberOf(parts[3]) : std::nullopt;
    if (!number.has_value() || *number < judged_ || *number >= options_.schedules) {
      AddBreach(absl::StrCat(occurrence.run(), " is out of place"), account);
      continue;
    }
    JudgeUpTo(*number, times, faults, account);
    rows_.push_back({.nominal = TimeOf(occurrence.nominal_time()),
                     .result = occurrence.result(),
                     .reason = occurrence.reason()});
    ++account.occurrences;
    std::string result = v1::Occurrence::Result_Name(occurrence.result());
    if (occurrence.result() == v1::Occurrence::SKIPPED)
      absl::StrAppend(&result, " ", occurrence.reason());
    ++account.counts[result];
    if (occurrence.result() == v1::Occurrence::UNACCOUNTED)
      account.unaccounted.insert({*number, rows_.back().nominal});
  }
}

void Day::JudgeUpTo(uint32_t end, const AccountTimes& times, const Faults& faults,
                    Account& account) {
  for (; judged_ < end; ++judged_, rows_.clear()) {
    const Schedule& schedule = schedules_[judged_];
    if (schedule.changing > 0 || schedule.changed >= times.called) {
      ++account.unjudged;
      for (size_t i = 0; i < rows_.size(); ++i) {
        if (rows_[i].result == v1::Occurrence::UNACCOUNTED ||
            (i > 0 && rows_[i].nominal <= rows_[i - 1].nominal))
          AddBreach(absl::StrCat(IdOf(judged_), " ", absl::FormatTime(rows_[i].nominal)), account);
      }
      continue;
    }
    const uint32_t number = judged_;
    for (const std::string& breach :
         Judge(schedule.life, rows_, times, faults,
               [this, number](absl::Time nominal) { return world_->SeenOf(number, nominal); })) {
      AddBreach(absl::StrCat(IdOf(number), " ", TextOf(schedule.life.traits), " ", breach),
                account);
    }
  }
}

void Day::AddBreach(std::string breach, Account& account) const {
  ++account.breach_count;
  if (account.breaches.size() < kBreachesShown) account.breaches.push_back(std::move(breach));
}

std::optional<uint32_t> Day::NumberOfUid(const Uid& uid) const {
  const auto number = numbers_.find(uid.ToHex());
  if (number == numbers_.end() || schedules_[number->second].uid != number->first)
    return std::nullopt;
  return number->second;
}

bool Day::IsPlain(uint32_t number, int policy, Traits::Overlap overlap) const {
  const Life& life = schedules_[number].life;
  return life.traits.target == Traits::Target::kAccepts && life.traits.overlap == overlap &&
         (life.traits.policy >= 0) == (policy >= 0) && life.versions.size() == 1 &&
         life.pauses.empty();
}

std::set<Place> Day::LoseRows() {
  std::set<Place> lost;
  // Deletes a row that `place_of` takes, a random one of the first few.
  const auto lose = [&](ColumnFamily cf, auto place_of) {
    for (int tries = 0; tries < 3600; ++tries, world_->world.AdvanceBy(absl::Seconds(1))) {
      std::vector<std::pair<std::string, Place>> found;
      const size_t enough = 1 + random_.Below(20);
      for (const auto& [key, value] : world_->Rows(cf)) {
        const std::optional<Place> place = place_of(key, value);
        if (place.has_value() && !lost.contains(*place)) found.emplace_back(key, *place);
        if (found.size() == enough) break;
      }
      if (found.empty()) continue;
      if (world_->DeleteRow(cf, found.back().first)) lost.insert(found.back().second);
      return;
    }
  };
  const auto soon = [this](absl::Time time) { return time > world_->Now() + absl::Seconds(1); };
  const auto place = [this](const Uid& uid, int policy, Traits::Overlap overlap, bool many,
                            absl::Time nominal) -> std::optional<Place> {
    const std::optional<uint32_t> number = NumberOfUid(uid);
    if (!number.has_value() || !IsPlain(*number, policy, overlap) ||
        (schedules_[*number].life.traits.events > 1) != many)
      return std::nullopt;
    return Place{*number, nominal};
  };
  constexpr auto kAllow = Traits::Overlap::kAllow;
  lose(ColumnFamily::kDone,
       [&](const std::string& bytes, const std::string& value) -> std::optional<Place> {
         const auto key = DecodeDoneKey(bytes);
         storage::v1::DoneRecord done;
         if (!key.has_value() || !done.ParseFromString(value)) return std::nullopt;
         return place(key->uid, -1, kAllow, false, FromMicros(done.launch_time_micros()));
       });
  for (const bool many : {false, true}) {
    lose(ColumnFamily::kEvents,
         [&](const std::string& bytes, const std::string&) -> std::optional<Place> {
           const auto key = DecodeEventKey(bytes);
           if (!key.has_value() || !soon(key->due_time)) return std::nullopt;
           return place(key->uid, -1, kAllow, many, key->due_time);
         });
  }
  lose(ColumnFamily::kWaiting,
       [&](const std::string& bytes, const std::string&) -> std::optional<Place> {
         const auto key = DecodeWaitingKey(bytes);
         if (!key.has_value() || !soon(key->due_time)) return std::nullopt;
         return place(key->uid, 0, kAllow, false, key->due_time);
       });
  lose(ColumnFamily::kCheckpoints,
       [&](const std::string& bytes, const std::string&) -> std::optional<Place> {
         const auto key = DecodeLaunchKey(bytes);
         if (!key.has_value() || !soon(key->launch_time)) return std::nullopt;
         return place(key->uid, -1, Traits::Overlap::kSkip, false, key->launch_time);
       });
  world_->world.AdvanceBy(absl::Minutes(3));
  return lost;
}

std::string Day::Summary() const {
  return absl::StrFormat(
      "%d attempts, %d kills, %d of all processes of a service at once, %d freezes; "
      "%d schedules created, %d pauses, %d resumes, %d updates, %d deletions; %d simulated steps",
      world_->attempts(), kills_, outages_, freezes_, created_, pauses_, resumes_, updates_,
      deletes_, world_->world.events_run());
}

}  // namespace escapement::accounts
