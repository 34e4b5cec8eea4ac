// Tenants and their quotas, on a store in memory.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/method_access.h"
#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace tenant_service_test {

using ::testing::ElementsAre;

class TenantServiceTest : public ::testing::Test {
 protected:
  absl::StatusOr<v1::Tenant> Create(const std::string& id, const v1::Quotas& quotas = {}) {
    v1::CreateTenantRequest request;
    request.set_tenant_id(id);
    *request.mutable_tenant()->mutable_quotas() = quotas;
    return world_.Call(&TenantService::CreateTenant, request);
  }
  absl::StatusOr<v1::Tenant> Suspend(const std::string& name) {
    v1::UpdateTenantRequest request;
    request.mutable_tenant()->set_name(name);
    request.mutable_tenant()->set_state(v1::Tenant::SUSPENDED);
    return world_.Call(&TenantService::UpdateTenant, request);
  }
  absl::Status Delete(const std::string& name, const std::string& etag = "") {
    v1::DeleteTenantRequest request;
    request.set_name(name);
    request.set_etag(etag);
    return world_.Call(&TenantService::DeleteTenant, request).status();
  }
  std::vector<std::string> Names(int page_size) {
    std::vector<std::string> names;
    v1::ListTenantsRequest request;
    request.set_page_size(page_size);
    do {
      const auto page = world_.Call(&TenantService::ListTenants, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      for (const v1::Tenant& tenant : page->tenants()) names.push_back(tenant.name());
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return names;
  }
  // The answer of the rules to a request for the tenant.
  absl::Status Check(const google::protobuf::Message& request, const std::string& rpc,
                     const std::string& tenant) {
    const auto* method = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
        "escapement.v1." + rpc);
    return world_.master->tenant_rules().Check(*MethodAccess::Of(*method), caller_, tenant,
                                               request);
  }
  absl::Status CheckCreateEvents(int count, const std::string& tenant) {
    v1::BatchCreateEventsRequest request;
    for (int i = 0; i < count; ++i) request.add_requests()->mutable_event()->set_payload("12345");
    return Check(request, "EventService.BatchCreateEvents", tenant);
  }
  void Advance(absl::Duration duration) {
    world_.runtime.RunUntil([] { return false; }, duration);
  }

  MasterWorld world_;
  Caller caller_ = *AnonymousCaller();  // who asks the rules
};

TEST_F(TenantServiceTest, DefaultTenantExistsFromTheStart) {
  v1::GetTenantRequest request;
  request.set_name("tenants/default");
  const auto tenant = world_.Call(&TenantService::GetTenant, request);
  ASSERT_TRUE(tenant.ok()) << tenant.status();
  EXPECT_EQ(tenant->state(), v1::Tenant::ACTIVE);
  EXPECT_EQ(tenant->version(), 0);
  EXPECT_THAT(Names(10), ElementsAre("tenants/default"));
}

TEST_F(TenantServiceTest, CreatedTenantIsKnownListedAndNotMadeTwice) {
  ASSERT_TRUE(Create("b-team").ok());
  ASSERT_TRUE(Create("zoo").ok());
  EXPECT_EQ(Create("zoo").status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(Create("default").status().code(), absl::StatusCode::kAlreadyExists);
  for (const int page_size : {1, 2, 3, 10}) {
    EXPECT_THAT(Names(page_size), ElementsAre("tenants/b-team", "tenants/default", "tenants/zoo"))
        << page_size;
  }
  Advance(absl::Seconds(1));
  EXPECT_TRUE(CheckCreateEvents(1, "zoo").ok());
  EXPECT_EQ(CheckCreateEvents(1, "none").code(), absl::StatusCode::kNotFound);
}

TEST_F(TenantServiceTest, BadFieldsAreNamed) {
  v1::CreateTenantRequest request;
  request.set_tenant_id("Bad_Id");
  request.mutable_tenant()->mutable_quotas()->set_max_schedules(-1);
  request.mutable_tenant()->mutable_quotas()->set_max_events_per_second(-0.5);
  request.mutable_tenant()->mutable_retention()->set_seconds(86'399);
  std::vector<std::string> fields;
  for (const auto& [field, text] :
       FieldViolationsOf(world_.Call(&TenantService::CreateTenant, request).status()))
    fields.push_back(field);
  EXPECT_THAT(fields, ElementsAre("tenant_id", "tenant.quotas.max_schedules",
                                  "tenant.quotas.max_events_per_second", "tenant.retention"));
}

TEST_F(TenantServiceTest, RetentionIsSetAndUnset) {
  ASSERT_TRUE(Create("zoo").ok());
  v1::UpdateTenantRequest request;
  request.mutable_tenant()->set_name("tenants/zoo");
  request.mutable_tenant()->mutable_retention()->set_seconds(30 * 86'400);
  request.mutable_update_mask()->add_paths("retention");
  const auto longer = world_.Call(&TenantService::UpdateTenant, request);
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_EQ(longer->retention().seconds(), 30 * 86'400);
  request.mutable_tenant()->clear_retention();
  const auto as_platform = world_.Call(&TenantService::UpdateTenant, request);
  ASSERT_TRUE(as_platform.ok()) << as_platform.status();
  EXPECT_FALSE(as_platform->has_retention());
}

TEST_F(TenantServiceTest, UpdateChangesWhatTheMaskNamesIfTheEtagIsCurrent) {
  const auto made = Create("zoo");
  ASSERT_TRUE(made.ok());
  v1::UpdateTenantRequest request;
  request.mutable_tenant()->set_name("tenants/zoo");
  request.mutable_tenant()->set_display_name("Zoo");
  request.mutable_tenant()->mutable_quotas()->set_max_policies(3);
  request.mutable_tenant()->set_etag(made->etag());
  request.mutable_update_mask()->add_paths("quotas.max_policies");
  const auto changed = world_.Call(&TenantService::UpdateTenant, request);
  ASSERT_TRUE(changed.ok()) << changed.status();
  EXPECT_EQ(changed->quotas().max_policies(), 3);
  EXPECT_EQ(changed->display_name(), "");
  EXPECT_EQ(changed->version(), 2);
  EXPECT_EQ(ErrorReason(world_.Call(&TenantService::UpdateTenant, request).status()),
            "ETAG_MISMATCH");
  request.mutable_tenant()->clear_etag();
  request.mutable_update_mask()->add_paths("colour");
  EXPECT_EQ(world_.Call(&TenantService::UpdateTenant, request).status().code(),
            absl::StatusCode::kInvalidArgument);
  request.mutable_tenant()->set_name("tenants/none");
  EXPECT_EQ(world_.Call(&TenantService::UpdateTenant, request).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(TenantServiceTest, SuspendedTenantTakesNoChangesAndKeepsItsReads) {
  ASSERT_TRUE(Create("zoo").ok());
  ASSERT_TRUE(Suspend("tenants/zoo").ok());
  Advance(absl::Seconds(1));
  EXPECT_EQ(ErrorReason(CheckCreateEvents(1, "zoo")), "TENANT_SUSPENDED");
  EXPECT_TRUE(Check(v1::ListEventsRequest(), "EventService.ListEvents", "zoo").ok());
  EXPECT_TRUE(Check(v1::UpdateTenantRequest(), "TenantService.UpdateTenant", "zoo").ok());
}

TEST_F(TenantServiceTest, OnlyAnEmptyTenantThatWasSuspendedLongEnoughIsDeleted) {
  EXPECT_EQ(ErrorReason(Delete("tenants/default")), "DEFAULT_TENANT");
  ASSERT_TRUE(Create("zoo").ok());
  v1::CreateScheduleRequest schedule = ValidSchedule("s");
  schedule.set_parent("tenants/zoo");
  ASSERT_TRUE(world_.Call(&ScheduleApi::CreateSchedule, schedule).ok());
  EXPECT_EQ(ErrorReason(Delete("tenants/zoo")), "TENANT_NOT_SUSPENDED");
  const auto suspended = Suspend("tenants/zoo");
  ASSERT_TRUE(suspended.ok());
  EXPECT_EQ(ErrorReason(Delete("tenants/zoo")), "TENANT_NOT_SUSPENDED");
  Advance(absl::Seconds(11));
  EXPECT_EQ(ErrorReason(Delete("tenants/zoo")), "TENANT_HAS_SCHEDULES");
  v1::DeleteScheduleRequest remove;
  remove.set_name("tenants/zoo/schedules/s");
  ASSERT_TRUE(world_.Call(&ScheduleApi::DeleteSchedule, remove).ok());
  v1::CreateKeyRequest key;
  key.set_parent("tenants/zoo");
  key.mutable_key()->set_role(v1::Access::VIEWER);
  ASSERT_TRUE(world_.Call(&KeyService::CreateKey, key).ok());
  EXPECT_EQ(ErrorReason(Delete("tenants/zoo", "\"9-9\"")), "ETAG_MISMATCH");
  EXPECT_TRUE(Delete("tenants/zoo", suspended->etag()).ok());
  EXPECT_EQ(Delete("tenants/zoo").code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(world_.Rows(kv::ColumnFamily::kKeys).empty());
  Advance(absl::Seconds(1));
  EXPECT_EQ(CheckCreateEvents(1, "zoo").code(), absl::StatusCode::kNotFound);
}

TEST_F(TenantServiceTest, RatesAreBudgetsOfOneSecond) {
  v1::Quotas quotas;
  quotas.set_max_events_per_second(10);
  ASSERT_TRUE(Create("zoo", quotas).ok());
  Advance(absl::Seconds(2));
  EXPECT_TRUE(CheckCreateEvents(10, "zoo").ok());
  const absl::Status refused = CheckCreateEvents(5, "zoo");
  EXPECT_EQ(ErrorReason(refused), "QUOTA_EXCEEDED");
  EXPECT_EQ(ErrorMetadataValue(refused, "quota"), "max_events_per_second");
  EXPECT_EQ(RetryDelayOf(refused), absl::Milliseconds(500));
  Advance(absl::Milliseconds(500));
  EXPECT_TRUE(CheckCreateEvents(5, "zoo").ok());
  EXPECT_TRUE(CheckCreateEvents(100, "default").ok());
}

TEST_F(TenantServiceTest, RateOfATenantDoesNotRefuseAdminsOfThePlatform) {
  v1::Quotas quotas;
  quotas.set_max_requests_per_second(1);
  ASSERT_TRUE(Create("zoo", quotas).ok());
  caller_ = {.principal = "key/t", .role = v1::Access::ADMIN, .tenant = "zoo"};
  EXPECT_TRUE(CheckCreateEvents(1, "zoo").ok());
  EXPECT_EQ(ErrorMetadataValue(CheckCreateEvents(1, "zoo"), "quota"), "max_requests_per_second");
  caller_ = {.principal = "key/p", .role = v1::Access::ADMIN};
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(CheckCreateEvents(1, "zoo").ok());
}

TEST_F(TenantServiceTest, SizesAndCountsAreBounded) {
  v1::Quotas quotas;
  quotas.set_max_payload_bytes(5);
  quotas.set_max_events_per_run(7);
  quotas.set_max_schedules(2);
  quotas.set_max_pending_events(3);
  ASSERT_TRUE(Create("zoo", quotas).ok());
  Advance(absl::Seconds(3));
  v1::CreateScheduleRequest create = ValidSchedule("a");
  create.set_parent("tenants/zoo");
  const auto check = [&] { return Check(create, "ScheduleService.CreateSchedule", "zoo"); };
  create.mutable_schedule()->set_payload("123456");
  EXPECT_EQ(ErrorMetadataValue(check(), "quota"), "max_payload_bytes");
  create.mutable_schedule()->set_payload("12345");
  create.mutable_schedule()->set_event_count(8);
  EXPECT_EQ(ErrorMetadataValue(check(), "quota"), "max_events_per_run");
  create.mutable_schedule()->set_event_count(7);
  create.set_validate_only(true);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(check().ok()) << "a trial adds nothing";
  create.set_validate_only(false);
  for (const char* id : {"a", "b"}) {
    create.set_schedule_id(id);
    ASSERT_TRUE(check().ok());
    ASSERT_TRUE(world_.Call(&ScheduleApi::CreateSchedule, create).ok());
  }
  EXPECT_EQ(ErrorMetadataValue(check(), "quota"), "max_schedules");
  v1::DeleteScheduleRequest remove;
  remove.set_name("tenants/zoo/schedules/a");
  ASSERT_TRUE(world_.Call(&ScheduleApi::DeleteSchedule, remove).ok());
  Advance(absl::Seconds(3));
  EXPECT_TRUE(check().ok()) << "the schedules are counted again after a refusal";
  EXPECT_EQ(ErrorMetadataValue(CheckCreateEvents(4, "zoo"), "quota"), "max_pending_events");
  EXPECT_TRUE(CheckCreateEvents(3, "zoo").ok());
  EXPECT_EQ(ErrorMetadataValue(CheckCreateEvents(1, "zoo"), "quota"), "max_pending_events");
}

TEST_F(TenantServiceTest, BatchOfSchedulesCountsAsAllItsSchedules) {
  v1::Quotas quotas;
  quotas.set_max_payload_bytes(5);
  quotas.set_max_events_per_run(7);
  quotas.set_max_schedules(5);
  ASSERT_TRUE(Create("zoo", quotas).ok());
  Advance(absl::Seconds(3));
  v1::BatchCreateSchedulesRequest batch;
  for (int i = 0; i < 3; ++i) *batch.add_requests() = ValidSchedule(absl::StrCat("s", i));
  const auto check = [&] { return Check(batch, "ScheduleService.BatchCreateSchedules", "zoo"); };
  batch.mutable_requests(1)->mutable_schedule()->set_payload("123456");
  EXPECT_EQ(ErrorMetadataValue(check(), "quota"), "max_payload_bytes");
  batch.mutable_requests(1)->mutable_schedule()->clear_payload();
  batch.mutable_requests(1)->mutable_schedule()->set_event_count(8);
  EXPECT_EQ(ErrorMetadataValue(check(), "quota"), "max_events_per_run");
  batch.mutable_requests(1)->mutable_schedule()->clear_event_count();
  EXPECT_TRUE(check().ok());
  EXPECT_EQ(ErrorMetadataValue(check(), "quota"), "max_schedules");
  batch.mutable_requests()->RemoveLast();
  EXPECT_TRUE(check().ok());
  v1::BatchUpdateSchedulesRequest updates;
  updates.add_requests()->mutable_schedule()->set_event_count(8);
  EXPECT_EQ(
      ErrorMetadataValue(Check(updates, "ScheduleService.BatchUpdateSchedules", "zoo"), "quota"),
      "max_events_per_run");
}

TEST_F(TenantServiceTest, CreatesThatAddNothingUseUpNoQuota) {
  v1::Quotas quotas;
  quotas.set_max_schedules(2);
  ASSERT_TRUE(Create("zoo", quotas).ok());
  Advance(absl::Seconds(3));
  v1::CreateScheduleRequest create = ValidSchedule("a");
  create.set_parent("tenants/zoo");
  create.set_request_id("once");
  // The call and its repetitions: one schedule.
  for (int i = 0; i < 6; ++i) {
    const absl::Status allowed = Check(create, "ScheduleService.CreateSchedule", "zoo");
    ASSERT_TRUE(allowed.ok()) << i << ": " << allowed;
    ASSERT_TRUE(world_.Call(&ScheduleApi::CreateSchedule, create).ok());
    Advance(absl::Seconds(2));
  }
  create.set_schedule_id("b");
  create.clear_request_id();
  create.mutable_schedule()->set_cron("no cron");
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(Check(create, "ScheduleService.CreateSchedule", "zoo").ok()) << i;
    EXPECT_FALSE(world_.Call(&ScheduleApi::CreateSchedule, create).ok());
    Advance(absl::Seconds(2));
  }
}

TEST_F(TenantServiceTest, UsageCountsWhatTheTenantHas) {
  ASSERT_TRUE(Create("zoo").ok());
  v1::CreateScheduleRequest schedule = ValidSchedule("s");
  schedule.set_parent("tenants/zoo");
  ASSERT_TRUE(world_.Call(&ScheduleApi::CreateSchedule, schedule).ok());
  ASSERT_TRUE(world_.Call(&ScheduleApi::CreateSchedule, ValidSchedule("s")).ok());
  for (const char* parent : {"tenants/zoo", "tenants/zoo", "tenants/default"}) {
    v1::CreateEventRequest event = ValidEvent(world_.Now() + absl::Hours(1));
    event.set_parent(parent);
    ASSERT_TRUE(world_.Call(&EventApi::CreateEvent, event).ok());
  }
  v1::GetTenantUsageRequest request;
  request.set_name("tenants/zoo");
  const auto usage = world_.Call(&TenantService::GetTenantUsage, request);
  ASSERT_TRUE(usage.ok()) << usage.status();
  EXPECT_EQ(usage->schedule_count(), 1);
  EXPECT_EQ(usage->policy_count(), 0);
  EXPECT_EQ(usage->pending_event_count(), 2);
}

}  // namespace tenant_service_test
}  // namespace escapement::master
