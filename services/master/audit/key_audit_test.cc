// API keys and the audit, on a store in memory.

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/auth/key_directory.h"
#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/testing/master_world.h"

namespace escapement::master {
namespace key_audit_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class KeyAuditTest : public ::testing::Test {
 protected:
  absl::StatusOr<v1::ApiKey> CreateKey(v1::Access::Role role,
                                       const std::string& parent = "tenants/default") {
    v1::CreateKeyRequest request;
    request.set_parent(parent);
    request.mutable_key()->set_role(role);
    return world_.Call(&KeyService::CreateKey, request);
  }
  std::vector<std::string> Audit(const std::string& filter = "", int page_size = 100,
                                 const std::string& parent = "tenants/default") {
    std::vector<std::string> entries;
    v1::ListAuditEntriesRequest request;
    request.set_parent(parent);
    request.set_filter(filter);
    request.set_page_size(page_size);
    do {
      const auto page = world_.Call(&AuditService::ListAuditEntries, request);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      for (const v1::AuditEntry& entry : page->audit_entries()) {
        entries.push_back(absl::StrCat(entry.principal(), " ", entry.method(), " ",
                                       entry.resource(), " ", entry.version_before(), "→",
                                       entry.version_after(), " ", entry.result()));
      }
      request.set_page_token(page->next_page_token());
    } while (!request.page_token().empty());
    return entries;
  }

  MasterWorld world_;
};

TEST_F(KeyAuditTest, SecretIsShownOnceAndOnlyItsHashIsStored) {
  const auto made = CreateKey(v1::Access::EDITOR);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto parts = auth::ParseApiKey(made->secret());
  ASSERT_TRUE(parts.has_value()) << made->secret();
  EXPECT_EQ(made->name(), absl::StrCat("tenants/default/keys/", parts->id));
  v1::GetKeyRequest get;
  get.set_name(made->name());
  const auto got = world_.Call(&KeyService::GetKey, get);
  ASSERT_TRUE(got.ok());
  EXPECT_EQ(got->secret(), "");
  EXPECT_EQ(got->role(), v1::Access::EDITOR);
  for (size_t cf = 0; cf < kv::kColumnFamilyCount; ++cf) {
    for (const auto& [key, value] : world_.Rows(static_cast<kv::ColumnFamily>(cf)))
      EXPECT_FALSE(absl::StrContains(value, parts->secret)) << cf;
  }
}

TEST_F(KeyAuditTest, RevokedKeyStaysListedAndRevoked) {
  const auto made = CreateKey(v1::Access::VIEWER);
  ASSERT_TRUE(made.ok());
  v1::RevokeKeyRequest revoke;
  revoke.set_name(made->name());
  const auto revoked = world_.Call(&KeyService::RevokeKey, revoke);
  ASSERT_TRUE(revoked.ok());
  EXPECT_TRUE(revoked->has_revoke_time());
  const auto again = world_.Call(&KeyService::RevokeKey, revoke);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->revoke_time().seconds(), revoked->revoke_time().seconds());
  v1::ListKeysRequest list;
  list.set_parent("tenants/default");
  const auto listed = world_.Call(&KeyService::ListKeys, list);
  ASSERT_TRUE(listed.ok());
  ASSERT_EQ(listed->keys_size(), 1);
  EXPECT_TRUE(listed->keys(0).has_revoke_time());
}

TEST_F(KeyAuditTest, BadKeysAreRefusedByField) {
  EXPECT_EQ(CreateKey(v1::Access::SERVICE).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CreateKey(v1::Access::VIEWER, "tenants/").status().code(),
            absl::StatusCode::kInvalidArgument);
  v1::CreateKeyRequest request;
  request.set_parent("tenants/default");
  request.mutable_key()->set_role(v1::Access::VIEWER);
  request.mutable_key()->mutable_expire_time()->set_seconds(1);
  EXPECT_EQ(world_.Call(&KeyService::CreateKey, request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(KeyAuditTest, CallerGivesNoHigherRoleThanItsOwn) {
  v1::CreateKeyRequest request;
  request.set_parent("tenants/default");
  request.mutable_key()->set_role(v1::Access::ADMIN);
  const auto editor = std::make_shared<const Caller>(Caller{"key/e", v1::Access::EDITOR});
  std::optional<absl::StatusOr<v1::ApiKey>> answer;
  world_.master->keys().CreateKey(
      request,
      Done<v1::ApiKey>([&](absl::StatusOr<v1::ApiKey> key) { answer = std::move(key); }, editor));
  ASSERT_TRUE(world_.runtime.RunUntil([&] { return answer.has_value(); }, absl::Minutes(1)));
  EXPECT_EQ(answer->status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(KeyAuditTest, EachChangeHasAnEntryWithItsVersionsTheNewestFirst) {
  ASSERT_TRUE(world_.Call(&ScheduleApi::CreateSchedule, ValidSchedule("s")).ok());
  v1::PauseScheduleRequest pause;
  pause.set_name("tenants/default/schedules/s");
  ASSERT_TRUE(world_.Call(&ScheduleApi::PauseSchedule, pause).ok());
  ASSERT_FALSE(world_.Call(&ScheduleApi::PauseSchedule, pause).ok());
  v1::DeleteScheduleRequest remove;
  remove.set_name(pause.name());
  ASSERT_TRUE(world_.Call(&ScheduleApi::DeleteSchedule, remove).ok());
  const std::string name = "tenants/default/schedules/s ";
  const std::vector<std::string> all = {absl::StrCat("anonymous DeleteSchedule ", name, "1→0 OK"),
                                        absl::StrCat("anonymous PauseSchedule ", name, "1→1 OK"),
                                        absl::StrCat("anonymous CreateSchedule ", name, "0→1 OK")};
  EXPECT_EQ(Audit(), all);
  EXPECT_EQ(Audit("", 1), all);
  EXPECT_THAT(Audit("method = PauseSchedule"), ElementsAre(all[1]));
  EXPECT_THAT(Audit("method = \"*Nothing\""), ElementsAre());
  EXPECT_EQ(Audit("resource = \"tenants/default/schedules/*\" AND result = OK"), all);
  EXPECT_THAT(Audit("time < \"2000-01-01T00:00:00Z\""), ElementsAre());
}

TEST_F(KeyAuditTest, DryCallsAreNotAudited) {
  v1::CreateScheduleRequest create = ValidSchedule("s");
  create.set_validate_only(true);
  ASSERT_TRUE(world_.Call(&ScheduleApi::CreateSchedule, create).ok());
  EXPECT_THAT(Audit(), ElementsAre());
}

TEST_F(KeyAuditTest, IngestHasAnEntryForEachBatchAlsoIfItsEventsExist) {
  v1::IngestRequest batch = ValidBatch(world_.Now() + absl::Hours(1), 1);
  batch.mutable_events(0)->set_event_id("one");
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(world_.Ingest(batch).ok());
    world_.runtime.RunUntil([] { return false; }, absl::Seconds(1));
  }
  EXPECT_THAT(Audit(), ElementsAre("anonymous Ingest tenants/default 0→0 OK",
                                   "anonymous Ingest tenants/default 0→0 OK"));
}

TEST_F(KeyAuditTest, OldEntriesAndLongRevokedKeysAreSwept) {
  ASSERT_TRUE(world_.Call(&ScheduleApi::CreateSchedule, ValidSchedule("s")).ok());
  const auto kept = CreateKey(v1::Access::VIEWER);
  const auto gone = CreateKey(v1::Access::VIEWER, "tenants/-");
  ASSERT_TRUE(kept.ok() && gone.ok());
  v1::RevokeKeyRequest revoke;
  revoke.set_name(gone->name());
  ASSERT_TRUE(world_.Call(&KeyService::RevokeKey, revoke).ok());
  world_.runtime.RunUntil([] { return false; }, absl::Hours(24 * 89));
  EXPECT_EQ(Audit().size(), 2u);
  EXPECT_EQ(world_.Rows(kv::ColumnFamily::kKeys).size(), 2u);
  world_.runtime.RunUntil([] { return false; }, absl::Hours(26));
  EXPECT_THAT(Audit(), ElementsAre());
  EXPECT_THAT(Audit("", 100, "tenants/-"), ElementsAre());
  EXPECT_EQ(world_.Rows(kv::ColumnFamily::kKeys).size(), 1u);
}

TEST_F(KeyAuditTest, FileNeverRestoresItsRevokedKey) {
  const std::string file = ::testing::TempDir() + "/first.key";
  std::ofstream(file) << "esc_0123456789abcdef_" << std::string(64, '7');
  const auto start_and_stop_master = [&] {
    MasterOptions options;
    options.bootstrap_key_file = file;
    MasterService master(options, *world_.store, world_.runtime);
    master.Start();
    world_.runtime.RunUntil([] { return false; }, absl::Seconds(5));
  };
  start_and_stop_master();
  v1::RevokeKeyRequest revoke;
  revoke.set_name("tenants/-/keys/0123456789abcdef");
  ASSERT_TRUE(world_.Call(&KeyService::RevokeKey, revoke).ok());
  world_.runtime.RunUntil([] { return false; }, absl::Hours(24 * 92));
  start_and_stop_master();
  v1::GetKeyRequest get;
  get.set_name(revoke.name());
  const auto key = world_.Call(&KeyService::GetKey, get);
  ASSERT_TRUE(key.ok()) << key.status();
  EXPECT_TRUE(key->has_revoke_time());
}

}  // namespace key_audit_test
}  // namespace escapement::master
