// Deleted tenants: when their ids can be used again, and what is left by then.

#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/rpc/method_access.h"
#include "common/status/errors.h"
#include "common/storage/children_table.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace tenant_sweep_test {

using kv::ColumnFamily;
using ::testing::HasSubstr;

constexpr char kTenant[] = "former-tenant";
constexpr char kName[] = "tenants/former-tenant";

using Row = std::pair<std::string, std::string>;

Uid AnyUid() { return Uid::FromBytes(std::string(Uid::kBytes, 'u')); }

template <typename Record>
std::string OfTenant() {
  Record record;
  record.set_tenant(kTenant);
  return record.SerializeAsString();
}

// A row of the tenant. nullopt: rows of the family name no tenant.
std::optional<Row> RowIn(ColumnFamily cf, absl::Time now) {
  const EventKey event{
      .shard = 1, .lane = 2, .due_time = now, .uid = AnyUid(), .occurrence = "", .first = 0};
  storage::v1::ClaimRecord claim;
  claim.add_entries()->mutable_event()->set_tenant(kTenant);
  storage::v1::GrantRecord grant;
  grant.mutable_event()->set_tenant(kTenant);
  switch (cf) {
    case ColumnFamily::kTenants:  // it says that the tenant was deleted
    case ColumnFamily::kInUse:
    case ColumnFamily::kLeases:
    case ColumnFamily::kMembers:
    case ColumnFamily::kMeta:
      return std::nullopt;
    case ColumnFamily::kPolicies:
      return Row(PolicyKey(kTenant, "p"), OfTenant<storage::v1::PolicyRecord>());
    case ColumnFamily::kSchedules:
      return Row(DeletedScheduleKey(kTenant, "s"), "schedule");
    case ColumnFamily::kStates:
      return Row(StateKey(AnyUid()), OfTenant<storage::v1::StateRecord>());
    case ColumnFamily::kDefinitions:
      return Row(DefinitionKey(AnyUid(), 1), OfTenant<storage::v1::DefinitionRecord>());
    case ColumnFamily::kChildren:
      return Row("child", OfTenant<storage::v1::ChildRecord>());
    case ColumnFamily::kCheckpoints:
      return Row(EncodeLaunchKey({1, now, AnyUid(), "o"}), OfTenant<storage::v1::LaunchRecord>());
    case ColumnFamily::kRuns:
      return Row(EncodeRunKey({AnyUid(), "o"}), OfTenant<storage::v1::RunRecord>());
    case ColumnFamily::kRunParts:
      return Row(RunPartKey({AnyUid(), "o"}, 1), "former-tenant by the uid");
    case ColumnFamily::kEvents:
      return Row(EncodeEventKey(event), OfTenant<storage::v1::EventRecord>());
    case ColumnFamily::kInflight:
      return Row(EncodeClaimKey({1, 1, 1}), claim.SerializeAsString());
    case ColumnFamily::kWaiting:
      return Row(EncodeWaitingKey({1, AnyUid(), 5, AnyUid(), now, "o", 0}),
                 OfTenant<storage::v1::EventRecord>());
    case ColumnFamily::kGrants:
      return Row(EncodeGrantKey({.policy = AnyUid(), .epoch = 1, .number = 1}),
                 grant.SerializeAsString());
    case ColumnFamily::kParked:
      return Row(ParkedKey(AnyUid(), EncodeEventKey(event)), OfTenant<storage::v1::EventRecord>());
    case ColumnFamily::kDone:
      return Row(EncodeDoneKey({1, DoneDay(now), AnyUid(), "o", 0}),
                 OfTenant<storage::v1::DoneRecord>());
    case ColumnFamily::kDeadLetters:
      return Row(DeadLetterKey(kTenant, now, "e"), "letter");
    case ColumnFamily::kEventNames:
      return Row(EventNameKey(kTenant, "e"), "name");
    case ColumnFamily::kRequests:
      return Row(RequestKey(kTenant, "r"), "request");
    case ColumnFamily::kLabels:
      return Row(LabelKey(kTenant, "k", "v", "s"), "");
    case ColumnFamily::kKeys:
      return Row(ApiKeyKey(kTenant, "k"), OfTenant<storage::v1::KeyRecord>());
    case ColumnFamily::kAudit:
      return Row(AuditKey(kTenant, {now, AnyUid()}), "entry");
    case ColumnFamily::kOperations:
      return Row(OperationKey(kTenant, "o"), OfTenant<storage::v1::OperationRecord>());
    case ColumnFamily::kTargetStates:
      return Row(EncodeTargetRowKey({kTenant, AnyUid(), "h"}), "target");
    case ColumnFamily::kPauseRequests:
      return Row(PauseRequestKey(AnyUid()), OfTenant<storage::v1::PauseRequestRecord>());
  }
  return std::nullopt;
}

constexpr ColumnFamily kWorkedOn[] = {ColumnFamily::kChildren, ColumnFamily::kCheckpoints,
                                      ColumnFamily::kEvents,   ColumnFamily::kInflight,
                                      ColumnFamily::kWaiting,  ColumnFamily::kGrants,
                                      ColumnFamily::kParked};

class TenantSweepTest : public ::testing::Test {
 protected:
  TenantSweepTest() {
    EXPECT_TRUE(Create().ok());
    Advance(absl::Seconds(1));
  }

  absl::StatusOr<v1::Tenant> Create() {
    v1::CreateTenantRequest request;
    request.set_tenant_id(kTenant);
    return world_.Call(&TenantService::CreateTenant, request);
  }
  void Delete() {
    v1::UpdateTenantRequest suspend;
    suspend.mutable_tenant()->set_name(kName);
    suspend.mutable_tenant()->set_state(v1::Tenant::SUSPENDED);
    ASSERT_TRUE(world_.Call(&TenantService::UpdateTenant, suspend).ok());
    Advance(absl::Seconds(11));
    v1::DeleteTenantRequest remove;
    remove.set_name(kName);
    const auto removed = world_.Call(&TenantService::DeleteTenant, remove);
    ASSERT_TRUE(removed.ok()) << removed.status();
  }
  void Advance(absl::Duration duration) {
    world_.runtime.RunUntil([] { return false; }, duration);
  }
  v1::Event CreateEvent(const std::string& id, absl::Duration due_in) {
    v1::CreateEventRequest request = ValidEvent(world_.Now() + due_in, id);
    request.set_parent(kName);
    const auto event = world_.Call(&EventApi::CreateEvent, request);
    EXPECT_TRUE(event.ok()) << event.status();
    return event.value_or(v1::Event());
  }
  template <typename Request>
  Request OfParent() {
    Request request;
    request.set_parent(kName);
    return request;
  }

  MasterWorld world_;
};

TEST_F(TenantSweepTest, NoRowOfADeletedTenantIsLeftOnceItsIdIsFree) {
  Delete();
  for (size_t i = 0; i < kv::kColumnFamilyCount; ++i) {
    const auto cf = static_cast<ColumnFamily>(i);
    const auto row = RowIn(cf, world_.Now());
    if (row.has_value() && !absl::c_linear_search(kWorkedOn, cf))
      world_.Put(cf, row->first, row->second);
  }
  world_.Put(ColumnFamily::kPolicies, CalendarKey(kTenant, "c"),
             OfTenant<storage::v1::CalendarRecord>());
  world_.Put(ColumnFamily::kPolicies, CalendarMarkKey(kTenant), "mark");
  for (const ColumnFamily cf : kWorkedOn) {
    const Row row = *RowIn(cf, world_.Now());
    world_.Put(cf, row.first, row.second);
    Advance(absl::Hours(1));
    EXPECT_EQ(ErrorReason(Create().status()), "TENANT_BEING_DELETED") << kv::Name(cf);
    ASSERT_TRUE(world_.Get(cf, row.first).has_value()) << kv::Name(cf) << ": its owner ends it";
    world_.Delete(cf, row.first);
  }
  Advance(absl::Hours(1));
  const auto created = Create();
  ASSERT_TRUE(created.ok()) << created.status();
  for (size_t cf = 0; cf < kv::kColumnFamilyCount; ++cf) {
    const auto family = static_cast<ColumnFamily>(cf);
    if (family == ColumnFamily::kTenants) continue;
    for (const auto& [key, value] : world_.Rows(family)) {
      // Calls that manage tenants are kept under "-".
      if (absl::StartsWith(key, TenantKey(kAllTenants))) continue;
      EXPECT_FALSE(absl::StrContains(key, kTenant) || absl::StrContains(value, kTenant))
          << kv::Name(family);
    }
  }
}

TEST_F(TenantSweepTest, NewTenantWithAFormerIdSeesNothingOfTheFormer) {
  const std::string event = CreateEvent("x", absl::Hours(24 * 300)).name();
  v1::CancelEventRequest cancel;
  cancel.set_name(event);
  ASSERT_TRUE(world_.Call(&EventApi::CancelEvent, cancel).ok());
  auto key = OfParent<v1::CreateKeyRequest>();
  key.mutable_key()->set_role(v1::Access::VIEWER);
  ASSERT_TRUE(world_.Call(&KeyService::CreateKey, key).ok());
  Delete();
  const absl::Time deleted = world_.Now();
  EXPECT_TRUE(world_.Rows(ColumnFamily::kKeys).empty());
  EXPECT_EQ(ErrorReason(Create().status()), "TENANT_BEING_DELETED");
  Advance(absl::Minutes(30));
  ASSERT_TRUE(Create().ok());
  Advance(absl::Seconds(1));
  EXPECT_EQ(world_.Call(&EventApi::ListEvents, OfParent<v1::ListEventsRequest>())->events_size(),
            0);
  v1::GetEventRequest get;
  get.set_name(event);
  EXPECT_EQ(world_.Call(&EventApi::GetEvent, get).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(world_.Call(&AuditService::ListAuditEntries, OfParent<v1::ListAuditEntriesRequest>())
                ->audit_entries_size(),
            0);
  CreateEvent("x", absl::Hours(24 * 300));

  const auto check = [&](absl::Time issued) {
    const auto* method = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(
        "escapement.v1.EventService.ListEvents");
    Caller caller{.principal = "jwt/i/s", .role = v1::Access::VIEWER, .tenant = kTenant};
    caller.issue_time = issued;
    return world_.master->tenant_rules().Check(*MethodAccess::Of(*method), caller, kTenant,
                                               v1::ListEventsRequest());
  };
  EXPECT_EQ(ErrorReason(check(deleted - absl::Seconds(20))), "CREDENTIAL_INVALID");
  EXPECT_EQ(ErrorReason(check(absl::InfinitePast())), "CREDENTIAL_INVALID");
  EXPECT_TRUE(check(world_.Now()).ok());
  EXPECT_TRUE(check(absl::InfiniteFuture()).ok()) << "an API key of the new tenant";
}

TEST_F(TenantSweepTest, PendingEventsOfADeletedTenantKeepItsIdInUse) {
  const absl::Time due =
      absl::FromUnixSeconds(CreateEvent("x", absl::Hours(5)).due_time().seconds());
  Delete();
  Advance(absl::Hours(1));
  const auto refused = Create();
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.status().message(),
              HasSubstr(absl::FormatTime("%Y-%m-%dT%H:%M:", due, absl::UTCTimeZone())));
  ASSERT_EQ(world_.Events().size(), 1u);
  Advance(absl::Hours(5));
  EXPECT_FALSE(Create().ok()) << "the event has not ended";
  world_.Delete(ColumnFamily::kEvents, EncodeEventKey(world_.Events()[0].first));
  Advance(absl::Minutes(30));
  EXPECT_TRUE(Create().ok());
}

TEST_F(TenantSweepTest, PagesOfTenantsSkipDeletedOnes) {
  v1::CreateTenantRequest other;
  other.set_tenant_id("zoo");
  ASSERT_TRUE(world_.Call(&TenantService::CreateTenant, other).ok());
  Delete();
  std::string names;
  v1::ListTenantsRequest request;
  request.set_page_size(1);
  do {
    const auto page = world_.Call(&TenantService::ListTenants, request);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const v1::Tenant& tenant : page->tenants()) names += tenant.name() + " ";
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  EXPECT_EQ(names, "tenants/default tenants/zoo ");
}

}  // namespace tenant_sweep_test
}  // namespace escapement::master
