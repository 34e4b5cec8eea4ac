#include <string>

#include "common/base/proto_time.h"
#include "escapement/v1/policy_service.pb.h"
#include "escapement/v1/resources.pb.h"
#include "escapement/v1/run_service.pb.h"
#include "escapement/v1/schedule_service.pb.h"
#include "gtest/gtest.h"
#include "services/master/requests/range_reader.h"

namespace escapement::master {
namespace page_budget_test {

v1::Event EventOf(size_t bytes) {
  v1::Event event;
  event.set_output(std::string(bytes, 'x'));
  return event;
}

TEST(PageBudget, APageEndsBeforeTheItemThatWouldExceedIt) {
  PageBudget budget;
  v1::ListRunEventsResponse page;
  for (int i = 0; i < kPageSizeMax && budget.Take(EventOf(4096)); ++i)
    *page.add_events() = EventOf(4096);
  EXPECT_LE(page.ByteSizeLong(), kPageBytesMax);
  EXPECT_GE(page.ByteSizeLong(), kPageBytesMax - 4200);
}

TEST(PageBudget, TheFirstItemAlwaysFits) {
  PageBudget budget;
  EXPECT_TRUE(budget.Take(EventOf(2 * kPageBytesMax)));
  EXPECT_FALSE(budget.Take(EventOf(0)));
}

// Lists of these need no budget: the largest of them, at the largest page size, stay below it.
TEST(PageBudget, RunsHoldersAndOccurrencesStayBelowItAtAnyPageSize) {
  const std::string name(300, 'n');  // longer than tenant, schedule, occurrence and index can be
  v1::Run run;
  run.set_name(name);
  for (auto set :
       {&v1::Run::set_event_count, &v1::Run::set_version, &v1::Run::set_succeeded_count,
        &v1::Run::set_failed_count, &v1::Run::set_skipped_count, &v1::Run::set_cancelled_count,
        &v1::Run::set_retry_count, &v1::Run::set_expired_count, &v1::Run::set_granted_count,
        &v1::Run::set_delivered_count, &v1::Run::set_running_count, &v1::Run::set_occurrence_count})
    (run.*set)(int64_t{1} << 62);
  run.set_state(v1::Run::COMPLETED);
  run.set_skip_reason("misfire");
  for (auto time : {&v1::Run::mutable_nominal_time, &v1::Run::mutable_complete_time,
                    &v1::Run::mutable_eta, &v1::Run::mutable_last_nominal_time})
    SetTimestamp(int64_t{1} << 60, *(run.*time)());
  v1::PolicyUsage::Holder holder;
  holder.set_event(name);
  holder.set_token(std::string(200, 't'));
  for (auto time : {&v1::PolicyUsage::Holder::mutable_grant_time,
                    &v1::PolicyUsage::Holder::mutable_delivered_time,
                    &v1::PolicyUsage::Holder::mutable_expire_time})
    SetTimestamp(int64_t{1} << 60, *(holder.*time)());
  SetDuration(int64_t{1} << 60, *holder.mutable_age());
  holder.set_overdue(true);
  v1::PreviewScheduleResponse::Occurrence occurrence;
  occurrence.set_local_time(std::string(40, 'l'));
  occurrence.set_note(std::string(40, 'n'));
  occurrence.set_occurrence(std::string(100, 'o'));
  SetTimestamp(int64_t{1} << 60, *occurrence.mutable_time());
  for (const google::protobuf::MessageLite* item :
       {static_cast<const google::protobuf::MessageLite*>(&run),
        static_cast<const google::protobuf::MessageLite*>(&holder),
        static_cast<const google::protobuf::MessageLite*>(&occurrence)}) {
    PageBudget budget;
    for (int i = 0; i < kPageSizeMax; ++i)
      ASSERT_TRUE(budget.Take(*item)) << item->GetTypeName() << " " << i;
  }
}

}  // namespace page_budget_test
}  // namespace escapement::master
