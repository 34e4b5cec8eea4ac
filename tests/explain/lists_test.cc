// Lists are complete: in random histories, ListRuns, GetRun, ListOccurrences, ExplainEvent and the
// counts of schedules say the same, and leave out nothing that the store has.
//
// The history goes on with living services. Between its steps the store's rows are copied, and a
// master of its own answers over the copy, which nobody else changes.

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_random.h"
#include "common/sim/sim_runtime.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "common/tokens/token_batch.h"
#include "escapement/storage/v1/records.pb.h"
#include "gtest/gtest.h"
#include "tests/explain/explain_world.h"

namespace escapement::explain {
namespace lists_test {

using handler::DeliveryResult;
using handler::DeliveryStatus;
using kv::ColumnFamily;

constexpr char kTenant[] = "tenants/default";
constexpr int kSchedules = 4;
constexpr int kPolicies = 3;
constexpr uint64_t kSeeds = 12;
constexpr int kSteps = 30;

std::string IdOf(uint64_t schedule) { return absl::StrCat("s", schedule); }
std::string NameOf(uint64_t schedule) {
  return absl::StrCat(kTenant, "/schedules/", IdOf(schedule));
}

template <typename Chosen>
Chosen OneOf(sim::SimRandom& random, const std::vector<Chosen>& choices) {
  return choices[random.Below(choices.size())];
}

bool OneIn(sim::SimRandom& random, uint64_t n) { return random.Below(n) == 0; }

// A copy of the store's rows, with a master of its own.
class Snapshot {
 public:
  Snapshot(const kv::MemDisk& disk, absl::Time now)
      : runtime_(1, {.start_time = now}),
        disk_(std::make_shared<kv::MemDisk>(disk)),
        store_(runtime_, kv::MemKvStore::Options(), disk_) {
    master::MasterOptions options;
    options.fresh_token_key = std::string(kTokenKeyBytes, 'k');
    master_ = std::make_unique<master::MasterService>(std::move(options), store_, runtime_);
    master_->Start();
    EXPECT_TRUE(runtime_.RunUntil([this] { return master_->Ready(); }, absl::Minutes(1)));
  }

  template <typename Api, typename Request, typename Response>
  absl::StatusOr<Response> Call(void (Api::*method)(Request, Done<Response>), Request request) {
    std::optional<absl::StatusOr<Response>> answer;
    (ApiOf(static_cast<Api*>(nullptr)).*method)(
        std::move(request),
        [&](absl::StatusOr<Response> response) { answer = std::move(response); });
    if (!runtime_.RunUntil([&] { return answer.has_value(); }, absl::Minutes(5)))
      return absl::DeadlineExceededError("no answer");
    return *std::move(answer);
  }

  absl::Time Now() { return runtime_.world().Now(); }

  // The occurrences of which the store has any row, by the uid of their schedule.
  std::map<std::string, std::set<std::string>> Stored() const {
    std::map<std::string, std::set<std::string>> stored;
    const auto add = [&stored](absl::string_view uid, const std::string& occurrence) {
      if (!occurrence.empty()) stored[std::string(uid)].insert(occurrence);
    };
    const auto add_row = [&add](const std::string& key, bool waits) {
      if (waits) {
        const auto waiting = DecodeWaitingKey(key);
        if (!waiting.has_value()) return;  // a report
        const WaitingOwner owner = WaitingOwnerOf(*waiting);
        return add(owner.uid.bytes(), owner.occurrence);
      }
      const auto queued = DecodeEventKey(key);
      if (queued.has_value()) add(queued->uid.bytes(), queued->occurrence);
    };
    for (const auto& [key, value] : Rows(ColumnFamily::kEvents)) add_row(key, false);
    for (const auto& [key, value] : Rows(ColumnFamily::kWaiting)) add_row(key, true);
    for (const auto& [key, value] : Rows(ColumnFamily::kParked)) {
      storage::v1::EventRecord row;
      if (row.ParseFromString(value)) add_row(EventKeyOfParked(key), row.has_throttle());
    }
    for (const auto& [key, value] : Rows(ColumnFamily::kGrants)) {
      storage::v1::GrantRecord grant;
      if (DecodeGrantKey(key).has_value() && grant.ParseFromString(value))
        add(grant.uid(), grant.occurrence());
    }
    for (const auto& [key, value] : Rows(ColumnFamily::kInflight)) {
      storage::v1::ClaimRecord claim;
      const auto inflight = DecodeInflightKey(key);
      if (!inflight.has_value() || !inflight->is_claim() || !claim.ParseFromString(value)) continue;
      for (const auto& claimed : claim.entries()) add_row(claimed.event_key(), claimed.has_grant());
    }
    for (const auto& [key, value] : Rows(ColumnFamily::kCheckpoints)) {
      if (const auto launch = DecodeLaunchKey(key); launch.has_value())
        add(launch->uid.bytes(), launch->occurrence);
    }
    for (const auto& [key, value] : Rows(ColumnFamily::kRuns)) {
      if (const auto run = DecodeRunKey(key); run.has_value())
        add(run->uid.bytes(), run->occurrence);
    }
    for (const auto& [key, value] : Rows(ColumnFamily::kDone)) {
      if (const auto done = DecodeDoneKey(key); done.has_value())
        add(done->uid.bytes(), done->occurrence);
    }
    return stored;
  }

  // The uid of the schedule, or of the last one with this name that was deleted.
  std::string UidOf(uint64_t schedule) const {
    const auto& rows = Rows(ColumnFamily::kSchedules);
    auto row = rows.find(ScheduleKey("default", IdOf(schedule)));
    if (row == rows.end()) row = rows.find(DeletedScheduleKey("default", IdOf(schedule)));
    storage::v1::ScheduleRecord record;
    if (row == rows.end() || !record.ParseFromString(row->second)) return {};
    return record.uid();
  }

 private:
  const kv::MemDisk::Family& Rows(ColumnFamily cf) const {
    return disk_->families[static_cast<size_t>(cf)];
  }
  master::ScheduleApi& ApiOf(master::ScheduleApi*) { return master_->schedules(); }
  master::RunApi& ApiOf(master::RunApi*) { return master_->runs(); }
  master::ExplainService& ApiOf(master::ExplainService*) { return master_->explanations(); }

  sim::SimRuntime runtime_;
  const std::shared_ptr<kv::MemDisk> disk_;
  kv::MemKvStore store_;
  std::unique_ptr<master::MasterService> master_;
};

bool Open(const v1::Run& run) {
  return run.state() == v1::Run::ACTIVE || run.state() == v1::Run::UPCOMING;
}

// Compares all that one snapshot says of one schedule.
class Comparison {
 public:
  Comparison(Snapshot& snapshot, uint64_t schedule, sim::SimRandom& random)
      : snapshot_(snapshot), random_(random), name_(NameOf(schedule)), began_(snapshot.Now()) {
    const std::string uid = snapshot.UidOf(schedule);
    if (uid.empty()) return;  // it was never made
    List("", static_cast<int32_t>(1 + random.Below(OneIn(random, 8) ? 5 : 200)), forward_);
    List("nominal_time desc", 1000, backward_);
    std::reverse(backward_.begin(), backward_.end());
    for (const v1::Run& run : forward_) runs_[OccurrenceOf(run)] = &run;
    auto all = snapshot.Stored();
    Compare(all[uid]);
  }

  const std::vector<std::string>& faults() const { return faults_; }

 private:
  template <typename... Parts>
  void Fault(const Parts&... parts) {
    faults_.push_back(absl::StrCat(name_, ": ", parts...));
  }

  static std::string OccurrenceOf(const v1::Run& run) {
    return run.name().substr(run.name().rfind('/') + 1);
  }

  void List(const std::string& order, int32_t page_size, std::vector<v1::Run>& runs) {
    v1::ListRunsRequest request;
    request.set_parent(name_);
    request.set_order_by(order);
    request.set_page_size(page_size);
    do {
      const auto page = snapshot_.Call(&master::RunApi::ListRuns, request);
      if (!page.ok()) return Fault("the list was answered ", page.status().ToString());
      runs.insert(runs.end(), page->runs().begin(), page->runs().end());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
  }

  void Compare(const std::set<std::string>& stored) {
    for (size_t i = 0; i < std::max(forward_.size(), backward_.size()); ++i) {
      if (i >= forward_.size() || i >= backward_.size() || !Same(forward_[i], backward_[i]))
        return Fault("the lists of both orders differ at ", i, " of ", forward_.size(), " and ",
                     backward_.size(), " runs");
    }
    for (const std::string& occurrence : stored) {
      if (!runs_.contains(occurrence)) Fault(occurrence, " is stored and not listed");
    }
    for (const v1::Run& run : forward_) {
      if (!stored.contains(OccurrenceOf(run)))
        Fault(run.ShortDebugString(), " is listed, not stored");
      // A run that has ended is there in many steps.
      if (Open(run) || OneIn(random_, 8)) CompareGot(run);
      if (Open(run)) CheckExplained(run);
    }
    CompareCounts();
    CompareAccount();
  }

  // Time passes during the calls: a run may become due.
  bool Same(v1::Run a, v1::Run b) const {
    for (v1::Run* run : {&a, &b}) {
      run->clear_eta();
      run->clear_window();
      run->clear_report();
      const absl::Time nominal = FromMicros(TimestampMicros(run->nominal_time()).value_or(0));
      if (run->state() == v1::Run::UPCOMING && nominal > began_ - absl::Seconds(1) &&
          nominal < snapshot_.Now() + absl::Seconds(1))
        run->set_state(v1::Run::ACTIVE);
    }
    return a.SerializeAsString() == b.SerializeAsString();
  }

  absl::StatusOr<v1::Run> Get(const std::string& name) {
    v1::GetRunRequest request;
    request.set_name(name);
    return snapshot_.Call(&master::RunApi::GetRun, request);
  }

  void CompareGot(const v1::Run& run) {
    const absl::StatusOr<v1::Run> got = Get(run.name());
    if (!got.ok())
      return Fault(run.ShortDebugString(), " is listed; got: ", got.status().message());
    if (!Same(run, *got))
      Fault("listed: ", run.ShortDebugString(), "; got: ", got->ShortDebugString());
  }

  void CheckExplained(const v1::Run& run) {
    // The first event of a larger run may have ended.
    v1::ExplainEventRequest request;
    request.set_name(absl::StrCat(run.name(), "/events/0"));
    const auto answer = snapshot_.Call(&master::ExplainService::ExplainEvent, request);
    if (!answer.ok()) return Fault(run.ShortDebugString(), ": ", answer.status().message());
    if (answer->status() == v1::Event::STATUS_UNSPECIFIED)
      Fault(run.ShortDebugString(), ": ", answer->summary());
  }

  void CompareCounts() {
    v1::GetScheduleRequest request;
    request.set_name(name_);
    const auto schedule = snapshot_.Call(&master::ScheduleApi::GetSchedule, request);
    if (!schedule.ok()) return;  // it was deleted
    int64_t succeeded = 0;
    int64_t failed = 0;
    for (const v1::Run& run : forward_) {
      succeeded += run.succeeded_count();
      failed += run.failed_count();
    }
    if (succeeded != schedule->succeeded_count() || failed != schedule->failed_count())
      Fault("its runs have ", succeeded, " and ", failed, " ended events, it counts ",
            schedule->succeeded_count(), " and ", schedule->failed_count());
  }

  void CompareAccount() {
    v1::ListOccurrencesRequest request;
    request.set_parent(name_);
    request.set_page_size(1000);
    SetTimestamp(ToMicros(began_ - absl::Hours(1)), *request.mutable_start_time());
    SetTimestamp(ToMicros(began_ + absl::Seconds(30)), *request.mutable_end_time());
    do {
      const auto page = snapshot_.Call(&master::RunApi::ListOccurrences, request);
      if (absl::IsNotFound(page.status())) return;  // it was deleted
      if (!page.ok()) return Fault("the account was answered ", page.status().ToString());
      for (const v1::Occurrence& occurrence : page->occurrences()) CompareOccurrence(occurrence);
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
  }

  void CompareOccurrence(const v1::Occurrence& occurrence) {
    const auto found = runs_.find(occurrence.run().substr(occurrence.run().rfind('/') + 1));
    if (found == runs_.end()) {
      const absl::StatusOr<v1::Run> got = Get(occurrence.run());
      if (got.ok()) return Fault(got->ShortDebugString(), " is not listed");
      const bool emitted = occurrence.reason() == "it waits, or is being sent" ||
                           occurrence.result() != v1::Occurrence::PENDING;
      if (emitted && !InSummary(occurrence)) Fault(occurrence.ShortDebugString(), " is not listed");
      return;
    }
    if (!Agrees(occurrence, *found->second))
      Fault(occurrence.ShortDebugString(), " is listed as ", found->second->ShortDebugString());
  }

  bool InSummary(const v1::Occurrence& occurrence) const {
    const auto micros = [](const auto& time) { return TimestampMicros(time).value_or(0); };
    const int64_t nominal = micros(occurrence.nominal_time());
    return occurrence.result() == v1::Occurrence::SKIPPED &&
           std::any_of(forward_.begin(), forward_.end(), [&](const v1::Run& run) {
             return run.occurrence_count() > 1 && micros(run.nominal_time()) <= nominal &&
                    nominal <= micros(run.last_nominal_time());
           });
  }

  static bool Agrees(const v1::Occurrence& occurrence, const v1::Run& run) {
    const bool failed = run.failed_count() + run.expired_count() > 0;
    switch (occurrence.result()) {
      case v1::Occurrence::PENDING:
        return Open(run);
      case v1::Occurrence::SKIPPED:
        return run.state() == v1::Run::SKIPPED;
      case v1::Occurrence::FAILED:
        return run.state() == v1::Run::CANCELLED || (run.state() == v1::Run::COMPLETED && failed);
      case v1::Occurrence::ON_TIME:
      case v1::Occurrence::LATE:
        return run.state() == v1::Run::COMPLETED && !failed;
      default:
        return false;  // unaccounted
    }
  }

  Snapshot& snapshot_;
  sim::SimRandom& random_;
  const std::string name_;
  const absl::Time began_;
  std::vector<v1::Run> forward_, backward_;  // both the oldest first
  std::map<std::string, const v1::Run*> runs_;
  std::vector<std::string> faults_;
};

// Users, a consumer and faults, as one seed decides.
class History {
 public:
  explicit History(uint64_t seed) : random_(seed, "history") {
    world_.answer = [this](const handler::DeliveryAttempt&) { return Answer(); };
    for (int i = 0; i < kPolicies; ++i) {
      v1::CreatePolicyRequest request;
      request.set_parent(kTenant);
      request.set_policy_id(absl::StrCat("p", i));
      request.mutable_policy()->set_max_concurrent(1 + i);
      if (i == 1) request.mutable_policy()->mutable_per_key()->set_max_concurrent(1);
      Note("policy", world_.Call(&master::PolicyApi::CreatePolicy, request));
    }
    for (uint64_t i = 0; i < kSchedules; ++i) Create(i);
  }

  void Step() {
    log_.clear();
    for (uint64_t left = 1 + random_.Below(3); left > 0; --left) Change();
    world_.world.AdvanceBy(random_.Between(absl::Milliseconds(50), absl::Seconds(4)));
  }

  std::vector<std::string> Compare() {
    Snapshot snapshot(world_.store->disk(), world_.Now());
    std::vector<std::string> faults;
    for (uint64_t i = 0; i < kSchedules; ++i) {
      const Comparison comparison(snapshot, i, random_);
      faults.insert(faults.end(), comparison.faults().begin(), comparison.faults().end());
    }
    return faults;
  }

  const std::vector<std::string>& log() const { return log_; }

 private:
  template <typename Response>
  void Note(const std::string& what, const absl::StatusOr<Response>& answer) {
    log_.push_back(absl::StrCat(what, ": ", answer.status().ToString()));
    EXPECT_FALSE(absl::IsInternal(answer.status()) || absl::IsDataLoss(answer.status()))
        << log_.back();
  }

  std::optional<DeliveryResult> Answer() {
    DeliveryResult result;
    const uint64_t chance = random_.Below(100);
    if (chance < hangs_) return std::nullopt;
    result.status = chance < hangs_ + fails_ ? DeliveryStatus::kFailed : DeliveryStatus::kAccepted;
    if (result.status == DeliveryStatus::kFailed) result.status_code = 500;
    return result;
  }

  void SetTimes(v1::Schedule& schedule) {
    const uint64_t kind = random_.Below(6);
    if (kind == 0) {
      schedule.mutable_interval()->mutable_every()->set_seconds(1 + random_.Below(7));
      return;
    }
    if (kind == 1) {
      for (int i = 0; i < 5; ++i) {
        SetTimestamp(ToMicros(world_.Now() + random_.Between(absl::Seconds(1), absl::Seconds(60))),
                     *schedule.add_times());
      }
      return;
    }
    schedule.set_cron(OneOf<const char*>(
        random_, {"*/2 * * * * *", "*/3 * * * * *", "*/7 * * * * *", "1-20/2,33,44 * * * * *"}));
    schedule.set_time_zone(
        OneOf<const char*>(random_, {"UTC", "Asia/Kolkata", "America/New_York"}));
    if (OneIn(random_, 8)) schedule.set_max_runs(static_cast<int64_t>(1 + random_.Below(9)));
  }

  v1::Schedule Draw(uint64_t i) {
    v1::Schedule schedule;
    SetTimes(schedule);
    if (OneIn(random_, 3)) schedule.mutable_jitter()->set_seconds(1 + random_.Below(6));
    if (OneIn(random_, 2)) {
      schedule.set_overlap_policy(OneOf<v1::Schedule::OverlapPolicy>(
          random_, {v1::Schedule::SKIP, v1::Schedule::BUFFER_ONE, v1::Schedule::CANCEL_PREVIOUS}));
    }
    if (OneIn(random_, 3)) schedule.set_event_count(static_cast<int64_t>(2 + random_.Below(4)));
    schedule.set_priority(static_cast<int32_t>(random_.Below(10)));
    if (random_.Below(3) > 0) {
      schedule.set_policy(absl::StrCat("p", random_.Below(kPolicies)));
      if (OneIn(random_, 2)) schedule.set_policy_key(OneOf<const char*>(random_, {"k", "l"}));
      schedule.set_completion(OneIn(random_, 3) ? v1::ON_RELEASE : v1::ON_DELIVERY);
    }
    if (OneIn(random_, 5)) {
      v1::Window& window = *schedule.mutable_window();
      window.mutable_duration()->set_seconds(1 + random_.Below(9));
      window.set_pacing(OneIn(random_, 2) ? v1::Window::EVEN : v1::Window::SOONEST);
      window.set_on_close(OneOf<v1::Window::OnClose>(
          random_, {v1::Window::FINISH_LATE, v1::Window::DROP, v1::Window::CARRY_OVER}));
    }
    schedule.mutable_target()->mutable_http()->set_uri(absl::StrCat("http://t", i, ".example/"));
    if (OneIn(random_, 5))
      schedule.mutable_on_complete()->mutable_http()->set_uri("http://done.example/");
    v1::RetryPolicy& retry = *schedule.mutable_retry_policy();
    retry.set_max_attempts(static_cast<int32_t>(1 + random_.Below(5)));
    retry.mutable_min_backoff()->set_seconds(1);
    retry.mutable_max_backoff()->set_seconds(5);
    retry.set_keep(OneIn(random_, 2));
    schedule.mutable_delivery_timeout()->set_seconds(5);
    return schedule;
  }

  void Create(uint64_t i) {
    v1::CreateScheduleRequest request;
    request.set_parent(kTenant);
    request.set_schedule_id(IdOf(i));
    *request.mutable_schedule() = Draw(i);
    Note(absl::StrCat("create ", request.schedule().ShortDebugString()),
         world_.Call(&master::ScheduleApi::CreateSchedule, request));
  }

  // Often only where the rows wait.
  void Update(uint64_t i) {
    v1::UpdateScheduleRequest request;
    *request.mutable_schedule() = Draw(i);
    request.mutable_schedule()->set_name(NameOf(i));
    if (OneIn(random_, 3)) {
      request.mutable_update_mask()->add_paths("*");
    } else {
      for (const char* path : {"policy", "policy_key", "completion", "priority"})
        request.mutable_update_mask()->add_paths(path);
      if (OneIn(random_, 3)) request.mutable_update_mask()->add_paths("jitter");
      if (OneIn(random_, 3)) request.mutable_update_mask()->add_paths("overlap_policy");
    }
    Note(absl::StrCat("update ", request.ShortDebugString()),
         world_.Call(&master::ScheduleApi::UpdateSchedule, request));
  }

  template <typename Request, typename Response>
  void CallWithName(const std::string& what, const std::string& name,
                    void (master::ScheduleApi::*method)(Request, Done<Response>)) {
    Request request;
    request.set_name(name);
    Note(absl::StrCat(what, " ", name), world_.Call(method, request));
  }

  void Backfill(uint64_t i) {
    v1::BackfillScheduleRequest request;
    request.set_name(NameOf(i));
    SetTimestamp(ToMicros(world_.Now() - absl::Seconds(40)), *request.mutable_start_time());
    SetTimestamp(ToMicros(world_.Now() - absl::Seconds(1)), *request.mutable_end_time());
    request.set_max_occurrences(static_cast<int32_t>(1 + random_.Below(10)));
    Note("backfill", world_.Call(&master::ScheduleApi::BackfillSchedule, request));
  }

  void CancelSomeRun(uint64_t i) {
    v1::ListRunsRequest list;
    list.set_parent(NameOf(i));
    list.set_filter("state = ACTIVE");
    const auto runs = world_.Call(&master::RunApi::ListRuns, list);
    if (!runs.ok() || runs->runs().empty()) return;
    v1::CancelRunRequest request;
    request.set_name(runs->runs(static_cast<int>(random_.Below(runs->runs().size()))).name());
    Note("cancel " + request.name(), world_.Call(&master::RunApi::CancelRun, request));
  }

  void ChangePolicy() {
    const std::string name = absl::StrCat(kTenant, "/policies/p", random_.Below(kPolicies));
    switch (random_.Below(3)) {
      case 0: {
        v1::PausePolicyRequest request;
        request.set_name(name);
        return Note("pause " + name, world_.Call(&master::PolicyApi::PausePolicy, request));
      }
      case 1: {
        v1::ResumePolicyRequest request;
        request.set_name(name);
        return Note("resume " + name, world_.Call(&master::PolicyApi::ResumePolicy, request));
      }
      default: {
        v1::UpdatePolicyRequest request;
        request.mutable_policy()->set_name(name);
        request.mutable_policy()->set_max_concurrent(static_cast<int64_t>(1 + random_.Below(4)));
        return Note("update " + name, world_.Call(&master::PolicyApi::UpdatePolicy, request));
      }
    }
  }

  void KillOrStart() {
    simulation::ServiceHost& host = *OneOf<simulation::ServiceHost*>(
        random_, {world_.emitter.get(), world_.handler.get(), world_.tokens.get()});
    log_.push_back(absl::StrCat(host.up() ? "kill " : "start ", host.name()));
    if (host.up()) {
      host.Kill();
    } else {
      host.Start();
    }
  }

  void GiveTokensBack() {
    if (!world_.tokens->up() || !world_.AllOwned("policy_shard")) return;
    for (const ExplainWorld::Arrival& arrival : std::exchange(world_.arrivals, {})) {
      if (!arrival.token.empty()) world_.Complete(arrival.token);
    }
  }

  void Change() {
    using Api = master::ScheduleApi;
    const uint64_t i = random_.Below(kSchedules);
    const uint64_t chance = random_.Below(100);
    if (chance < 30) return Update(i);
    if (chance < 38) return CallWithName("pause", NameOf(i), &Api::PauseSchedule);
    if (chance < 50) return CallWithName("resume", NameOf(i), &Api::ResumeSchedule);
    if (chance < 56) return CallWithName("trigger", NameOf(i), &Api::TriggerSchedule);
    if (chance < 60) return Backfill(i);
    if (chance < 63) return CallWithName("delete", NameOf(i), &Api::DeleteSchedule);
    if (chance < 68) return Create(i);
    if (chance < 72) return CancelSomeRun(i);
    if (chance < 80) return ChangePolicy();
    if (chance < 88) return KillOrStart();
    if (chance < 92) return world_.AnswerHanging();
    if (chance < 96) return GiveTokensBack();
    hangs_ = OneOf<uint64_t>(random_, {0, 0, 20, 90});
    fails_ = OneOf<uint64_t>(random_, {0, 10, 30, 80});
  }

  sim::SimRandom random_;
  ExplainWorld world_;
  uint64_t hangs_ = 10;           // percent of the attempts
  uint64_t fails_ = 20;           // percent of the attempts
  std::vector<std::string> log_;  // calls and faults since the last step began
};

class Lists : public testing::TestWithParam<uint64_t> {};

TEST_P(Lists, RunsAreListedAsStoredGotAndAccountedFor) {
  History history(GetParam());
  for (int step = 0; step < kSteps; ++step) {
    history.Step();
    const std::vector<std::string> faults = history.Compare();
    ASSERT_TRUE(faults.empty()) << "seed " << GetParam() << ", step " << step << ", after\n"
                                << absl::StrJoin(history.log(), "\n") << "\n"
                                << absl::StrJoin(faults, "\n");
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Lists, testing::Range(uint64_t{1}, kSeeds + 1));

}  // namespace lists_test
}  // namespace escapement::explain
