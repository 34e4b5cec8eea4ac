#include "services/master/events/batch_turns.h"

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace escapement::master {
namespace batch_turns_test {

BatchTurns::Batch BatchOf(const std::vector<std::string>& ids,
                          v1::Event::IngestMode mode = v1::Event::UPSERT) {
  auto batch = std::make_shared<v1::IngestRequest>();
  for (const std::string& id : ids) {
    batch->add_events()->set_event_id(id);
    batch->mutable_events()->rbegin()->set_mode(mode);
  }
  return batch;
}

class BatchTurnsTest : public ::testing::Test {
 protected:
  void Add(const BatchTurns::Batch& batch, char name) {
    turns_.Add(batch, [this, name] { begun_ += name; });
  }

  BatchTurns turns_;
  std::string begun_;
};

TEST_F(BatchTurnsTest, BatchWaitsForThoseBeforeItThatHaveAnIdOfIt) {
  const auto a = BatchOf({"1", "2"});
  const auto b = BatchOf({"3"});
  const auto c = BatchOf({"4", "2"});
  const auto d = BatchOf({"5"});
  Add(a, 'a');
  Add(b, 'b');
  Add(c, 'c');
  Add(d, 'd');
  EXPECT_EQ(begun_, "ab");
  turns_.End(b);
  EXPECT_EQ(begun_, "ab");
  turns_.End(a);
  EXPECT_EQ(begun_, "abcd");
  Add(a, 'a');
  EXPECT_EQ(begun_, "abcd") << "c is under way";
  turns_.End(c);
  EXPECT_EQ(begun_, "abcda");
}

TEST_F(BatchTurnsTest, CreatesGoTogetherUntilOneReplaces) {
  const auto first = BatchOf({"1"}, v1::Event::CREATE);
  const auto same = BatchOf({"1", ""}, v1::Event::CREATE);
  const auto other = BatchOf({"2", ""}, v1::Event::CREATE);
  const auto cancel = BatchOf({"3"}, v1::Event::CANCEL);
  Add(first, 'f');
  Add(same, 's');
  EXPECT_EQ(begun_, "fs");
  Add(cancel, 'c');
  turns_.End(first);
  EXPECT_EQ(begun_, "fs") << "a batch whose ids are not known is under way";
  turns_.End(same);
  EXPECT_EQ(begun_, "fsc");
  Add(same, 's');
  Add(other, 'o');
  EXPECT_EQ(begun_, "fscso") << "server-made ids are in nobody's way";
  Add(first, 'f');
  EXPECT_EQ(begun_, "fscso");
}

TEST_F(BatchTurnsTest, BatchMayEndAsItBegins) {
  int begun = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto batch = BatchOf({"1"});
    turns_.Add(batch, [&, batch] {
      ++begun;
      turns_.End(batch);
    });
  }
  EXPECT_EQ(begun, 1000);
}

}  // namespace batch_turns_test
}  // namespace escapement::master
