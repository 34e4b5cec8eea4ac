// Lists of large items: every page fits into an ordinary client's 4 MiB, and no item is missed.

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/errors.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/master/base/limits.h"
#include "services/master/testing/master_world.h"
#include "services/master/testing/run_world.h"

namespace escapement::master {
namespace list_pages_test {

using kv::ColumnFamily;
using Names = std::vector<std::string>;

struct Listed {
  Names names;
  int pages = 0;
  std::string first_token;
};

// Reads all pages of the default size.
template <typename Api, typename Request, typename Response, typename Items>
Listed ListAll(MasterWorld& fixture, void (Api::*method)(Request, Done<Response>), Request request,
               const Items& items) {
  Listed listed;
  do {
    const auto page = fixture.Call(method, request);
    EXPECT_TRUE(page.ok()) << page.status();
    if (!page.ok()) break;
    EXPECT_LE(page->ByteSizeLong(), kPageBytesMax + 200);  // the token comes on top
    EXPECT_GT(items(*page).size(), 0);
    for (const auto& item : items(*page)) listed.names.push_back(item.name());
    request.set_page_token(page->next_page_token());
    if (++listed.pages == 1) listed.first_token = request.page_token();
  } while (!request.page_token().empty() && listed.pages < 1000);
  return listed;
}

// A token with a character less or more is refused.
template <typename Api, typename Request, typename Response>
void ExpectTokenIsChecked(MasterWorld& fixture, void (Api::*method)(Request, Done<Response>),
                          Request request, const std::string& token) {
  ASSERT_FALSE(token.empty());
  for (const std::string& changed :
       {token.substr(0, token.size() - 1), token + "A", token + "=", token.substr(1)}) {
    request.set_page_token(changed);
    const absl::Status status = fixture.Call(method, request).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << changed;
    ASSERT_EQ(FieldViolationsOf(status).size(), 1u) << status;
    EXPECT_EQ(FieldViolationsOf(status)[0].first, "page_token");
  }
}

TEST(ListPages, SchedulesWithLargeHeadersOrManyInstantsEndTheirPagesEarly) {
  MasterWorld fixture;
  Names made;
  for (int i = 0; i < 40; ++i) {
    v1::CreateScheduleRequest request = ValidSchedule(absl::StrCat("s", 100 + i));
    v1::Schedule* schedule = request.mutable_schedule();
    for (int h = 0; h < 32; ++h) {
      (*schedule->mutable_target()->mutable_http()->mutable_headers())[absl::StrCat("X-", h)] =
          std::string(4096, 'v');
    }
    if (i % 2 == 1) {
      for (int t = 0; t < 1000; ++t) schedule->add_times()->set_seconds(4'000'000'000 + t);
      schedule->clear_cron();
    }
    const auto created = fixture.Call(&ScheduleApi::CreateSchedule, request);
    ASSERT_TRUE(created.ok()) << created.status();
    made.push_back(created->name());
  }
  v1::ListSchedulesRequest list;
  list.set_parent("tenants/default");
  const Listed listed = ListAll(fixture, &ScheduleApi::ListSchedules, list,
                                [](const auto& page) { return page.schedules(); });
  EXPECT_EQ(listed.names, made);
  EXPECT_GE(listed.pages, 6);
  EXPECT_LE(listed.pages, 8);
  ExpectTokenIsChecked(fixture, &ScheduleApi::ListSchedules, list, listed.first_token);
}

TEST(ListPages, PoliciesWithLongTextsEndTheirPagesEarly) {
  MasterWorld fixture;
  std::string text;
  for (int i = 0; i < 200; ++i) text += "\U0001F514";
  storage::v1::PolicyRecord record;
  record.set_tenant("default");
  record.set_display_name(text);
  record.set_pause_reason(text);
  Names made;
  for (int i = 0; i < 700; ++i) {
    const std::string id = absl::StrCat("p", 100 + i);
    record.set_policy_id(id);
    fixture.Put(ColumnFamily::kPolicies, PolicyKey("default", id), record.SerializeAsString());
    made.push_back("tenants/default/policies/" + id);
  }
  v1::ListPoliciesRequest list;
  list.set_parent("tenants/default");
  list.set_page_size(kPageSizeMax);
  const Listed listed = ListAll(fixture, &PolicyApi::ListPolicies, list,
                                [](const auto& page) { return page.policies(); });
  EXPECT_EQ(listed.names, made);
  EXPECT_GE(listed.pages, 2);
  ExpectTokenIsChecked(fixture, &PolicyApi::ListPolicies, list, listed.first_token);
}

TEST(ListPages, RunEventsWithOutputsEndTheirPagesEarly) {
  RunWorld bench(1);
  const absl::Time due = bench.start + absl::Minutes(1);
  const std::string id = bench.Emit(due, 1200);  // 300 a shard
  for (uint16_t shard = 0; shard < 4; ++shard) {
    bench.End(shard, id, due, shard * 300, 300, 1200, storage::v1::OUTCOME_KIND_SUCCEEDED);
    const std::string key = EncodeDoneKey({.shard = shard,
                                           .day = DoneDay(due),
                                           .uid = bench.uid,
                                           .occurrence = id,
                                           .first = shard * uint64_t{300}});
    storage::v1::DoneRecord done;
    ASSERT_TRUE(done.ParseFromString(*bench.fixture.Get(ColumnFamily::kDone, key)));
    done.set_output(std::string(4096, 'o'));
    bench.fixture.Put(ColumnFamily::kDone, key, done.SerializeAsString());
  }
  v1::ListRunEventsRequest list;
  list.set_parent(absl::StrCat(kParent, "/runs/", id));
  list.set_page_size(kPageSizeMax);
  const Listed listed = ListAll(bench.fixture, &RunApi::ListRunEvents, list,
                                [](const auto& page) { return page.events(); });
  EXPECT_EQ(listed.names.size(), 1200u);
  EXPECT_EQ(std::set<std::string>(listed.names.begin(), listed.names.end()).size(), 1200u);
  EXPECT_GE(listed.pages, 5);
  ExpectTokenIsChecked(bench.fixture, &RunApi::ListRunEvents, list, listed.first_token);
}

TEST(ListPages, TheTokenOfAListOfRunsIsCheckedAsAWhole) {
  RunWorld bench(1);
  for (int i = 1; i <= 3; ++i) bench.EndSingle(bench.start + absl::Minutes(i));
  v1::ListRunsRequest list;
  list.set_parent(kParent);
  list.set_page_size(1);
  const auto page = bench.fixture.Call(&RunApi::ListRuns, list);
  ASSERT_TRUE(page.ok()) << page.status();
  ExpectTokenIsChecked(bench.fixture, &RunApi::ListRuns, list, page->next_page_token());
}

}  // namespace list_pages_test
}  // namespace escapement::master
