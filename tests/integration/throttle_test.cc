// The promises of throttled schedules through the public doors, with real processes and without
// faults (throttle_kill_test has the faults):
// - an event reports a run's end;
// - a window drops unsent events;
// - a policy stays while it is in use;
// - one-off events wait for tokens as events of schedules do.

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status/errors.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fixtures/http_receiver.h"
#include "tests/fixtures/policy_client.h"
#include "tests/fixtures/process/child_process.h"
#include "tests/fixtures/receipts.h"
#include "tests/fixtures/token_completer.h"
#include "tests/integration/api_client.h"
#include "tests/integration/platform.h"

namespace escapement::integration {
namespace throttle_test {

const std::vector<std::string> kServices = {"store", "master", "emitter", "token_manager",
                                            "handler"};

// The value of a header of `head`; empty if there is none.
std::string HeaderOf(absl::string_view head, const std::string& name) {
  const std::string begin = absl::StrCat("\r\n", name, ": ");
  const size_t at = head.find(begin);
  if (at == absl::string_view::npos) return "";
  head.remove_prefix(at + begin.size());
  return std::string(head.substr(0, head.find("\r\n")));
}

class ThrottleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = NewFolder("throttle");
    platform_ =
        std::make_unique<Platform>(Platform::Options{.bin = BuiltFolder(), .folder = folder});
    // The consumer accepts everything. Only Complete gives a token back.
    http_ = *fixtures::HttpReceiver::Start({.kept_requests_max = 100}, &receipts_);
    const absl::Status status = platform_->Start(kServices);
    ASSERT_TRUE(status.ok()) << status;
    api_ = std::make_unique<ApiClient>(platform_->grpc_address("master"));
    policies_ = std::make_unique<fixtures::PolicyClient>(platform_->grpc_address("master"));
    completer_ = std::make_unique<fixtures::TokenCompleter>(
        fixtures::TokenCompleter::Options{.addresses = {platform_->grpc_address("token_manager")}});
  }

  void TearDown() override {
    if (HasFailure()) platform_->ShowLogs(kServices);
  }

  std::string CreatePolicy(const std::string& id, int64_t max_concurrent) {
    v1::ThrottlePolicy policy;
    policy.set_max_concurrent(max_concurrent);
    const auto name = policies_->Create(id, policy);
    EXPECT_TRUE(name.ok()) << name.status();
    return name.ok() ? *name : "";
  }

  // Events go to /to/{id}, the event for the run's end to /ended/{id}. The schedule fires only when
  // triggered.
  v1::Schedule Definition(const std::string& id, int64_t event_count, const std::string& policy) {
    v1::Schedule schedule;
    schedule.set_cron("0 0 1 1 *");
    schedule.set_event_count(event_count);
    schedule.set_payload("{}");
    schedule.set_policy(policy);
    *schedule.mutable_target() = HttpTo(absl::StrCat(http_->origin(), "/to/", id));
    *schedule.mutable_on_complete() = HttpTo(absl::StrCat(http_->origin(), "/ended/", id));
    return schedule;
  }

  // Makes the schedule and triggers one run. Returns the run's name.
  std::string Run(const std::string& id, const v1::Schedule& schedule) {
    const auto created = api_->CreateSchedule(id, schedule);
    EXPECT_TRUE(created.ok()) << created.status();
    const auto run = api_->TriggerSchedule(id, 0, id);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? run->name() : "";
  }

  // Head and body of all requests to this path.
  std::vector<std::pair<std::string, std::string>> RequestsTo(const std::string& path) {
    std::vector<std::pair<std::string, std::string>> requests;
    for (auto& request : http_->KeptRequests()) {
      if (absl::StrContains(request.first.substr(0, request.first.find("\r\n")),
                            absl::StrCat(" ", path, " ")))
        requests.push_back(std::move(request));
    }
    return requests;
  }

  // Waits for the event that reports the end of `id`'s run, and returns its content. It must be the
  // only such event.
  nlohmann::json AwaitEnd(const std::string& id) {
    EXPECT_TRUE(Await([&] { return !RequestsTo("/ended/" + id).empty(); })) << id;
    const auto requests = RequestsTo("/ended/" + id);
    nlohmann::json end = nlohmann::json::object();
    if (requests.size() == 1)
      end = nlohmann::json::parse(requests[0].second, nullptr, /*allow_exceptions=*/false);
    EXPECT_EQ(requests.size(), 1u) << "events of the end of " << id;
    EXPECT_TRUE(end.is_object()) << id;
    return end.is_object() ? end : nlohmann::json::object();
  }

  v1::Run GetRun(const std::string& name) {
    const auto run = api_->GetRun(name);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? *run : v1::Run();
  }

  // Waits for the first event that comes to `path`, and returns its token.
  std::string AwaitToken(const std::string& path) {
    EXPECT_TRUE(Await([&] { return !RequestsTo(path).empty(); })) << path;
    const auto requests = RequestsTo(path);
    return requests.empty() ? "" : HeaderOf(requests[0].first, "Escapement-Token");
  }
  void Complete(const std::string& token) {
    completer_->Add(fixtures::TokenCompleter::Completion{.event = {}, .token = token});
    EXPECT_TRUE(completer_->AwaitAnswered(absl::Seconds(20)));
    EXPECT_EQ(completer_->Stats().done, 1u);
  }

  // Expects that the policy can be deleted soon, and then no longer exists.
  void ExpectIsDeleted(const std::string& policy) {
    absl::Status status;
    EXPECT_TRUE(Await([&] {
      status = policies_->Delete(policy);
      return status.ok();
    })) << status;
    EXPECT_EQ(policies_->Delete(policy).code(), absl::StatusCode::kNotFound);
  }

  fixtures::Receipts receipts_;
  std::unique_ptr<fixtures::HttpReceiver> http_;
  std::unique_ptr<Platform> platform_;
  std::unique_ptr<ApiClient> api_;
  std::unique_ptr<fixtures::PolicyClient> policies_;
  std::unique_ptr<fixtures::TokenCompleter> completer_;
};

TEST_F(ThrottleTest, TheEndOfARunIsToldOnceWithItsCounts) {
  // With and without a policy, with several events and with one. Each end is reported after those
  // before it.
  v1::Schedule granted = Definition("granted", 3, CreatePolicy("two", 2));
  granted.set_completion(v1::ON_DELIVERY);
  const std::vector<std::pair<std::string, v1::Schedule>> schedules = {
      {"three", Definition("three", 3, "")},
      {"one", Definition("one", 1, "")},
      {"granted", granted},
  };
  for (const auto& [id, schedule] : schedules) {
    const std::string name = Run(id, schedule);
    const nlohmann::json end = AwaitEnd(id);
    EXPECT_EQ(RequestsTo("/to/" + id).size(), static_cast<size_t>(schedule.event_count()));
    EXPECT_EQ(end.value("run", ""), name);
    EXPECT_EQ(end.value("event_count", -1), schedule.event_count());
    EXPECT_EQ(end.value("succeeded", -1), schedule.event_count());
    for (const char* const other : {"failed", "expired", "skipped", "cancelled"})
      EXPECT_EQ(end.value(other, -1), 0) << other;
    const v1::Run run = GetRun(name);
    EXPECT_EQ(run.state(), v1::Run::COMPLETED) << run.ShortDebugString();
    EXPECT_EQ(run.succeeded_count(), schedule.event_count()) << run.ShortDebugString();
  }
  for (const auto& [id, schedule] : schedules)
    EXPECT_EQ(RequestsTo("/ended/" + id).size(), 1u) << id;
  EXPECT_EQ(receipts_.Stats().duplicates, 0u);
}

TEST_F(ThrottleTest, EventsAWindowCouldNotSendAreDroppedAndTheRunEnds) {
  v1::Schedule schedule = Definition("nightly", 5, CreatePolicy("single", 1));
  schedule.mutable_window()->mutable_duration()->set_seconds(3);
  schedule.mutable_window()->set_on_close(v1::Window::DROP);
  const std::string name = Run("nightly", schedule);
  const std::string token = AwaitToken("/to/nightly");
  ASSERT_NE(token, "");
  // The consumer holds the only token until the window has closed.
  EXPECT_TRUE(Await([&] { return GetRun(name).expired_count() == 4; }));
  const v1::Run open = GetRun(name);
  EXPECT_EQ(open.state(), v1::Run::ACTIVE) << open.ShortDebugString();
  EXPECT_EQ(open.running_count(), 1) << open.ShortDebugString();
  EXPECT_TRUE(RequestsTo("/ended/nightly").empty());

  Complete(token);
  const nlohmann::json end = AwaitEnd("nightly");
  EXPECT_EQ(end.value("event_count", -1), 5);
  EXPECT_EQ(end.value("succeeded", -1), 1);
  EXPECT_EQ(end.value("expired", -1), 4);
  EXPECT_EQ(end.value("never_started", -1), 4);
  EXPECT_EQ(end.value("tokens", -1), 1);
  EXPECT_EQ(end.value("window", ""), "LATE");
  const v1::Run run = GetRun(name);
  EXPECT_EQ(run.window().state(), v1::RunWindow::LATE) << run.ShortDebugString();
  EXPECT_EQ(run.report().never_started_count(), 4) << run.ShortDebugString();
  EXPECT_EQ(run.report().token_count(), 1) << run.ShortDebugString();
  ASSERT_EQ(run.report().slowest_size(), 1) << run.ShortDebugString();
  // The consumer has had it since before the window closed.
  EXPECT_GE(run.report().slowest(0).duration().seconds(), 2) << run.ShortDebugString();
  EXPECT_EQ(run.state(), v1::Run::COMPLETED) << run.ShortDebugString();
  EXPECT_EQ(run.succeeded_count(), 1) << run.ShortDebugString();
  EXPECT_EQ(run.expired_count(), 4) << run.ShortDebugString();
  EXPECT_EQ(RequestsTo("/to/nightly").size(), 1u);
}

TEST_F(ThrottleTest, APolicyIsDeletedOnlyWhenNothingUsesItAnyMore) {
  const std::string policy = CreatePolicy("single", 1);
  Run("batch", Definition("batch", 1, policy));
  const std::string token = AwaitToken("/to/batch");
  ASSERT_NE(token, "");
  EXPECT_EQ(ErrorReason(policies_->Delete(policy)), "POLICY_HAS_SCHEDULES");
  const absl::Status deleted = api_->DeleteSchedule("batch");
  ASSERT_TRUE(deleted.ok()) << deleted;
  // The deleted schedule's event still holds its token.
  EXPECT_EQ(ErrorReason(policies_->Delete(policy)), "POLICY_HAS_HELD_TOKENS");
  Complete(token);
  ExpectIsDeleted(policy);
}

TEST_F(ThrottleTest, RowsOfDeletedScheduleKeepThePolicyOnlyUntilTheirTurn) {
  const std::string policy = CreatePolicy("single", 1);
  Run("batch", Definition("batch", 3, policy));
  const std::string token = AwaitToken("/to/batch");
  ASSERT_NE(token, "");
  const absl::Status deleted = api_->DeleteSchedule("batch");
  ASSERT_TRUE(deleted.ok()) << deleted;
  EXPECT_EQ(policies_->Delete(policy).code(), absl::StatusCode::kFailedPrecondition);
  Complete(token);
  ExpectIsDeleted(policy);
  EXPECT_EQ(RequestsTo("/to/batch").size(), 1u);
}

// Two of six events are out. One that waits is cancelled; the others follow as tokens come back.
TEST_F(ThrottleTest, OneOffEventsWaitForTheTokensOfTheirPolicy) {
  const std::string policy = CreatePolicy("gate", 2);
  std::vector<std::string> names;
  for (int i = 0; i < 6; ++i) {
    v1::Event event;
    event.set_payload(absl::StrCat("payload ", i));
    event.set_policy("gate");
    *event.mutable_target() = HttpTo(absl::StrCat(http_->origin(), "/to/gate"));
    const auto created = api_->CreateEvent(i % 2 == 0 ? "" : absl::StrCat("mine-", i), event);
    ASSERT_TRUE(created.ok()) << created.status();
    EXPECT_EQ(created->policy(), policy);
    EXPECT_EQ(created->completion(), v1::ON_RELEASE);
    names.push_back(created->name());
  }
  ASSERT_TRUE(Await([&] { return RequestsTo("/to/gate").size() == 2; }));
  int running = 0;
  std::string waits;
  for (const std::string& name : names) {
    const auto event = api_->GetEvent(name);
    ASSERT_TRUE(event.ok()) << event.status();
    running += event->state() == v1::RUNNING ? 1 : 0;
    if (event->state() == v1::PENDING) waits = name;
  }
  EXPECT_EQ(running, 2);
  const auto listed = api_->ListPendingEvents();
  ASSERT_TRUE(listed.ok()) << listed.status();
  EXPECT_EQ(listed->size(), names.size());
  const auto usage = policies_->Usage(policy);
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->held_count(), 2);
  EXPECT_EQ(usage->waiting_count(), 4);
  EXPECT_EQ(ErrorReason(policies_->Delete(policy)), "POLICY_HAS_WAITING_EVENTS");

  const auto cancelled = api_->CancelEvent(waits);
  ASSERT_TRUE(cancelled.ok()) << cancelled.status();
  std::set<std::string> given_back;
  EXPECT_TRUE(Await([&] {
    for (const auto& [head, body] : RequestsTo("/to/gate")) {
      const std::string token = HeaderOf(head, "Escapement-Token");
      if (given_back.insert(token).second)
        completer_->Add(fixtures::TokenCompleter::Completion{.event = {}, .token = token});
    }
    return given_back.size() == 5 && completer_->AwaitAnswered(absl::Seconds(1));
  }));
  std::set<std::string> payloads;
  for (const auto& [head, body] : RequestsTo("/to/gate")) payloads.insert(body);
  EXPECT_EQ(payloads.size(), 5u);
  for (const std::string& name : names) {
    const v1::Outcome outcome = name == waits ? v1::CANCELLED : v1::SUCCEEDED;
    EXPECT_TRUE(Await([&] {
      const auto event = api_->GetEvent(name);
      return event.ok() && event->outcome() == outcome;
    })) << name;
  }
  EXPECT_EQ(RequestsTo("/to/gate").size(), 5u);
  EXPECT_EQ(receipts_.Stats().duplicates, 0u);
  ExpectIsDeleted(policy);
}

}  // namespace throttle_test
}  // namespace escapement::integration
