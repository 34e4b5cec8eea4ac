// Throttling policies through the master's API, on a store in memory.

#include "services/master/policies/policy_service.h"

#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace policy_service_test {

using kv::ColumnFamily;

constexpr char kName[] = "tenants/default/policies/backup";

v1::CreatePolicyRequest ValidPolicy(const std::string& id = "backup") {
  v1::CreatePolicyRequest request;
  request.set_parent("tenants/default");
  request.set_policy_id(id);
  request.mutable_policy()->set_max_concurrent(50);
  return request;
}

template <typename Request>
Request Named(const std::string& etag = "", const std::string& request_id = "") {
  Request request;
  request.set_name(kName);
  request.set_etag(etag);
  request.set_request_id(request_id);
  return request;
}

std::set<std::string> Fields(const absl::Status& status) {
  std::set<std::string> fields;
  for (const auto& [field, description] : FieldViolationsOf(status)) fields.insert(field);
  return fields;
}

class PolicyServiceTest : public ::testing::Test {
 protected:
  v1::ThrottlePolicy Make(const v1::CreatePolicyRequest& request = ValidPolicy()) {
    const auto made = fixture_.Call(&PolicyApi::CreatePolicy, request);
    EXPECT_TRUE(made.ok()) << made.status();
    return made.value_or(v1::ThrottlePolicy());
  }
  absl::StatusOr<v1::ThrottlePolicy> Get() {
    v1::GetPolicyRequest request;
    request.set_name(kName);
    return fixture_.Call(&PolicyApi::GetPolicy, request);
  }
  // The fields that a policy is refused for.
  std::set<std::string> RefusedFields(void (*spoil)(v1::ThrottlePolicy&)) {
    v1::CreatePolicyRequest request = ValidPolicy();
    spoil(*request.mutable_policy());
    const auto refused = fixture_.Call(&PolicyApi::CreatePolicy, request);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(fixture_.Rows(ColumnFamily::kPolicies).empty());
    return Fields(refused.status());
  }
  absl::StatusOr<v1::ThrottlePolicy> Update(v1::ThrottlePolicy patch,
                                            const std::vector<std::string>& paths) {
    v1::UpdatePolicyRequest request;
    *request.mutable_policy() = std::move(patch);
    request.mutable_policy()->set_name(kName);
    for (const std::string& path : paths) request.mutable_update_mask()->add_paths(path);
    return fixture_.Call(&PolicyApi::UpdatePolicy, request);
  }
  absl::Status Delete() {
    return fixture_.Call(&PolicyApi::DeletePolicy, Named<v1::DeletePolicyRequest>()).status();
  }

  MasterWorld fixture_;
  const Uid uid_ = PolicyUid("default", "backup");
  const uint16_t shard_ = fixture_.PolicyShardOfTenant();
};

TEST_F(PolicyServiceTest, APolicyIsMadeWithItsDefaultsAndRead) {
  v1::CreatePolicyRequest request = ValidPolicy();
  request.mutable_policy()->set_max_per_second(2.5);
  const v1::ThrottlePolicy made = Make(request);
  EXPECT_EQ(made.name(), kName);
  EXPECT_EQ(made.max_concurrent(), 50);
  EXPECT_EQ(made.burst(), 1);
  EXPECT_EQ(made.hold_timeout().seconds(), 3600);
  EXPECT_EQ(made.on_expiry(), v1::ThrottlePolicy::RECLAIM);
  EXPECT_EQ(made.fairness(), v1::ThrottlePolicy::BY_SCHEDULE);
  EXPECT_EQ(made.retries(), v1::ThrottlePolicy::FREE_TOKEN);
  EXPECT_EQ(made.state(), v1::ThrottlePolicy::ENABLED);
  EXPECT_EQ(made.version(), 1);
  EXPECT_FALSE(made.etag().empty());
  EXPECT_TRUE(made.has_create_time());
  const auto got = Get();
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->SerializeAsString(), made.SerializeAsString());
  // Its record is where the owner of its shard looks for it.
  storage::v1::PolicyRecord record;
  ASSERT_TRUE(record.ParseFromString(
      fixture_.Get(ColumnFamily::kPolicies, PolicyKey("default", "backup")).value()));
  EXPECT_EQ(record.tenant(), "default");
  EXPECT_EQ(record.policy_id(), "backup");
  EXPECT_EQ(record.burst(), 1u);
  EXPECT_EQ(record.hold_timeout_micros(), 3'600'000'000);
}

TEST_F(PolicyServiceTest, ANameIsTakenOnceAndMadeByTheServerIfNoneIsGiven) {
  Make();
  const auto again = fixture_.Call(&PolicyApi::CreatePolicy, ValidPolicy());
  EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
  const v1::ThrottlePolicy unnamed = Make(ValidPolicy(""));
  EXPECT_EQ(unnamed.name().size(), std::string("tenants/default/policies/").size() + 32);
}

TEST_F(PolicyServiceTest, EachWrongFieldIsNamed) {
  using Strings = std::set<std::string>;
  EXPECT_EQ(RefusedFields([](v1::ThrottlePolicy& p) { p.clear_max_concurrent(); }),
            Strings{"policy.max_concurrent"});
  EXPECT_EQ(RefusedFields([](v1::ThrottlePolicy& p) { p.set_max_concurrent(-1); }),
            Strings{"policy.max_concurrent"});
  EXPECT_EQ(RefusedFields([](v1::ThrottlePolicy& p) { p.set_max_concurrent(10'000'001); }),
            Strings{"policy.max_concurrent"});
  for (const double rate : {-1.0, 1e-9, 1'000'001.0, std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity()}) {
    v1::CreatePolicyRequest request = ValidPolicy();
    request.mutable_policy()->set_max_per_second(rate);
    EXPECT_EQ(Fields(fixture_.Call(&PolicyApi::CreatePolicy, request).status()),
              Strings{"policy.max_per_second"})
        << rate;
  }
  EXPECT_EQ(RefusedFields([](v1::ThrottlePolicy& p) { p.set_burst(2); }), Strings{"policy.burst"});
  EXPECT_EQ(RefusedFields([](v1::ThrottlePolicy& p) {
              p.set_max_per_second(1);
              p.set_burst(1'000'001);
            }),
            Strings{"policy.burst"});
  EXPECT_EQ(RefusedFields([](v1::ThrottlePolicy& p) { p.mutable_hold_timeout(); }),
            Strings{"policy.hold_timeout"});
  EXPECT_EQ(RefusedFields([](v1::ThrottlePolicy& p) {
              p.mutable_hold_timeout()->set_seconds(30 * 86400 + 1);
            }),
            Strings{"policy.hold_timeout"});
  EXPECT_EQ(
      RefusedFields([](v1::ThrottlePolicy& p) {
        p.set_on_expiry(static_cast<v1::ThrottlePolicy::OnExpiry>(7));
        p.set_fairness(static_cast<v1::ThrottlePolicy::Fairness>(7));
        p.set_retries(static_cast<v1::ThrottlePolicy::Retries>(7));
        p.set_display_name(std::string(201, 'x'));
      }),
      (Strings{"policy.on_expiry", "policy.fairness", "policy.retries", "policy.display_name"}));
}

TEST_F(PolicyServiceTest, EachWrongLimitOfKeysIsNamed) {
  using Strings = std::set<std::string>;
  EXPECT_EQ(RefusedFields([](v1::ThrottlePolicy& p) { p.mutable_per_key(); }),
            Strings{"policy.per_key.max_concurrent"});
  EXPECT_EQ(RefusedFields([](v1::ThrottlePolicy& p) { p.mutable_per_key()->set_burst(2); }),
            (Strings{"policy.per_key.max_concurrent", "policy.per_key.burst"}));
  for (const int64_t limit : {-1, 10'000'001}) {
    v1::CreatePolicyRequest request = ValidPolicy();
    request.mutable_policy()->mutable_per_key()->set_max_concurrent(limit);
    EXPECT_EQ(Fields(fixture_.Call(&PolicyApi::CreatePolicy, request).status()),
              Strings{"policy.per_key.max_concurrent"})
        << limit;
  }
  for (const double rate : {-1.0, 1e-9, 1'000'001.0, std::numeric_limits<double>::quiet_NaN()}) {
    v1::CreatePolicyRequest request = ValidPolicy();
    request.mutable_policy()->mutable_per_key()->set_max_per_second(rate);
    EXPECT_EQ(Fields(fixture_.Call(&PolicyApi::CreatePolicy, request).status()),
              Strings{"policy.per_key.max_per_second"})
        << rate;
  }
  EXPECT_EQ(RefusedFields([](v1::ThrottlePolicy& p) {
              p.mutable_per_key()->set_max_concurrent(1);
              p.mutable_per_key()->set_burst(2);
            }),
            Strings{"policy.per_key.burst"});
  EXPECT_EQ(RefusedFields([](v1::ThrottlePolicy& p) {
              p.mutable_per_key()->set_max_per_second(1);
              p.mutable_per_key()->set_burst(1'000'001);
            }),
            Strings{"policy.per_key.burst"});
  EXPECT_EQ(
      RefusedFields([](v1::ThrottlePolicy& p) { p.set_fairness(v1::ThrottlePolicy::BY_KEY); }),
      Strings{"policy.fairness"});
  EXPECT_EQ(RefusedFields([](v1::ThrottlePolicy& p) {
              p.clear_max_concurrent();
              p.set_max_per_second(1);
              p.set_retries(v1::ThrottlePolicy::KEEP_TOKEN);
            }),
            Strings{"policy.retries"});
}

TEST_F(PolicyServiceTest, KeysMayHaveARateAndTurnsAndRetriesMayKeepTheirToken) {
  v1::CreatePolicyRequest request = ValidPolicy();
  request.mutable_policy()->mutable_per_key()->set_max_per_second(2.5);
  request.mutable_policy()->set_fairness(v1::ThrottlePolicy::BY_KEY);
  request.mutable_policy()->set_retries(v1::ThrottlePolicy::KEEP_TOKEN);
  const v1::ThrottlePolicy made = Make(request);
  EXPECT_EQ(made.per_key().max_concurrent(), 0);
  EXPECT_EQ(made.per_key().max_per_second(), 2.5);
  EXPECT_EQ(made.per_key().burst(), 1);
  EXPECT_EQ(made.fairness(), v1::ThrottlePolicy::BY_KEY);
  EXPECT_EQ(made.retries(), v1::ThrottlePolicy::KEEP_TOKEN);
  storage::v1::PolicyRecord record;
  ASSERT_TRUE(record.ParseFromString(
      fixture_.Get(ColumnFamily::kPolicies, PolicyKey("default", "backup")).value()));
  EXPECT_TRUE(record.by_key());
  EXPECT_FALSE(record.fifo());
  EXPECT_TRUE(record.keep_token());

  v1::ListPoliciesRequest list;
  list.set_parent("tenants/default");
  list.set_filter("fairness = BY_KEY");
  EXPECT_EQ(fixture_.Call(&PolicyApi::ListPolicies, list)->policies_size(), 1);
  list.set_filter("fairness = FIFO");
  EXPECT_EQ(fixture_.Call(&PolicyApi::ListPolicies, list)->policies_size(), 0);

  // Turns of keys need limits for keys.
  v1::ThrottlePolicy patch;
  patch.set_max_concurrent(5);
  EXPECT_EQ(Fields(Update(patch, {"max_concurrent", "per_key"}).status()),
            std::set<std::string>{"policy.fairness"});
  // The burst of keys goes with its rate.
  patch.mutable_per_key()->set_max_concurrent(3);
  const auto updated = Update(patch, {"per_key.max_concurrent", "per_key.max_per_second"});
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->per_key().max_concurrent(), 3);
  EXPECT_EQ(updated->per_key().burst(), 0);
  EXPECT_EQ(updated->retries(), v1::ThrottlePolicy::KEEP_TOKEN);
  // The last limit of keys takes per_key with it.
  patch.set_fairness(v1::ThrottlePolicy::BY_SCHEDULE);
  patch.clear_per_key();
  const auto without =
      Update(patch, {"max_concurrent", "fairness", "per_key.max_concurrent", "per_key.burst"});
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_FALSE(without->has_per_key());
}

TEST_F(PolicyServiceTest, FaultBesideThePolicyIsNamedToo) {
  v1::CreatePolicyRequest request = ValidPolicy("-bad");
  request.set_request_id(std::string(65, 'r'));
  request.clear_policy();
  EXPECT_EQ(Fields(fixture_.Call(&PolicyApi::CreatePolicy, request).status()),
            (std::set<std::string>{"policy_id", "request_id", "policy"}));
  v1::PausePolicyRequest pause;
  pause.set_name("tenants/default/schedules/s");
  pause.set_reason(std::string(201, 'r'));
  EXPECT_EQ(Fields(fixture_.Call(&PolicyApi::PausePolicy, pause).status()),
            (std::set<std::string>{"name", "reason"}));
  v1::GetPolicyRequest elsewhere;
  elsewhere.set_name("tenants/other/policies/backup");
  EXPECT_EQ(fixture_.Call(&PolicyApi::GetPolicy, elsewhere).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(PolicyServiceTest, ValidateOnlyAnswersAndWritesNothing) {
  v1::CreatePolicyRequest create = ValidPolicy();
  create.set_validate_only(true);
  create.set_request_id("r");
  EXPECT_EQ(Make(create).version(), 1);
  EXPECT_EQ(fixture_.Dump(), "");
  Make();
  const std::string before = fixture_.Dump();
  v1::UpdatePolicyRequest update;
  update.mutable_policy()->set_name(kName);
  update.mutable_policy()->set_max_concurrent(7);
  update.set_validate_only(true);
  update.set_request_id("r");
  const auto shown = fixture_.Call(&PolicyApi::UpdatePolicy, update);
  ASSERT_TRUE(shown.ok()) << shown.status();
  EXPECT_EQ(shown->max_concurrent(), 7);
  EXPECT_EQ(shown->version(), 2);
  EXPECT_EQ(fixture_.Dump(), before);
}

TEST_F(PolicyServiceTest, AnUpdateReplacesWhatItsMaskNamesOrWhatIsSet) {
  v1::CreatePolicyRequest create = ValidPolicy();
  create.mutable_policy()->set_display_name("backups");
  create.mutable_policy()->mutable_hold_timeout()->set_seconds(60);
  const v1::ThrottlePolicy made = Make(create);

  v1::ThrottlePolicy patch;
  patch.set_max_concurrent(10);
  patch.set_display_name("ignored");
  auto updated = Update(patch, {"max_concurrent"});
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->max_concurrent(), 10);
  EXPECT_EQ(updated->display_name(), "backups");
  EXPECT_EQ(updated->version(), 2);
  EXPECT_NE(updated->etag(), made.etag());

  v1::ThrottlePolicy set;
  set.set_max_per_second(5);
  set.set_state(v1::ThrottlePolicy::PAUSED);  // output only
  updated = Update(set, {});
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->max_concurrent(), 10);
  EXPECT_EQ(updated->max_per_second(), 5);
  EXPECT_EQ(updated->burst(), 1);
  EXPECT_EQ(updated->hold_timeout().seconds(), 60);
  EXPECT_EQ(updated->state(), v1::ThrottlePolicy::ENABLED);

  // A rate that is taken away takes its burst with it.
  updated = Update(v1::ThrottlePolicy(), {"max_per_second"});
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->burst(), 0);

  v1::ThrottlePolicy all;
  all.set_max_per_second(1);
  updated = Update(all, {"*"});
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->name(), kName);
  EXPECT_EQ(updated->max_concurrent(), 0);
  EXPECT_EQ(updated->display_name(), "");
  EXPECT_EQ(updated->hold_timeout().seconds(), 3600);
  EXPECT_EQ(updated->version(), 5);
  EXPECT_EQ(Get()->SerializeAsString(), updated->SerializeAsString());
}

TEST_F(PolicyServiceTest, AnUpdateIsRefusedAsAWhole) {
  Make();
  EXPECT_EQ(Fields(Update(v1::ThrottlePolicy(), {"max_concurrent"}).status()),
            std::set<std::string>{"policy.max_concurrent"});
  EXPECT_EQ(Fields(Update(v1::ThrottlePolicy(), {"max_concurrent", "tokens"}).status()),
            std::set<std::string>{"update_mask"});
  EXPECT_EQ(Get()->version(), 1);
}

TEST_F(PolicyServiceTest, AChangeWithAStaleEtagIsAborted) {
  const v1::ThrottlePolicy made = Make();
  v1::ThrottlePolicy patch;
  patch.set_max_concurrent(1);
  patch.set_etag(made.etag());
  ASSERT_TRUE(Update(patch, {"max_concurrent"}).ok());
  const std::string before = fixture_.Dump();
  const std::vector<absl::Status> refused = {
      Update(patch, {"max_concurrent"}).status(),
      fixture_.Call(&PolicyApi::PausePolicy, Named<v1::PausePolicyRequest>(made.etag())).status(),
      fixture_.Call(&PolicyApi::ResumePolicy, Named<v1::ResumePolicyRequest>(made.etag())).status(),
      fixture_.Call(&PolicyApi::DeletePolicy, Named<v1::DeletePolicyRequest>(made.etag())).status(),
  };
  for (const absl::Status& status : refused) {
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
    EXPECT_EQ(ErrorReason(status), "ETAG_MISMATCH");
  }
  EXPECT_EQ(fixture_.Dump(), before);
}

TEST_F(PolicyServiceTest, AnEtagOfAPolicyThatWasMadeAgainIsStale) {
  const std::string etag = Make().etag();
  ASSERT_TRUE(Delete().ok());
  fixture_.runtime.AdvanceBy(absl::Seconds(1));
  Make();
  EXPECT_EQ(
      ErrorReason(
          fixture_.Call(&PolicyApi::DeletePolicy, Named<v1::DeletePolicyRequest>(etag)).status()),
      "ETAG_MISMATCH");
}

TEST_F(PolicyServiceTest, ARepeatedRequestHasTheFirstAnswerAndNoSecondEffect) {
  v1::CreatePolicyRequest create = ValidPolicy("");
  create.set_request_id("c");
  const v1::ThrottlePolicy made = Make(create);
  EXPECT_EQ(Make(create).SerializeAsString(), made.SerializeAsString());
  EXPECT_EQ(fixture_.Rows(ColumnFamily::kPolicies).size(), 1u);
  create.mutable_policy()->set_max_concurrent(51);
  EXPECT_EQ(ErrorReason(fixture_.Call(&PolicyApi::CreatePolicy, create).status()),
            "REQUEST_ID_REUSED");

  Make();
  const auto pause = Named<v1::PausePolicyRequest>("", "p");
  const auto paused = fixture_.Call(&PolicyApi::PausePolicy, pause);
  ASSERT_TRUE(paused.ok()) << paused.status();
  ASSERT_TRUE(fixture_.Call(&PolicyApi::ResumePolicy, Named<v1::ResumePolicyRequest>()).ok());
  EXPECT_EQ(fixture_.Call(&PolicyApi::PausePolicy, pause)->SerializeAsString(),
            paused->SerializeAsString());
  EXPECT_EQ(Get()->state(), v1::ThrottlePolicy::ENABLED);

  const auto remove = Named<v1::DeletePolicyRequest>("", "d");
  ASSERT_TRUE(fixture_.Call(&PolicyApi::DeletePolicy, remove).ok());
  EXPECT_TRUE(fixture_.Call(&PolicyApi::DeletePolicy, remove).ok());
  EXPECT_EQ(Delete().code(), absl::StatusCode::kNotFound);
}

TEST_F(PolicyServiceTest, TwoEqualRequestsAtOnceAreAnsweredAndOneTakesEffect) {
  v1::CreatePolicyRequest create = ValidPolicy();
  create.set_request_id("c");
  std::vector<absl::StatusOr<v1::ThrottlePolicy>> answers;
  for (int i = 0; i < 2; ++i) {
    fixture_.master->policies().CreatePolicy(
        create, [&](absl::StatusOr<v1::ThrottlePolicy> answer) { answers.push_back(answer); });
  }
  ASSERT_TRUE(fixture_.runtime.RunUntil([&] { return answers.size() == 2; }, absl::Minutes(1)));
  ASSERT_TRUE(answers[0].ok() && answers[1].ok()) << answers[0].status() << answers[1].status();
  EXPECT_EQ(answers[0]->SerializeAsString(), answers[1]->SerializeAsString());
}

TEST_F(PolicyServiceTest, ChangesAtOnceAreMadeOneAfterTheOther) {
  Make();
  constexpr int kChanges = 8;
  int done = 0;
  for (int i = 0; i < kChanges; ++i) {
    v1::UpdatePolicyRequest update;
    update.mutable_policy()->set_name(kName);
    update.mutable_policy()->set_max_concurrent(100 + i);
    fixture_.master->policies().UpdatePolicy(update,
                                             [&](absl::StatusOr<v1::ThrottlePolicy> answer) {
                                               EXPECT_TRUE(answer.ok()) << answer.status();
                                               ++done;
                                             });
  }
  ASSERT_TRUE(fixture_.runtime.RunUntil([&] { return done == kChanges; }, absl::Minutes(1)));
  EXPECT_EQ(Get()->version(), 1 + kChanges);
}

TEST_F(PolicyServiceTest, PauseAndResumeKeepTheLimitsAndNeedTheOtherState) {
  Make();
  auto pause = Named<v1::PausePolicyRequest>();
  pause.set_reason("holiday");
  const auto paused = fixture_.Call(&PolicyApi::PausePolicy, pause);
  ASSERT_TRUE(paused.ok()) << paused.status();
  EXPECT_EQ(paused->state(), v1::ThrottlePolicy::PAUSED);
  EXPECT_EQ(paused->pause_reason(), "holiday");
  EXPECT_EQ(paused->max_concurrent(), 50);
  EXPECT_EQ(paused->version(), 2);
  EXPECT_EQ(ErrorReason(fixture_.Call(&PolicyApi::PausePolicy, pause).status()), "WRONG_STATE");

  v1::ThrottlePolicy patch;
  patch.set_max_concurrent(1);
  const auto updated = Update(patch, {"*"});
  EXPECT_EQ(updated->state(), v1::ThrottlePolicy::PAUSED);
  EXPECT_EQ(updated->pause_reason(), "holiday");

  const auto resumed =
      fixture_.Call(&PolicyApi::ResumePolicy, Named<v1::ResumePolicyRequest>(updated->etag()));
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(resumed->state(), v1::ThrottlePolicy::ENABLED);
  EXPECT_EQ(resumed->pause_reason(), "");
  EXPECT_EQ(resumed->version(), 4);
  EXPECT_EQ(ErrorReason(
                fixture_.Call(&PolicyApi::ResumePolicy, Named<v1::ResumePolicyRequest>()).status()),
            "WRONG_STATE");
}

TEST_F(PolicyServiceTest, APolicyThatAScheduleRefersToIsNotDeleted) {
  Make();
  const std::string user = PolicyUserKey(uid_, Uid::FromHalves(1, 2));
  fixture_.Put(ColumnFamily::kPolicies, user, "");
  EXPECT_EQ(Delete().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(Delete()), "POLICY_HAS_SCHEDULES");
  fixture_.Delete(ColumnFamily::kPolicies, user);
  EXPECT_TRUE(Delete().ok());
}

TEST_F(PolicyServiceTest, APolicyUnderWhichEventsWaitIsNotDeleted) {
  Make();
  // A row of another policy in the same shard does not matter.
  WaitingKey key;
  key.policy_shard = shard_;
  key.policy = Uid::FromHalves(7, 7);
  fixture_.Put(ColumnFamily::kWaiting, EncodeWaitingKey(key), "");
  key.policy = uid_;
  fixture_.Put(ColumnFamily::kWaiting, EncodeWaitingKey(key), "");
  EXPECT_EQ(Delete().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(Delete()), "POLICY_HAS_WAITING_EVENTS");
  EXPECT_TRUE(Get().ok());
  fixture_.Delete(ColumnFamily::kWaiting, EncodeWaitingKey(key));
  EXPECT_TRUE(Delete().ok());
}

TEST_F(PolicyServiceTest, APolicyWhoseTokensAreHeldIsNotDeletedAndItsCountsGoWithIt) {
  Make();
  const std::string counts = PolicyCountsKey(shard_, uid_);
  const std::string grant = EncodeGrantKey({shard_, uid_, 3, 1});
  fixture_.Put(ColumnFamily::kGrants, counts, "");
  fixture_.Put(ColumnFamily::kGrants, PolicyHistoryKey(shard_, uid_), "");
  fixture_.Put(ColumnFamily::kGrants, grant, "");
  EXPECT_EQ(Delete().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(Delete()), "POLICY_HAS_HELD_TOKENS");
  EXPECT_TRUE(fixture_.Get(ColumnFamily::kGrants, counts).has_value());
  fixture_.Delete(ColumnFamily::kGrants, grant);
  EXPECT_TRUE(Delete().ok());
  EXPECT_TRUE(fixture_.Rows(ColumnFamily::kGrants).empty());
  EXPECT_TRUE(fixture_.Rows(ColumnFamily::kPolicies).empty());
  EXPECT_EQ(Get().status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PolicyServiceTest, PoliciesAreListedInTheOrderOfTheirNamesPageByPage) {
  for (const char* id : {"c", "a", "e", "b", "d"}) Make(ValidPolicy(id));
  // Not a policy, though in the same column family.
  fixture_.Put(ColumnFamily::kPolicies, PolicyUserKey(uid_, Uid::FromHalves(1, 2)), "");
  v1::ListPoliciesRequest request;
  request.set_parent("tenants/default");
  request.set_page_size(2);
  std::string names;
  int pages = 0;
  do {
    const auto page = fixture_.Call(&PolicyApi::ListPolicies, request);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const v1::ThrottlePolicy& policy : page->policies()) names += policy.name().back();
    request.set_page_token(page->next_page_token());
    ++pages;
  } while (!request.page_token().empty());
  EXPECT_EQ(names, "abcde");
  EXPECT_EQ(pages, 3);

  request.set_page_token("x");
  request.set_page_size(-1);
  EXPECT_EQ(Fields(fixture_.Call(&PolicyApi::ListPolicies, request).status()),
            (std::set<std::string>{"page_token", "page_size"}));
}

}  // namespace policy_service_test
}  // namespace escapement::master
