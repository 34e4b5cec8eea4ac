// OverridePolicy and ClearOverride: what they refuse, keep and show.

#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/policies/policy_codec.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace policy_override_test {

using kv::ColumnFamily;

constexpr char kName[] = "tenants/default/policies/backup";

std::set<std::string> Fields(const absl::Status& status) {
  std::set<std::string> fields;
  for (const auto& [field, text] : FieldViolationsOf(status)) fields.insert(field);
  return fields;
}

class PolicyOverrideTest : public ::testing::Test {
 protected:
  PolicyOverrideTest() {
    v1::CreatePolicyRequest request;
    request.set_parent("tenants/default");
    request.set_policy_id("backup");
    request.mutable_policy()->set_max_concurrent(50);
    request.mutable_policy()->mutable_per_key()->set_max_concurrent(5);
    EXPECT_TRUE(world_.Call(&PolicyApi::CreatePolicy, request).ok());
  }

  v1::OverridePolicyRequest Request(int64_t max_concurrent,
                                    absl::Duration length = absl::Minutes(10)) {
    v1::OverridePolicyRequest request;
    request.set_name(kName);
    request.mutable_override()->set_max_concurrent(max_concurrent);
    request.mutable_override()->set_reason("drain");
    SetTimestamp(ToMicros(world_.Now() + length),
                 *request.mutable_override()->mutable_expire_time());
    return request;
  }
  v1::OverridePolicyRequest OfKey(const std::string& key, int64_t max_concurrent,
                                  absl::Duration length = absl::Minutes(10)) {
    v1::OverridePolicyRequest request = Request(max_concurrent, length);
    request.mutable_override()->set_policy_key(key);
    return request;
  }
  absl::StatusOr<v1::ThrottlePolicy> Override(const v1::OverridePolicyRequest& request) {
    return world_.Call(&PolicyApi::OverridePolicy, request);
  }
  absl::StatusOr<v1::ThrottlePolicy> Clear(const v1::ClearOverrideRequest& request) {
    return world_.Call(&PolicyApi::ClearOverride, request);
  }
  v1::ClearOverrideRequest Clearing() {
    v1::ClearOverrideRequest request;
    request.set_name(kName);
    return request;
  }
  v1::ClearOverrideRequest ClearingKey(const std::string& key) {
    v1::ClearOverrideRequest request = Clearing();
    request.set_policy_key(key);
    return request;
  }
  v1::ThrottlePolicy Get() {
    v1::GetPolicyRequest request;
    request.set_name(kName);
    const auto policy = world_.Call(&PolicyApi::GetPolicy, request);
    EXPECT_TRUE(policy.ok()) << policy.status();
    return policy.value_or(v1::ThrottlePolicy());
  }
  absl::StatusOr<v1::ThrottlePolicy> Update(v1::ThrottlePolicy patch,
                                            const std::vector<std::string>& paths) {
    v1::UpdatePolicyRequest request;
    *request.mutable_policy() = std::move(patch);
    request.mutable_policy()->set_name(kName);
    for (const std::string& path : paths) request.mutable_update_mask()->add_paths(path);
    return world_.Call(&PolicyApi::UpdatePolicy, request);
  }
  storage::v1::PolicyRecord Stored() {
    storage::v1::PolicyRecord record;
    EXPECT_TRUE(record.ParseFromString(
        world_.Get(ColumnFamily::kPolicies, PolicyKey("default", "backup")).value()));
    return record;
  }
  // "key=limit" of each override that is shown; of the policy itself "=limit".
  static std::vector<std::string> Shown(const v1::ThrottlePolicy& policy) {
    std::vector<std::string> shown;
    for (const v1::PolicyOverride& override : policy.overrides()) {
      shown.push_back(absl::StrCat(override.has_policy_key() ? override.policy_key() : "-", "=",
                                   override.max_concurrent()));
    }
    return shown;
  }
  // The fields that an override is refused for; nothing is stored.
  std::set<std::string> RefusedFields(void (*spoil)(v1::PolicyOverride&)) {
    v1::OverridePolicyRequest request = Request(2);
    spoil(*request.mutable_override());
    const std::string before = world_.Dump();
    const auto refused = Override(request);
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(world_.Dump(), before);
    return Fields(refused.status());
  }

  MasterWorld world_;
};

using Strings = std::vector<std::string>;
using Set = std::set<std::string>;

TEST_F(PolicyOverrideTest, OverrideIsShownWithItsLimitsReasonAndTimes) {
  v1::OverridePolicyRequest request = Request(2);
  request.mutable_override()->set_max_per_second(0.5);
  request.mutable_override()->mutable_create_time()->set_seconds(7);  // output only
  const absl::Time before = world_.Now();
  const auto overridden = Override(request);
  ASSERT_TRUE(overridden.ok()) << overridden.status();
  EXPECT_EQ(overridden->version(), 2);
  EXPECT_EQ(overridden->max_concurrent(), 50);
  ASSERT_EQ(overridden->overrides_size(), 1);
  const v1::PolicyOverride& override = overridden->overrides(0);
  EXPECT_FALSE(override.has_policy_key());
  EXPECT_EQ(override.max_concurrent(), 2);
  EXPECT_EQ(override.max_per_second(), 0.5);
  EXPECT_EQ(override.burst(), 1);
  EXPECT_EQ(override.reason(), "drain");
  EXPECT_EQ(override.expire_time().DebugString(), request.override().expire_time().DebugString());
  EXPECT_LT(absl::AbsDuration(FromMicros(*TimestampMicros(override.create_time())) - before),
            absl::Seconds(2));
  EXPECT_EQ(Get().SerializeAsString(), overridden->SerializeAsString());
}

TEST_F(PolicyOverrideTest, LimitsThatAreNotSetStayUnset) {
  v1::OverridePolicyRequest request = OfKey("", 0);
  ASSERT_TRUE(Override(request).ok());
  v1::PolicyOverride shown = Get().overrides(0);
  EXPECT_TRUE(shown.has_policy_key());
  EXPECT_EQ(shown.policy_key(), "");
  EXPECT_TRUE(shown.has_max_concurrent());
  EXPECT_FALSE(shown.has_max_per_second());
  EXPECT_FALSE(shown.has_burst());
  request.mutable_override()->clear_max_concurrent();
  request.mutable_override()->set_max_per_second(7);
  request.mutable_override()->set_burst(3);
  ASSERT_TRUE(Override(request).ok());
  shown = Get().overrides(0);
  EXPECT_FALSE(shown.has_max_concurrent());
  EXPECT_EQ(shown.max_per_second(), 7);
  EXPECT_EQ(shown.burst(), 3);
}

TEST_F(PolicyOverrideTest, EachWrongFieldIsNamed) {
  EXPECT_EQ(RefusedFields([](v1::PolicyOverride& o) { o.Clear(); }),
            (Set{"override.max_concurrent", "override.reason", "override.expire_time"}));
  for (const int64_t limit : {int64_t{-1}, kMaxConcurrentMax + 1})
    EXPECT_EQ(Fields(Override(Request(limit)).status()), Set{"override.max_concurrent"}) << limit;
  for (const double rate : {0.0, -1.0, 1e-9, 1'000'001.0, std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity()}) {
    v1::OverridePolicyRequest request = Request(2);
    request.mutable_override()->set_max_per_second(rate);
    EXPECT_EQ(Fields(Override(request).status()), Set{"override.max_per_second"}) << rate;
  }
  EXPECT_EQ(RefusedFields([](v1::PolicyOverride& o) { o.set_burst(2); }), Set{"override.burst"});
  EXPECT_EQ(RefusedFields([](v1::PolicyOverride& o) {
              o.set_max_per_second(1);
              o.set_burst(0);
            }),
            Set{"override.burst"});
  EXPECT_EQ(RefusedFields([](v1::PolicyOverride& o) {
              o.set_max_per_second(1);
              o.set_burst(1'000'001);
            }),
            Set{"override.burst"});
  EXPECT_EQ(RefusedFields([](v1::PolicyOverride& o) { o.set_reason(std::string(201, 'r')); }),
            Set{"override.reason"});
  EXPECT_EQ(RefusedFields([](v1::PolicyOverride& o) { o.set_reason("a\nb"); }),
            Set{"override.reason"});
  EXPECT_EQ(RefusedFields([](v1::PolicyOverride& o) { o.set_policy_key("\x7f"); }),
            Set{"override.policy_key"});
  EXPECT_EQ(RefusedFields([](v1::PolicyOverride& o) { o.set_policy_key(std::string(129, 'k')); }),
            Set{"override.policy_key"});
  EXPECT_EQ(RefusedFields([](v1::PolicyOverride& o) { o.mutable_expire_time()->set_nanos(-1); }),
            Set{"override.expire_time"});
  EXPECT_EQ(Fields(Override(Request(2, -absl::Seconds(1))).status()), Set{"override.expire_time"});
  EXPECT_EQ(Fields(Override(Request(2, kOverrideMax + absl::Seconds(10))).status()),
            Set{"override.expire_time"});
  EXPECT_TRUE(Override(Request(2, kOverrideMax - absl::Seconds(10))).ok());
}

TEST_F(PolicyOverrideTest, FaultBesideTheOverrideIsNamedToo) {
  v1::OverridePolicyRequest request = Request(-1);
  request.set_request_id(std::string(65, 'r'));
  EXPECT_EQ(Fields(Override(request).status()), (Set{"override.max_concurrent", "request_id"}));
  request.clear_override();
  request.set_name("tenants/default/schedules/s");
  EXPECT_EQ(Fields(Override(request).status()), (Set{"override", "name", "request_id"}));
  request = Request(1);
  request.set_name("tenants/default/policies/none");
  EXPECT_EQ(Override(request).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(PolicyOverrideTest, OverrideOfAKeyNeedsLimitsForKeys) {
  ASSERT_TRUE(Update({}, {"per_key"}).ok());
  EXPECT_EQ(Fields(Override(OfKey("a", 1)).status()), Set{"override.policy_key"});
  EXPECT_TRUE(Override(Request(1)).ok());
}

TEST_F(PolicyOverrideTest, ReplacedOverrideGoesToTheEnd) {
  ASSERT_TRUE(Override(Request(1)).ok());
  ASSERT_TRUE(Override(OfKey("a", 2)).ok());
  ASSERT_TRUE(Override(OfKey("", 3)).ok());
  EXPECT_EQ(Shown(Get()), (Strings{"-=1", "a=2", "=3"}));
  ASSERT_TRUE(Override(Request(4)).ok());
  EXPECT_EQ(Shown(Get()), (Strings{"a=2", "=3", "-=4"}));
}

TEST_F(PolicyOverrideTest, OverrideIsKeptOverARestartAndAnUpdate) {
  ASSERT_TRUE(Override(Request(1)).ok());
  ASSERT_TRUE(Override(OfKey("a", 2)).ok());
  world_.Restart();
  EXPECT_EQ(Shown(Get()), (Strings{"-=1", "a=2"}));
  v1::ThrottlePolicy patch;
  patch.set_max_concurrent(60);
  patch.mutable_per_key()->set_max_concurrent(6);
  patch.add_overrides()->set_max_concurrent(9);  // output only
  for (const Strings& paths : {Strings{"max_concurrent", "overrides"}, Strings{}, Strings{"*"}}) {
    const auto updated = Update(patch, paths);
    ASSERT_TRUE(updated.ok()) << updated.status();
    EXPECT_EQ(Shown(*updated), (Strings{"-=1", "a=2"}));
  }
}

TEST_F(PolicyOverrideTest, OverridesOfKeysGoWithTheLimitsOfKeys) {
  ASSERT_TRUE(Override(Request(1)).ok());
  ASSERT_TRUE(Override(OfKey("a", 2)).ok());
  const auto updated = Update({}, {"per_key"});
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(Shown(*updated), Strings{"-=1"});
  EXPECT_EQ(Stored().overrides_size(), 1);
}

TEST_F(PolicyOverrideTest, ExpiredOverrideIsHiddenAndTheNextChangeRemovesIt) {
  ASSERT_TRUE(Override(Request(1, absl::Minutes(1))).ok());
  ASSERT_TRUE(Override(OfKey("a", 2, absl::Hours(1))).ok());
  world_.runtime.AdvanceBy(absl::Minutes(2));
  EXPECT_EQ(Shown(Get()), Strings{"a=2"});
  v1::ListPoliciesRequest list;
  list.set_parent("tenants/default");
  EXPECT_EQ(Shown(world_.Call(&PolicyApi::ListPolicies, list)->policies(0)), Strings{"a=2"});
  EXPECT_EQ(Stored().overrides_size(), 2);
  v1::PausePolicyRequest pause;
  pause.set_name(kName);
  ASSERT_TRUE(world_.Call(&PolicyApi::PausePolicy, pause).ok());
  EXPECT_EQ(Stored().overrides_size(), 1);
  EXPECT_EQ(Shown(Get()), Strings{"a=2"});
}

TEST_F(PolicyOverrideTest, ClearedOverrideIsGoneAndOneThatIsNotThereIsRefused) {
  ASSERT_TRUE(Override(Request(1)).ok());
  ASSERT_TRUE(Override(OfKey("", 2)).ok());
  ASSERT_TRUE(Override(OfKey("a", 3, absl::Minutes(1))).ok());
  auto cleared = Clear(Clearing());
  ASSERT_TRUE(cleared.ok()) << cleared.status();
  EXPECT_EQ(Shown(*cleared), (Strings{"=2", "a=3"}));
  cleared = Clear(ClearingKey(""));
  ASSERT_TRUE(cleared.ok()) << cleared.status();
  EXPECT_EQ(Shown(*cleared), Strings{"a=3"});
  world_.runtime.AdvanceBy(absl::Minutes(2));  // a=3 has ended by itself
  for (const auto& request : {Clearing(), ClearingKey(""), ClearingKey("a"), ClearingKey("b")}) {
    const absl::Status refused = Clear(request).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ErrorReason(refused), "NO_OVERRIDE");
  }
}

TEST_F(PolicyOverrideTest, OnlySoManyAreInForceAtOnce) {
  for (int i = 0; i < kOverridesMax - 1; ++i)
    ASSERT_TRUE(Override(OfKey(absl::StrCat("k", i), i)).ok());
  ASSERT_TRUE(Override(Request(1, absl::Minutes(1))).ok());
  const absl::Status refused = Override(OfKey("one more", 1)).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(refused), "TOO_MANY_OVERRIDES");
  EXPECT_TRUE(Override(OfKey("k0", 7)).ok());  // takes the place of the former one
  world_.runtime.AdvanceBy(absl::Minutes(2));
  EXPECT_TRUE(Override(OfKey("one more", 1)).ok());  // one has ended
}

TEST_F(PolicyOverrideTest, ChangeWithAStaleEtagIsAborted) {
  const std::string etag = Get().etag();
  ASSERT_TRUE(Override(Request(1)).ok());
  v1::OverridePolicyRequest again = Request(2);
  again.set_etag(etag);
  EXPECT_EQ(ErrorReason(Override(again).status()), "ETAG_MISMATCH");
  v1::ClearOverrideRequest clear = Clearing();
  clear.set_etag(etag);
  EXPECT_EQ(ErrorReason(Clear(clear).status()), "ETAG_MISMATCH");
  again.set_etag(Get().etag());
  EXPECT_TRUE(Override(again).ok());
}

// A client may repeat its call when the override has ended already.
TEST_F(PolicyOverrideTest, RepeatedRequestHasTheFirstAnswerAndNoSecondEffect) {
  v1::OverridePolicyRequest request = Request(1, absl::Minutes(1));
  request.set_request_id("o");
  const auto first = Override(request);
  ASSERT_TRUE(first.ok()) << first.status();
  v1::ClearOverrideRequest clear = Clearing();
  clear.set_request_id("c");
  const auto cleared = Clear(clear);
  ASSERT_TRUE(cleared.ok()) << cleared.status();
  world_.runtime.AdvanceBy(absl::Minutes(2));
  EXPECT_EQ(Override(request)->SerializeAsString(), first->SerializeAsString());
  EXPECT_EQ(Clear(clear)->SerializeAsString(), cleared->SerializeAsString());
  EXPECT_EQ(Get().version(), 3);
}

TEST_F(PolicyOverrideTest, ValidateOnlyAnswersAndWritesNothing) {
  v1::OverridePolicyRequest request = Request(1);
  request.set_validate_only(true);
  request.set_request_id("o");
  std::string before = world_.Dump();
  EXPECT_EQ(Shown(*Override(request)), Strings{"-=1"});
  EXPECT_EQ(world_.Dump(), before);
  request.set_validate_only(false);
  ASSERT_TRUE(Override(request).ok());
  before = world_.Dump();
  v1::ClearOverrideRequest clear = Clearing();
  clear.set_validate_only(true);
  EXPECT_EQ(Shown(*Clear(clear)), Strings{});
  EXPECT_EQ(world_.Dump(), before);
}

}  // namespace policy_override_test
}  // namespace escapement::master
