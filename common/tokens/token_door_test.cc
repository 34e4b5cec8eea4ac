#include "common/tokens/token_door.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/proto_time.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "common/status/errors.h"
#include "common/storage/waiting_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace token_door_test {

using ::testing::ElementsAre;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using Report = storage::v1::GrantReportRecord;
using Result = v1::TokenResult;

const std::string kKey(kTokenKeyBytes, 'k');

GrantId Grant(uint16_t shard, uint64_t number) {
  return {.policy_shard = shard, .policy = Uid::FromHalves(1, 2), .epoch = 5, .number = number};
}

// An owner whose held tokens the test sets.
class FakeOwner final : public LocalGrants {
 public:
  void Apply(uint16_t policy_shard, std::vector<Report::Entry> entries, Done done) override {
    calls.emplace_back(policy_shard, entries.size());
    if (!owned.count(policy_shard)) return done(absl::UnavailableError("not owned"));
    std::vector<bool> effects;
    for (const Report::Entry& entry : entries)
      effects.push_back(owned[policy_shard].erase(entry.first()) > 0);
    for (Report::Entry& entry : entries) seen.push_back(std::move(entry));
    if (hold) {
      waiting.push_back([done = std::move(done), effects]() mutable { done(effects); });
    } else {
      done(std::move(effects));
    }
  }

  std::map<uint16_t, std::set<uint64_t>> owned;  // shard → indices held
  std::vector<std::pair<uint16_t, size_t>> calls;
  std::vector<Report::Entry> seen;
  bool hold = false;
  std::vector<Closure> waiting;
};

class TokenDoorTest : public ::testing::Test {
 protected:
  TokenDoorTest() { OpenDoor(nullptr); }

  void OpenDoor(LocalGrants* local) {
    door_.reset();
    door_ = std::make_unique<TokenDoor>(
        TokenDoor::Options{.local = local, .metrics = &metrics_, .fresh_key = [] { return kKey; }},
        store_, runtime_);
    door_->Start();
    ASSERT_TRUE(runtime_.RunUntil([&] { return door_->Ready(); }, absl::Seconds(5)));
  }

  std::string Handle(const GrantId& grant, uint64_t index) {
    return TokenMint(kKey).Handle({.grant = grant, .index = index});
  }

  // Puts a grant under which events [first, first + count) hold their tokens.
  void PutGrant(const GrantId& grant, uint64_t first, uint64_t count) {
    storage::v1::GrantRecord record;
    auto* holders = record.add_holders();
    holders->set_first(first);
    holders->set_count(count);
    Put(kv::ColumnFamily::kGrants, EncodeGrantKey(grant), record.SerializeAsString());
  }
  void Put(kv::ColumnFamily cf, std::string key, std::string value) {
    kv::KvClient client(store_, runtime_, kv::KvClient::Options());
    bool done = false;
    kv::Commit commit;
    commit.groups.push_back({.mutations = {{.cf = cf, .key = key, .value = value}}});
    client.CommitAsync(std::move(commit), executor_,
                       [&](absl::StatusOr<kv::CommitResult> result) { done = result.ok(); });
    ASSERT_TRUE(runtime_.RunUntil([&] { return done; }, absl::Seconds(5)));
    commits_ = 0;
  }

  // The result of a call, once it has come.
  template <typename Response>
  struct Pending {
    int answers = 0;
    absl::StatusOr<std::vector<Result::Status>> results = absl::UnknownError("no answer");
    TokenApi::Done<Response> Take() {
      return [this](absl::StatusOr<std::unique_ptr<Response>> response) {
        ++answers;
        if (!response.ok()) {
          results = response.status();
          return;
        }
        results.emplace();
        for (const Result& result : (*response)->results()) results->push_back(result.status());
      };
    }
  };
  template <typename Response>
  absl::StatusOr<std::vector<Result::Status>> Await(Pending<Response>& pending) {
    runtime_.RunUntil([&] { return pending.answers > 0; }, absl::Seconds(30));
    EXPECT_EQ(pending.answers, 1);
    return pending.results;
  }

  static v1::ReleaseTokensRequest Releasing(const std::vector<std::string>& tokens) {
    v1::ReleaseTokensRequest request;
    for (const std::string& token : tokens) request.add_tokens(token);
    return request;
  }
  absl::StatusOr<std::vector<Result::Status>> Release(const std::vector<std::string>& tokens) {
    Pending<v1::ReleaseTokensResponse> pending;
    door_->ReleaseTokens(Releasing(tokens), pending.Take());
    return Await(pending);
  }
  absl::StatusOr<std::vector<Result::Status>> Complete(const v1::CompleteTokensRequest& request) {
    Pending<v1::CompleteTokensResponse> pending;
    door_->CompleteTokens(request, pending.Take());
    return Await(pending);
  }
  absl::StatusOr<std::vector<Result::Status>> Extend(const v1::ExtendTokensRequest& request) {
    Pending<v1::ExtendTokensResponse> pending;
    door_->ExtendTokens(request, pending.Take());
    return Await(pending);
  }

  // The report rows of a policy shard, in the order of their keys.
  std::vector<Report> Reports(uint16_t shard) {
    const auto& rows = store_.disk()->families[static_cast<size_t>(kv::ColumnFamily::kWaiting)];
    std::vector<Report> reports;
    const std::string prefix = ReportsPrefix(shard);
    for (auto it = rows.lower_bound(prefix);
         it != rows.end() && it->first.substr(0, prefix.size()) == prefix; ++it) {
      EXPECT_TRUE(reports.emplace_back().ParseFromString(it->second));
    }
    return reports;
  }

  sim::SimRuntime runtime_{1};
  Metrics metrics_;
  int commits_ = 0;
  kv::MemKvStore store_{runtime_,
                        {.layout = {}, .on_durable = [this](const auto&) { ++commits_; }}};
  std::shared_ptr<Executor> executor_ = runtime_.NewExecutor("test");
  std::unique_ptr<TokenDoor> door_;
};

TEST_F(TokenDoorTest, HeldTokensOfOtherOwnersAreStoredAndOthersNotHeld) {
  PutGrant(Grant(3, 1), 10, 5);
  const auto results =
      Release({Handle(Grant(3, 1), 10), Handle(Grant(3, 1), 15), "made up", Handle(Grant(3, 2), 10),
               Handle(Grant(3, 1), 14), Handle(Grant(3, 1), 9)});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(*results, ElementsAre(Result::STORED, Result::NOT_HELD, Result::INVALID,
                                    Result::NOT_HELD, Result::STORED, Result::NOT_HELD));
  const auto reports = Reports(3);
  ASSERT_EQ(reports.size(), 1);
  ASSERT_EQ(reports[0].entries_size(), 2);
  const Report::Entry& entry = reports[0].entries(1);
  EXPECT_EQ(entry.policy_uid(), Uid::FromHalves(1, 2).bytes());
  EXPECT_EQ(entry.epoch(), 5);
  EXPECT_EQ(entry.number(), 1);
  EXPECT_EQ(entry.kind(), Report::RELEASED);
  EXPECT_EQ(entry.first(), 14);
  EXPECT_EQ(entry.count(), 1);
  EXPECT_NEAR(entry.time_micros(), ToMicros(runtime_.world().Now()), 10'000);
  EXPECT_EQ(reports[0].entries(0).first(), 10);
  EXPECT_THAT(metrics_.Serialize(),
              ::testing::HasSubstr("{method=\"release\",result=\"NOT_HELD\"} 3"));
}

TEST_F(TokenDoorTest, ARequestIsStoredByOneCommitWithARowForEachPolicyShard) {
  PutGrant(Grant(3, 1), 0, 8);
  PutGrant(Grant(7, 1), 0, 8);
  EXPECT_THAT(*Release({Handle(Grant(7, 1), 0), Handle(Grant(3, 1), 0), Handle(Grant(7, 1), 1)}),
              ElementsAre(Result::STORED, Result::STORED, Result::STORED));
  EXPECT_EQ(commits_, 1);
  ASSERT_EQ(Reports(3).size(), 1);
  ASSERT_EQ(Reports(7).size(), 1);
  EXPECT_EQ(Reports(3)[0].entries_size(), 1);
  EXPECT_EQ(Reports(7)[0].entries_size(), 2);
  // A second report does not replace the first.
  EXPECT_THAT(*Release({Handle(Grant(7, 1), 2)}), ElementsAre(Result::STORED));
  EXPECT_EQ(Reports(7).size(), 2);
}

TEST_F(TokenDoorTest, TokensThatAreNotHeldMakeNoReports) {
  PutGrant(Grant(3, 1), 0, 1);
  EXPECT_THAT(*Release({Handle(Grant(3, 1), 1), "x"}),
              ElementsAre(Result::NOT_HELD, Result::INVALID));
  EXPECT_EQ(commits_, 0);
}

TEST_F(TokenDoorTest, FirstEntryOfARepeatedTokenCounts) {
  PutGrant(Grant(3, 1), 0, 1);
  v1::CompleteTokensRequest complete;
  for (const bool final : {false, true, false}) {
    auto* completion = complete.add_completions();
    completion->set_token(Handle(Grant(3, 1), 0));
    completion->set_outcome(v1::TokenCompletion::FAILED);
    completion->set_final(final);
  }
  EXPECT_THAT(*Complete(complete), ElementsAre(Result::STORED, Result::NOT_HELD, Result::NOT_HELD));
  ASSERT_EQ(Reports(3).size(), 1);
  ASSERT_EQ(Reports(3)[0].entries_size(), 1);
  EXPECT_EQ(Reports(3)[0].entries(0).kind(), Report::COMPLETION_FAILED);
}

TEST_F(TokenDoorTest, AnExtensionNamedTwiceIsOneWithTheSameResult) {
  PutGrant(Grant(3, 1), 0, 1);
  v1::ExtendTokensRequest extend;
  for (int i = 0; i < 3; ++i) extend.add_tokens(Handle(Grant(3, 1), 0));
  extend.add_tokens(Handle(Grant(3, 1), 1));
  extend.add_tokens(Handle(Grant(3, 1), 1));
  extend.mutable_hold()->set_seconds(90);
  EXPECT_THAT(*Extend(extend), ElementsAre(Result::STORED, Result::STORED, Result::STORED,
                                           Result::NOT_HELD, Result::NOT_HELD));
  ASSERT_EQ(Reports(3)[0].entries_size(), 1);
  EXPECT_EQ(Reports(3)[0].entries(0).kind(), Report::EXTENDED);
  EXPECT_EQ(Reports(3)[0].entries(0).hold_micros(), 90'000'000);
}

TEST_F(TokenDoorTest, CompletionReportHasItsOutcome) {
  PutGrant(Grant(3, 1), 0, 8);
  v1::CompleteTokensRequest request;
  const auto add = [&](uint64_t index, v1::TokenCompletion::WorkOutcome outcome, bool final,
                       const std::string& output) {
    auto* completion = request.add_completions();
    completion->set_token(Handle(Grant(3, 1), index));
    completion->set_outcome(outcome);
    completion->set_final(final);
    completion->set_output(output);
  };
  const std::string long_output = std::string(255, 'a') + "\xc3\xa4" + std::string(1000, 'b');
  add(0, v1::TokenCompletion::SUCCEEDED, false, "42");
  add(1, v1::TokenCompletion::FAILED, false, "no \xff paper");
  add(2, v1::TokenCompletion::FAILED, true, "");
  add(3, v1::TokenCompletion::FAILED, false, long_output);
  ASSERT_TRUE(Complete(request).ok());
  ASSERT_EQ(Reports(3).size(), 1);
  const Report report = Reports(3)[0];
  EXPECT_EQ(report.entries(0).kind(), Report::COMPLETED);
  EXPECT_EQ(report.entries(0).output(), "42");
  EXPECT_EQ(report.entries(0).reason(), "");
  EXPECT_EQ(report.entries(1).kind(), Report::COMPLETION_FAILED);
  EXPECT_EQ(report.entries(1).output(), "no \xff paper");
  EXPECT_EQ(report.entries(1).reason(), "no ? paper");
  EXPECT_EQ(report.entries(2).kind(), Report::COMPLETION_FAILED_FINALLY);
  EXPECT_EQ(report.entries(2).reason(), "failed by the consumer");
  EXPECT_EQ(report.entries(3).reason(), std::string(255, 'a'));
  EXPECT_EQ(report.entries(3).output(), long_output);
}

TEST_F(TokenDoorTest, InvalidRequestIsRefusedWithoutEffect) {
  PutGrant(Grant(3, 1), 0, 8);
  const std::string token = Handle(Grant(3, 1), 0);
  const auto fields = [](const absl::StatusOr<std::vector<Result::Status>>& results) {
    EXPECT_EQ(results.status().code(), absl::StatusCode::kInvalidArgument) << results.status();
    std::vector<std::string> names;
    for (const auto& [field, description] : FieldViolationsOf(results.status()))
      names.push_back(field);
    return names;
  };
  EXPECT_THAT(fields(Release({})), ElementsAre("tokens"));
  EXPECT_THAT(fields(Release({token, ""})), ElementsAre("tokens[1]"));
  EXPECT_THAT(fields(Release(std::vector<std::string>(10'001, token))), ElementsAre("tokens"));
  EXPECT_THAT(fields(Complete({})), ElementsAre("completions"));
  v1::CompleteTokensRequest complete;
  complete.add_completions()->set_token(token);
  complete.mutable_completions(0)->set_outcome(v1::TokenCompletion::SUCCEEDED);
  complete.add_completions()->set_output(std::string(4097, 'x'));
  EXPECT_THAT(
      fields(Complete(complete)),
      ElementsAre("completions[1].token", "completions[1].outcome", "completions[1].output"));
  complete.Clear();
  for (int i = 0; i < 2049; ++i) {
    v1::TokenCompletion* completion = complete.add_completions();
    completion->set_token(token);
    completion->set_outcome(v1::TokenCompletion::SUCCEEDED);
    completion->set_output(std::string(4096, 'x'));
  }
  EXPECT_THAT(fields(Complete(complete)), ElementsAre("completions"));
  v1::ExtendTokensRequest extend;
  extend.add_tokens(token);
  const std::pair<int64_t, int32_t> holds[] = {
      {0, 999'999'999},   {-1, 0}, {86'400 * 30, 1}, {int64_t{1} << 62, 0}, {5, -1},
      {5, 1'000'000'000}, {0, 0}};
  for (const auto& [seconds, nanos] : holds) {
    extend.mutable_hold()->set_seconds(seconds);
    extend.mutable_hold()->set_nanos(nanos);
    EXPECT_THAT(fields(Extend(extend)), ElementsAre("hold")) << seconds << " " << nanos;
  }
  EXPECT_EQ(commits_, 0);
  for (const int64_t seconds : {int64_t{1}, int64_t{86'400 * 30}}) {
    extend.mutable_hold()->set_seconds(seconds);
    extend.mutable_hold()->set_nanos(0);
    EXPECT_TRUE(Extend(extend).ok());
  }
}

TEST_F(TokenDoorTest, LargeRequestsAreReadAndStoredInParts) {
  std::vector<std::string> tokens;
  for (uint64_t number = 1; number <= 300; ++number) {
    PutGrant(Grant(3, number), 0, 5);
    for (uint64_t index = 0; index < 10; ++index) tokens.push_back(Handle(Grant(3, number), index));
  }
  const auto results = Release(tokens);
  ASSERT_TRUE(results.ok()) << results.status();
  for (size_t i = 0; i < tokens.size(); ++i)
    ASSERT_EQ((*results)[i], i % 10 < 5 ? Result::STORED : Result::NOT_HELD) << i;
  EXPECT_EQ(commits_, 1);
  const auto reports = Reports(3);
  ASSERT_EQ(reports.size(), 2);
  EXPECT_EQ(reports[0].entries_size(), 1000);
  EXPECT_EQ(reports[1].entries_size(), 500);
}

TEST_F(TokenDoorTest, LocalOwnerActsAtOnceAndOtherOwnersGetReports) {
  FakeOwner owner;
  owner.owned[3] = {1, 2};
  OpenDoor(&owner);
  PutGrant(Grant(7, 1), 0, 8);
  const auto results =
      Release({Handle(Grant(7, 1), 0), Handle(Grant(3, 1), 2), Handle(Grant(3, 1), 5),
               Handle(Grant(7, 1), 9), "made up", Handle(Grant(3, 1), 1)});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_THAT(*results, ElementsAre(Result::STORED, Result::DONE, Result::NOT_HELD,
                                    Result::NOT_HELD, Result::INVALID, Result::DONE));
  EXPECT_THAT(owner.calls, ElementsAre(Pair(3, 3), Pair(7, 2)));
  EXPECT_EQ(Reports(7).size(), 1);
  EXPECT_EQ(Reports(3).size(), 0);
  EXPECT_EQ(owner.seen[0].kind(), Report::RELEASED);
  EXPECT_EQ(owner.seen[0].time_micros(), 0);
  // The same token again: no longer held.
  EXPECT_THAT(*Release({Handle(Grant(3, 1), 2)}), ElementsAre(Result::NOT_HELD));
  door_.reset();
}

TEST_F(TokenDoorTest, DoorIsReadyOnceItHasTheKey) {
  store_.Crash(kv::MemKvStore::Unsynced::kLost);
  door_ = std::make_unique<TokenDoor>(TokenDoor::Options(), store_, runtime_);
  door_->Start();
  EXPECT_EQ(ErrorReason(Release({"x"}).status()), "NOT_READY");
  EXPECT_FALSE(door_->Ready());
  store_.Restart();
  EXPECT_TRUE(runtime_.RunUntil([&] { return door_->Ready(); }, absl::Seconds(10)));
  EXPECT_THAT(*Release({"x"}), ElementsAre(Result::INVALID));
}

TEST_F(TokenDoorTest, DrainRefusesNewCallsAndAwaitsRunningOnes) {
  PutGrant(Grant(3, 1), 0, 8);
  Pending<v1::ReleaseTokensResponse> pending;
  door_->ReleaseTokens(Releasing({Handle(Grant(3, 1), 0)}), pending.Take());
  std::optional<int> answers_when_drained;
  door_->Drain([&] { answers_when_drained = pending.answers; });
  EXPECT_EQ(Release({Handle(Grant(3, 1), 1)}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(door_->Ready());
  EXPECT_THAT(*Await(pending), ElementsAre(Result::STORED));
  ASSERT_TRUE(
      runtime_.RunUntil([&] { return answers_when_drained.has_value(); }, absl::Seconds(5)));
  EXPECT_EQ(*answers_when_drained, 1);
}

TEST_F(TokenDoorTest, CallsBeyondTheBoundAreRefusedUntilThereIsRoom) {
  // None of it is answered while virtual time stands still.
  const v1::ReleaseTokensRequest request =
      Releasing(std::vector<std::string>(kTokensMax, "made up"));
  std::vector<std::unique_ptr<Pending<v1::ReleaseTokensResponse>>> pendings;
  for (int i = 0; i < 200; ++i) {
    pendings.push_back(std::make_unique<Pending<v1::ReleaseTokensResponse>>());
    door_->ReleaseTokens(request, pendings.back()->Take());
  }
  runtime_.AdvanceBy(absl::Seconds(1));
  size_t refused = 0;
  for (const auto& pending : pendings) {
    ASSERT_EQ(pending->answers, 1);
    if (pending->results.ok()) continue;
    ++refused;
    EXPECT_EQ(ErrorReason(pending->results.status()), "TOKENS_BUSY");
    EXPECT_EQ(RetryDelayOf(pending->results.status()), kTokenBusyDelay);
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, 190);
  EXPECT_THAT(*Release({"made up"}), ElementsAre(Result::INVALID));
}

TEST_F(TokenDoorTest, DestructorAnswersRunningCallsOnce) {
  FakeOwner owner;
  owner.owned[3] = {1};
  owner.hold = true;
  OpenDoor(&owner);
  store_.Crash(kv::MemKvStore::Unsynced::kLost);
  std::vector<std::unique_ptr<Pending<v1::ReleaseTokensResponse>>> pendings;
  for (const uint16_t shard : {3, 7, 7}) {
    pendings.push_back(std::make_unique<Pending<v1::ReleaseTokensResponse>>());
    door_->ReleaseTokens(Releasing({Handle(Grant(shard, 1), 1)}), pendings.back()->Take());
    runtime_.RunUntilIdle();
  }
  door_.reset();
  for (Closure& closure : owner.waiting) closure();
  owner.waiting.clear();
  runtime_.AdvanceBy(absl::Seconds(10));
  for (const auto& pending : pendings) {
    EXPECT_EQ(pending->answers, 1);
    EXPECT_EQ(ErrorReason(pending->results.status()), "RESULT_UNKNOWN");
  }
}

}  // namespace token_door_test
}  // namespace escapement
