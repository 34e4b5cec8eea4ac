#include "services/master/ingest/kafka/kafka_batch.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::master {
namespace kafka_batch_test {

using ::testing::ElementsAre;

absl::Status Quota(const char* quota) {
  return QuotaExceeded("tenants/t", quota, "too many", absl::Hours(1));
}

TEST(KindOfRefusalTest, RefusalsThatMayPassAreTriedAgain) {
  for (const absl::Status& refusal :
       {absl::UnavailableError("-"), absl::AbortedError("-"), absl::InternalError("-"),
        absl::DeadlineExceededError("-"), absl::UnknownError("-"), Quota("max_events_per_second"),
        ResourceExhausted("INGEST_BUSY", "-", absl::Seconds(1))}) {
    EXPECT_EQ(KindOfRefusal(refusal, 10), RefusalKind::kRetry) << refusal;
    EXPECT_EQ(KindOfRefusal(refusal, 1), RefusalKind::kRetry) << refusal;
  }
}

TEST(KindOfRefusalTest, RefusalsThatNeverPassAreFinal) {
  for (const absl::Status& refusal :
       {NotFound("tenants/t"), FailedPrecondition("TENANT_SUSPENDED", "-"),
        absl::PermissionDeniedError("-")}) {
    EXPECT_EQ(KindOfRefusal(refusal, 10), RefusalKind::kFinal) << refusal;
  }
  EXPECT_EQ(KindOfRefusal(InvalidField("events", "-"), 1), RefusalKind::kFinal);
  EXPECT_EQ(KindOfRefusal(Quota("max_payload_bytes"), 1), RefusalKind::kFinal);
}

TEST(KindOfRefusalTest, RefusedBatchIsSplitUntilItsCulpritIsAlone) {
  EXPECT_EQ(KindOfRefusal(InvalidField("events", "-"), 2), RefusalKind::kSplit);
  EXPECT_EQ(KindOfRefusal(Quota("max_payload_bytes"), 2), RefusalKind::kSplit);
  // A quota that is smaller than a batch must not refuse it for ever.
  EXPECT_EQ(KindOfRefusal(Quota("max_pending_events"), 2), RefusalKind::kRetryParts);
  EXPECT_EQ(KindOfRefusal(Quota("max_pending_events"), 1), RefusalKind::kRetry);
}

class KafkaBatchTest : public ::testing::Test {
 protected:
  KafkaBatchTest() {
    for (int i = 0; i < 5; ++i) {
      IngestItem item = {.partition = std::make_shared<IngestPartition>(),
                         .message = KafkaMessagePtr(&messages_[i])};
      messages_[i].offset = i;
      messages_[i].len = 100;
      v1::IngestEvent event;
      event.set_event_id(absl::StrCat("e", i));
      batch_.Add(std::move(item), std::move(event));
    }
  }
  // The messages are no memory of librdkafka.
  ~KafkaBatchTest() override { Release(batch_); }
  static void Release(KafkaBatch& batch) {
    for (IngestItem& item : batch.items()) (void)item.message.release();
  }
  // "offset:event" of each message.
  static std::vector<std::string> ContentOf(KafkaBatch& batch) {
    std::vector<std::string> content;
    EXPECT_EQ(static_cast<int>(batch.size()), batch.request()->events_size());
    for (size_t i = 0; i < batch.size(); ++i) {
      content.push_back(absl::StrCat(batch.items()[i].message->offset, ":",
                                     batch.request()->events(static_cast<int>(i)).event_id()));
    }
    return content;
  }
  rd_kafka_message_t messages_[5] = {};
  KafkaBatch batch_{"t"};
};

TEST_F(KafkaBatchTest, RemovedMessagesTakeTheirEventsAlong) {
  std::vector<int64_t> taken;
  const size_t before = batch_.bytes();
  batch_.RemoveIf([](size_t position, const IngestItem&) { return position % 2 == 0; },
                  [&](size_t position, IngestItem item) {
                    EXPECT_EQ(static_cast<int64_t>(position), item.message->offset);
                    taken.push_back(item.message.release()->offset);
                  });
  EXPECT_THAT(taken, ElementsAre(0, 2, 4));
  EXPECT_THAT(ContentOf(batch_), ElementsAre("1:e1", "3:e3"));
  EXPECT_EQ(batch_.request()->parent(), "tenants/t");
  EXPECT_EQ(batch_.bytes(), before / 5 * 2);
}

TEST_F(KafkaBatchTest, HalvesHaveEachMessageOnce) {
  const size_t before = batch_.bytes();
  KafkaBatch half = batch_.TakeHalf();
  EXPECT_THAT(ContentOf(batch_), ElementsAre("0:e0", "1:e1"));
  EXPECT_THAT(ContentOf(half), ElementsAre("2:e2", "3:e3", "4:e4"));
  EXPECT_EQ(half.request()->parent(), "tenants/t");
  EXPECT_EQ(batch_.bytes() + half.bytes(), before);
  Release(half);
}

}  // namespace kafka_batch_test
}  // namespace escapement::master
