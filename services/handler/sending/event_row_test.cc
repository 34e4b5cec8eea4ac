#include "services/handler/sending/event_row.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace escapement::handler {
namespace event_row_test {

using storage::v1::EventRecord;

// A record that has all fields.
EventRecord FullRecord() {
  EventRecord record;
  record.set_tenant("default");
  record.set_version(300);
  record.set_definition_hash(std::string(16, 'h'));
  record.set_count(5);
  record.set_run_count(1'000'000);
  record.set_attempts(3);
  record.set_nominal_time_micros(1'772'323'200'000'000);
  record.set_launch_time_micros(-1);
  record.set_payload(std::string(200, 'p'));
  record.set_event_id("order-1");
  record.set_last_error("HTTP 503");
  record.set_client_chosen_id(true);
  record.set_triggered(true);
  record.mutable_throttle()->set_policy_key("k");
  record.set_run_kept(true);
  record.set_priority(4);
  record.set_tried_since_micros(7);
  record.set_trigger_time_micros(8);
  record.add_tried()->set_number(1);
  record.add_tried()->set_number(2);
  record.set_redrives(9);
  record.set_attempts_before_redrive(2);
  record.set_counts_in_no_run(true);
  record.set_lost_claims(1);
  record.set_trace_parent("00-trace");
  record.set_queue_shard(6);
  record.set_wait_group(std::string(16, 'g'));
  record.set_generation(11);
  record.set_revision(12);
  record.set_maybe_sent(true);
  record.set_max_lateness_micros(3'600'000'000);
  return record;
}

void ExpectSame(const EventRow& row, const EventRecord& record) {
  EXPECT_EQ(row.tenant(), record.tenant());
  EXPECT_EQ(row.version(), record.version());
  EXPECT_EQ(row.definition_hash(), record.definition_hash());
  EXPECT_EQ(row.count(), record.count());
  EXPECT_EQ(row.run_count(), record.run_count());
  EXPECT_EQ(row.attempts(), record.attempts());
  EXPECT_EQ(row.nominal_time_micros(), record.nominal_time_micros());
  EXPECT_EQ(row.launch_time_micros(), record.launch_time_micros());
  EXPECT_EQ(row.payload(), record.payload());
  EXPECT_EQ(row.event_id(), record.event_id());
  EXPECT_EQ(row.client_chosen_id(), record.client_chosen_id());
  EXPECT_EQ(row.run_kept(), record.run_kept());
  EXPECT_EQ(row.tried_since_micros(), record.tried_since_micros());
  EXPECT_EQ(row.has_tried(), record.tried_size() > 0);
  EXPECT_EQ(row.redrives(), record.redrives());
  EXPECT_EQ(row.attempts_before_redrive(), record.attempts_before_redrive());
  EXPECT_EQ(row.counts_in_no_run(), record.counts_in_no_run());
  EXPECT_EQ(row.lost_claims(), record.lost_claims());
  EXPECT_EQ(row.trace_parent(), record.trace_parent());
  EXPECT_EQ(row.generation(), record.generation());
  EXPECT_EQ(row.revision(), record.revision());
  EXPECT_EQ(row.maybe_sent(), record.maybe_sent());
  EXPECT_EQ(row.max_lateness_micros(), record.max_lateness_micros());
}

TEST(EventRowTest, TheseTestsSetEveryField) {
  const EventRecord record = FullRecord();
  std::vector<const google::protobuf::FieldDescriptor*> set;
  record.GetReflection()->ListFields(record, &set);
  EXPECT_EQ(set.size(), EventRecord::descriptor()->field_count());
}

TEST(EventRowTest, HasTheFieldsOfTheMessage) {
  for (const EventRecord& record : {FullRecord(), EventRecord()}) {
    const std::string bytes = record.SerializeAsString();
    EventRow row;
    ASSERT_TRUE(row.Read(bytes));
    ExpectSame(row, record);
    ExpectSame(EventRow(record), record);
  }
}

TEST(EventRowTest, MakesAndWritesTheRecordWithoutItsPayload) {
  const std::string bytes = FullRecord().SerializeAsString();
  EventRecord wanted = FullRecord();
  wanted.clear_payload();
  EventRow row;
  ASSERT_TRUE(row.Read(bytes));
  EXPECT_EQ(row.MakeRecord().SerializeAsString(), wanted.SerializeAsString());
  std::string written(row.bytes(), ' ');
  EXPECT_EQ(row.WriteTo(written.data()), written.data() + written.size());
  EXPECT_EQ(written, wanted.SerializeAsString());
  ASSERT_TRUE(row.KeepRecord());
  EXPECT_EQ(row.record().last_error(), "HTTP 503");
  EXPECT_EQ(row.MakeRecord().SerializeAsString(), wanted.SerializeAsString());
}

TEST(EventRowTest, GivesTheBytesUpToTheCount) {
  EventRecord record = FullRecord();
  const std::string bytes = record.SerializeAsString();
  EventRow row;
  ASSERT_TRUE(row.Read(bytes));
  EventRecord beginning;
  beginning.set_tenant(record.tenant());
  beginning.set_version(record.version());
  beginning.set_definition_hash(record.definition_hash());
  beginning.set_count(record.count());
  EXPECT_EQ(row.up_to_count(), beginning.SerializeAsString());
}

TEST(EventRowTest, ReadsNumbersOfEachLength) {
  for (int bits = 1; bits <= 64; ++bits) {
    for (const uint64_t number : {~uint64_t{0} >> (64 - bits), uint64_t{1} << (bits - 1)}) {
      EventRecord record;
      record.set_version(number);  // followed by the number at the end
      record.set_revision(number);
      const std::string bytes = record.SerializeAsString();
      EventRow row;
      ASSERT_TRUE(row.Read(bytes));
      EXPECT_EQ(row.version(), number);
      EXPECT_EQ(row.revision(), number);
    }
  }
}

TEST(EventRowTest, SkipsUnknownFields) {
  std::string bytes = FullRecord().SerializeAsString();
  bytes.append("\xc0\x3e\x05", 3);  // field 1000, a number
  bytes.append(
      "\xc2\x3e\x02"
      "ab",
      5);                                       // field 1000, bytes
  bytes.append("\xc5\x3e\x01\x02\x03\x04", 6);  // field 1000, four bytes
  bytes.append("\xc1\x3e\x01\x02\x03\x04\x05\x06\x07\x08", 10);
  EventRow row;
  ASSERT_TRUE(row.Read(bytes));
  ExpectSame(row, FullRecord());
}

TEST(EventRowTest, RefusesBytesThatEndWithinAField) {
  const std::string bytes = FullRecord().SerializeAsString();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EventRow row;
    EventRecord record;
    const auto part = absl::string_view(bytes).substr(0, size);
    EXPECT_EQ(row.Read(part), record.ParseFromArray(part.data(), static_cast<int>(size))) << size;
  }
}

}  // namespace event_row_test
}  // namespace escapement::handler
