// Tenant.defaults: they hold for events and schedules that are silent.

#include <string>

#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace tenant_defaults_test {

class TenantDefaultsTest : public ::testing::Test {
 protected:
  TenantDefaultsTest() {
    v1::CreatePolicyRequest policy;
    policy.set_parent("tenants/default");
    for (const char* id : {"gate", "own"}) {
      policy.set_policy_id(id);
      policy.mutable_policy()->set_max_concurrent(2);
      EXPECT_TRUE(world_.Call(&PolicyApi::CreatePolicy, policy).ok());
    }
    defaults_.mutable_delivery_timeout()->set_seconds(3);
    defaults_.mutable_retry_policy()->set_max_attempts(7);
    defaults_.mutable_max_lateness()->set_seconds(60);
    defaults_.add_limits()->set_policy("gate");
    EXPECT_TRUE(Set(defaults_).ok());
  }
  absl::StatusOr<v1::Tenant> Set(const v1::TenantDefaults& defaults) {
    v1::UpdateTenantRequest request;
    request.mutable_tenant()->set_name("tenants/default");
    *request.mutable_tenant()->mutable_defaults() = defaults;
    request.mutable_update_mask()->add_paths("defaults");
    const auto tenant = world_.Call(&TenantService::UpdateTenant, request);
    world_.runtime.AdvanceBy(absl::Seconds(1));  // until the master knows it
    return tenant;
  }
  v1::Event Get(const std::string& name) {
    v1::GetEventRequest request;
    request.set_name(name);
    const auto event = world_.Call(&EventApi::GetEvent, request);
    EXPECT_TRUE(event.ok()) << event.status();
    return event.ok() ? *event : v1::Event();
  }
  template <typename Message>
  static void ExpectDefaults(const Message& message) {
    EXPECT_EQ(message.delivery_timeout().seconds(), 3);
    EXPECT_EQ(message.retry_policy().max_attempts(), 7);
    EXPECT_EQ(message.policy(), "tenants/default/policies/gate");
  }
  template <typename Message>
  static void SaySomething(Message& message) {
    message.mutable_delivery_timeout()->set_seconds(4);
    message.mutable_retry_policy()->set_max_attempts(2);
    message.set_policy("own");
  }
  template <typename Message>
  static void ExpectItsOwn(const Message& message) {
    EXPECT_EQ(message.delivery_timeout().seconds(), 4);
    EXPECT_EQ(message.retry_policy().max_attempts(), 2);
    EXPECT_EQ(message.policy(), "tenants/default/policies/own");
  }

  MasterWorld world_;
  v1::TenantDefaults defaults_;
};

TEST_F(TenantDefaultsTest, HoldForEventsThatAreSilent) {
  const absl::Time due = world_.Now() + absl::Hours(1);
  const auto silent = world_.Call(&EventApi::CreateEvent, ValidEvent(due, "silent"));
  ASSERT_TRUE(silent.ok()) << silent.status();
  ExpectDefaults(*silent);
  EXPECT_EQ(silent->max_lateness().seconds(), 60);
  v1::CreateEventRequest request = ValidEvent(due, "speaks");
  SaySomething(*request.mutable_event());
  const auto speaks = world_.Call(&EventApi::CreateEvent, request);
  ASSERT_TRUE(speaks.ok()) << speaks.status();
  ExpectItsOwn(*speaks);

  v1::UpdateEventRequest update;
  update.mutable_event()->set_name("tenants/default/events/speaks");
  for (const char* path : {"retry_policy", "policy"}) update.mutable_update_mask()->add_paths(path);
  const auto updated = world_.Call(&EventApi::UpdateEvent, update);
  ASSERT_TRUE(updated.ok()) << updated.status();
  EXPECT_EQ(updated->retry_policy().max_attempts(), 7);
  EXPECT_EQ(updated->delivery_timeout().seconds(), 4);
  EXPECT_EQ(updated->policy(), "") << "it was taken away";
}

TEST_F(TenantDefaultsTest, HoldForIngestedEventsThatAreSilent) {
  v1::IngestRequest batch = ValidBatch(world_.Now() + absl::Hours(1), 2);
  batch.mutable_events(0)->set_event_id("silent");
  batch.mutable_events(1)->set_event_id("speaks");
  SaySomething(*batch.mutable_events(1)->mutable_overrides());
  ASSERT_EQ(world_.Ingest(batch)->created_count(), 2);
  ExpectDefaults(Get("tenants/default/events/silent"));
  ExpectItsOwn(Get("tenants/default/events/speaks"));
  batch.clear_events();
  SaySomething(*batch.mutable_defaults());
  batch.add_events()->set_event_id("spoken-for");
  batch.mutable_events(0)->set_due_time_micros(absl::ToUnixMicros(world_.Now() + absl::Hours(1)));
  ASSERT_EQ(world_.Ingest(batch)->created_count(), 1);
  ExpectItsOwn(Get("tenants/default/events/spoken-for"));
}

TEST_F(TenantDefaultsTest, HoldForSchedulesThatAreSilent) {
  const auto silent = world_.Call(&ScheduleApi::CreateSchedule, ValidSchedule("silent"));
  ASSERT_TRUE(silent.ok()) << silent.status();
  ExpectDefaults(*silent);
  v1::CreateScheduleRequest request = ValidSchedule("speaks");
  SaySomething(*request.mutable_schedule());
  const auto speaks = world_.Call(&ScheduleApi::CreateSchedule, request);
  ASSERT_TRUE(speaks.ok()) << speaks.status();
  ExpectItsOwn(*speaks);

  ASSERT_TRUE(Set({}).ok());
  v1::GetScheduleRequest get;
  get.set_name("tenants/default/schedules/silent");
  ExpectDefaults(*world_.Call(&ScheduleApi::GetSchedule, get));

  ASSERT_TRUE(Set(defaults_).ok());
  v1::UpdateScheduleRequest whole;
  *whole.mutable_schedule() = ValidSchedule("speaks").schedule();
  whole.mutable_schedule()->set_name("tenants/default/schedules/speaks");
  whole.mutable_update_mask()->add_paths("*");
  const auto updated = world_.Call(&ScheduleApi::UpdateSchedule, whole);
  ASSERT_TRUE(updated.ok()) << updated.status();
  ExpectDefaults(*updated);
}

TEST_F(TenantDefaultsTest, WrongOnesAreRefused) {
  v1::TenantDefaults wrong;
  wrong.mutable_delivery_timeout()->set_seconds(0);
  EXPECT_TRUE(absl::IsInvalidArgument(Set(wrong).status()));
  wrong = {};
  wrong.mutable_retry_policy()->set_max_attempts(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(Set(wrong).status()));
  wrong = {};
  wrong.mutable_max_lateness()->set_seconds(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(Set(wrong).status()));
  wrong = {};
  wrong.add_limits()->set_policy("NO SUCH NAME");
  EXPECT_TRUE(absl::IsInvalidArgument(Set(wrong).status()));
  wrong = {};
  wrong.set_completion(v1::ON_RELEASE);
  EXPECT_TRUE(absl::IsInvalidArgument(Set(wrong).status()));
}

}  // namespace tenant_defaults_test
}  // namespace escapement::master
