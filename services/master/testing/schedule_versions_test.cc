// ListScheduleVersions through the API.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/secrets/sealed_value.h"
#include "common/storage/schedule_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/schedule_world.h"

namespace escapement::master {
namespace schedule_versions_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ScheduleVersionsTest : public ::testing::Test {
 protected:
  ScheduleVersionsTest() {
    v1::CreateScheduleRequest request = ValidSchedule("s", "0 0 1 1 *");
    const auto made = world_.Call(&ScheduleApi::CreateSchedule, request);
    EXPECT_TRUE(made.ok()) << made.status();
    uid_ = Uid::FromHex(made->uid());
  }
  // A minute later.
  void Update(const std::function<void(v1::Schedule&)>& change, const Strings& paths) {
    world_.runtime.AdvanceBy(absl::Minutes(1));
    v1::UpdateScheduleRequest request;
    request.mutable_schedule()->set_name(kName);
    change(*request.mutable_schedule());
    for (const std::string& path : paths) request.mutable_update_mask()->add_paths(path);
    const auto updated = world_.Call(&ScheduleApi::UpdateSchedule, request);
    ASSERT_TRUE(updated.ok()) << updated.status();
  }
  absl::StatusOr<v1::ListScheduleVersionsResponse> List() {
    v1::ListScheduleVersionsRequest request;
    request.set_parent(kName);
    return world_.Call(&ScheduleApi::ListScheduleVersions, request);
  }
  // "2: cron, target".
  Strings Shown() {
    const auto versions = List();
    EXPECT_TRUE(versions.ok()) << versions.status();
    Strings shown;
    for (const v1::ScheduleVersion& version : versions->versions()) {
      shown.push_back(
          absl::StrCat(version.version(), ": ", absl::StrJoin(version.changed_fields(), ", ")));
    }
    return shown;
  }

  MasterWorld world_;
  Uid uid_;
};

TEST_F(ScheduleVersionsTest, EachNamesTheFieldsThatItChangedTheNewestFirst) {
  EXPECT_THAT(Shown(), ElementsAre("1: "));
  Update([](auto& s) { s.set_cron("0 5 1 1 *"); }, {"cron"});
  Update([](auto& s) { s.mutable_interval()->mutable_every()->set_seconds(3600); }, {"interval"});
  Update(
      [](auto& s) {
        s.mutable_target()->mutable_http()->set_uri("http://127.0.0.1:9/b");
        s.mutable_retry_policy()->set_max_attempts(7);
        s.set_payload("secret words");
      },
      {"target", "retry_policy", "payload"});
  // The display name is no part of a definition.
  Update([](auto& s) { s.set_display_name("D"); }, {"display_name"});
  Update([](auto& s) { s.set_event_count(2); }, {"event_count"});
  EXPECT_THAT(Shown(), ElementsAre("6: event_count", "5: ", "4: target, payload, retry_policy",
                                   "3: cron, interval, dst_policy", "2: cron", "1: "));
  EXPECT_THAT(List()->DebugString(), Not(HasSubstr("secret words")));
}

TEST_F(ScheduleVersionsTest, EachSaysWhenItWasMade) {
  const absl::Time before = world_.Now();
  Update([](auto& s) { s.set_event_count(2); }, {"event_count"});
  const auto versions = List();
  ASSERT_TRUE(versions.ok()) << versions.status();
  ASSERT_EQ(versions->versions_size(), 2);
  const auto time = [&](int i) {
    return FromMicros(*TimestampMicros(versions->versions(i).create_time()));
  };
  EXPECT_LE(time(1), before);
  EXPECT_GT(time(0), before + absl::Seconds(59));
  EXPECT_LE(time(0), world_.Now());
}

TEST_F(ScheduleVersionsTest, DaysOfItsCalendarAreAChangeOfTheCalendar) {
  v1::CreateCalendarRequest create;
  create.set_parent("tenants/default");
  create.set_calendar_id("c");
  create.mutable_calendar()->add_dates("2031-12-25");
  ASSERT_TRUE(world_.Call(&CalendarService::CreateCalendar, create).ok());
  Update([](auto& s) { s.set_calendar("c"); }, {"calendar"});
  v1::UpdateCalendarRequest update;
  update.mutable_calendar()->set_name("tenants/default/calendars/c");
  update.mutable_calendar()->add_dates("2031-12-26");
  update.mutable_update_mask()->add_paths("dates");
  ASSERT_TRUE(world_.Call(&CalendarService::UpdateCalendar, update).ok());
  for (int i = 0; i < 600 && Shown().size() < 3; ++i) world_.runtime.AdvanceBy(absl::Seconds(1));
  EXPECT_THAT(Shown(), ElementsAre("3: calendar", "2: calendar, on_excluded", "1: "));
}

TEST_F(ScheduleVersionsTest, DeletedOrUnknownSchedulesAreNotFound) {
  ASSERT_TRUE(world_.Call(&ScheduleApi::DeleteSchedule, Named<v1::DeleteScheduleRequest>()).ok());
  EXPECT_EQ(List().status().code(), absl::StatusCode::kNotFound);
  v1::ListScheduleVersionsRequest request;
  request.set_parent("tenants/default/schedules/none");
  EXPECT_EQ(world_.Call(&ScheduleApi::ListScheduleVersions, request).status().code(),
            absl::StatusCode::kNotFound);
  request.set_parent("tenants/default");
  EXPECT_EQ(world_.Call(&ScheduleApi::ListScheduleVersions, request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ScheduleVersionsTest, TheNewestThousandAreListedEachWithItsChange) {
  storage::v1::DefinitionRecord definition;
  ASSERT_TRUE(definition.ParseFromString(
      *world_.Get(kv::ColumnFamily::kDefinitions, DefinitionKey(uid_, 1))));
  const uint64_t newest = kListedVersionsMax + 5;
  kv::Group group;
  for (uint64_t version = 2; version <= newest; ++version) {
    definition.set_version(version);
    definition.set_event_count(version);
    group.mutations.push_back(kv::Put(kv::ColumnFamily::kDefinitions, DefinitionKey(uid_, version),
                                      definition.SerializeAsString()));
  }
  storage::v1::StateRecord state = StateOf(world_);
  state.set_version(newest);
  group.mutations.push_back(
      kv::Put(kv::ColumnFamily::kStates, StateKey(uid_), state.SerializeAsString()));
  world_.Commit({group});
  const Strings shown = Shown();
  ASSERT_EQ(shown.size(), static_cast<size_t>(kListedVersionsMax));
  EXPECT_EQ(shown.front(), absl::StrCat(newest, ": event_count"));
  EXPECT_EQ(shown.back(), "6: event_count");
  // Swept versions are left out.
  for (uint64_t version = 1; version < newest - 2; ++version)
    world_.Delete(kv::ColumnFamily::kDefinitions, DefinitionKey(uid_, version));
  EXPECT_THAT(Shown(), ElementsAre(absl::StrCat(newest, ": event_count"),
                                   absl::StrCat(newest - 1, ": event_count"),
                                   absl::StrCat(newest - 2, ": ")));
}

TEST_F(ScheduleVersionsTest, ReplacedSecretIsAChangeOfTheTargetTheSameOneIsNone) {
  MasterOptions options;
  options.sealer = std::make_shared<const Sealer>(*KeyRing::Parse(
      absl::StrCat("k1: ", absl::Base64Escape(std::string(kSealingKeyBytes, 'a'))), "keys"));
  world_.Restart(std::move(options));
  for (const char* secret : {"first", "first", "second"}) {
    Update(
        [&](auto& s) {
          s.mutable_target()->mutable_http()->set_uri("http://127.0.0.1:9/");
          auto& headers = *s.mutable_target()->mutable_http()->mutable_secret_headers();
          headers["Authorization"] = secret;
        },
        {"target"});
  }
  EXPECT_THAT(Shown(), ElementsAre("4: target", "3: ", "2: target", "1: "));
}

}  // namespace schedule_versions_test
}  // namespace escapement::master
