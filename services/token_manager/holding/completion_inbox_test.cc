#include <memory>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "services/token_manager/holding/report_queue.h"

namespace escapement::token_manager {
namespace completion_inbox_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A call of one entry, identified by its number. It holds `held` until it is destroyed.
CompletionInbox::Call Call(uint16_t policy_shard, uint64_t number, std::shared_ptr<void> held) {
  CompletionInbox::Call call;
  call.policy_shard = policy_shard;
  call.entries.emplace_back().set_number(number);
  call.done = [held = std::move(held)](absl::StatusOr<std::vector<bool>>) {};
  return call;
}

class CompletionInboxTest : public ::testing::Test {
 protected:
  bool Add(uint16_t policy_shard, uint64_t number) {
    return inbox_.Add(Call(policy_shard, number, held_));
  }
  std::vector<uint64_t> Take() {
    std::vector<uint64_t> numbers;
    for (const CompletionInbox::Call& call : inbox_.Take())
      numbers.push_back(call.entries[0].number());
    return numbers;
  }
  // Calls that have not been destroyed.
  long Held() const { return held_.use_count() - 1; }

  const std::shared_ptr<int> held_ = std::make_shared<int>();
  CompletionInbox inbox_;
};

TEST_F(CompletionInboxTest, OnlyTheFirstSinceTheLastTakeTells) {
  EXPECT_TRUE(Add(1, 10));
  EXPECT_FALSE(Add(1, 11));
  EXPECT_FALSE(Add(2, 12)) << "whoever takes takes of all shards";
  EXPECT_THAT(Take(), ElementsAre(10, 11, 12));
  EXPECT_TRUE(Add(2, 13));
  EXPECT_THAT(Take(), ElementsAre(13));
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(CompletionInboxTest, CompletionForABusyShardNotifiesNobody) {
  inbox_.SetBusy({1});
  EXPECT_FALSE(Add(1, 10));
  EXPECT_THAT(Take(), ElementsAre(10));
  EXPECT_FALSE(Add(1, 11));
  inbox_.SetBusy({});
  EXPECT_THAT(Take(), ElementsAre(11));
  EXPECT_TRUE(Add(1, 12));
}

TEST_F(CompletionInboxTest, AnotherShardsTellBesideABusyOne) {
  inbox_.SetBusy({1});
  EXPECT_FALSE(Add(1, 10));
  EXPECT_TRUE(Add(2, 11));
  EXPECT_FALSE(Add(1, 12));
  EXPECT_FALSE(Add(3, 13));
  EXPECT_THAT(Take(), ElementsAre(10, 11, 12, 13));
  EXPECT_FALSE(Add(1, 14));
  EXPECT_TRUE(Add(2, 15)) << "what waits for the busy one has told nobody";
}

TEST_F(CompletionInboxTest, AClosedOneDropsWhatIsThereAndWhatComes) {
  EXPECT_TRUE(Add(1, 10));
  EXPECT_EQ(Held(), 1);
  inbox_.Close();
  EXPECT_EQ(Held(), 0);
  EXPECT_FALSE(Add(1, 11));
  EXPECT_EQ(Held(), 0);
  EXPECT_THAT(Take(), IsEmpty());
}

// A call's end may come back here: a client that is refused asks again.
TEST_F(CompletionInboxTest, ACallThatIsDroppedMayAdd) {
  struct AddsWhenDropped {
    CompletionInbox* inbox;
    explicit AddsWhenDropped(CompletionInbox* inbox) : inbox(inbox) {}
    ~AddsWhenDropped() { EXPECT_FALSE(inbox->Add(Call(1, 11, nullptr))); }
  };
  EXPECT_TRUE(inbox_.Add(Call(1, 10, std::make_shared<AddsWhenDropped>(&inbox_))));
  inbox_.Close();
}

}  // namespace completion_inbox_test
}  // namespace escapement::token_manager
