// OneOffsTest: a token manager and one-off events under a policy, for its tests.

#ifndef SERVICES_TOKEN_MANAGER_TESTING_ONE_OFF_EVENTS_H_
#define SERVICES_TOKEN_MANAGER_TESTING_ONE_OFF_EVENTS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/proto_time.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {

class OneOffsTest : public ::testing::Test {
 protected:
  void Begin(uint64_t max_concurrent) {
    policy_ = world_.PutPolicy("p", TokenWorld::Limits(max_concurrent));
    world_.Start("a");
    world_.Advance(kSettle);
  }
  Uid Add(TokenWorld::OneOff event = {}) {
    event.policy_id = "p";
    if (event.due == absl::Time()) event.due = world_.now();
    return world_.AddOneOff(event);
  }
  std::vector<SentEvent> Settle(
      const std::function<std::optional<TokenWorld::Entry>(const SentEvent&)>& decide = nullptr) {
    world_.Advance(kSettle);
    return world_.Handle(decide);
  }
  static std::function<std::optional<TokenWorld::Entry>(const SentEvent&)> Reports(
      storage::v1::GrantReportRecord::Kind kind, absl::Time retry_at = absl::UnixEpoch()) {
    return [kind, retry_at](const SentEvent& event) {
      TokenWorld::Entry entry = TokenWorld::EntryOf(event, kind);
      entry.set_retry_at_micros(ToMicros(retry_at));
      entry.set_attempts(event.attempts + 1);
      entry.set_reason("busy");
      entry.set_attempt(storage::v1::AttemptRecord::FAILED);
      return entry;
    };
  }
  // Nothing of any event is left but its outcome (and the name of a client's).
  void ExpectOnlyOutcomes(size_t done, size_t names = 0) {
    world_.Advance(kSettle);
    EXPECT_EQ(world_.Count(kv::ColumnFamily::kEvents), 0u);
    EXPECT_TRUE(world_.Waiting().empty());
    EXPECT_TRUE(world_.Grants().empty());
    EXPECT_EQ(world_.Count(kv::ColumnFamily::kDone), done);
    EXPECT_EQ(world_.Count(kv::ColumnFamily::kEventNames), names);
    EXPECT_EQ(world_.Count(kv::ColumnFamily::kRunParts), 0u);
    EXPECT_EQ(world_.Held(policy_), 0u);
  }

  TokenWorld world_;
  Uid policy_;
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_TESTING_ONE_OFF_EVENTS_H_
