// Tests of events that kill the handler that delivers them (claims/suspect_loop.h).

#include <map>
#include <set>
#include <string>
#include <vector>

#include "common/storage/event_id.h"
#include "gtest/gtest.h"
#include "services/handler/claims/suspect_loop.h"
#include "services/handler/service/handler_service.h"
#include "services/handler/testing/granted_world.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_suspects_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;
using storage::v1::OUTCOME_KIND_FAILED;
using storage::v1::OUTCOME_KIND_SUCCEEDED;

class HandlerSuspectsTest : public ::testing::Test {
 protected:
  // Starts a handler that dies 1 ms after it has sent a poisonous event.
  void Start() {
    const std::string name = "h" + std::to_string(++started_);
    world_.StartHandler(name);
    world_.transport(name).delay = absl::Milliseconds(2);
    world_.transport(name).decide =
        [this, name](const DeliveryAttempt& attempt) -> std::optional<DeliveryResult> {
      if (poison_.contains(attempt.event_id)) {
        killer_->PostAfter(absl::Milliseconds(1), [this, name] {
          if (name == alive_) Kill();
        });
        return std::nullopt;
      }
      return DeliveryResult{.status = DeliveryStatus::kAccepted, .message = ""};
    };
    alive_ = name;
  }
  // Starts a handler whose attempts get no answers, and lets it acquire its shards.
  void StartUnanswered() {
    Start();
    world_.transport(alive_).decide = [](const DeliveryAttempt&) { return std::nullopt; };
    world_.Advance(absl::Seconds(1));
  }
  void Kill() {
    world_.KillHandler(alive_);
    alive_.clear();
    ++deaths_;
  }
  // Starts a handler whenever the last one has died.
  void RunFor(absl::Duration duration) {
    for (const absl::Time end = world_.now() + duration; world_.now() < end;) {
      if (alive_.empty()) Start();
      world_.Advance(absl::Seconds(1));
    }
  }
  void Poison(const Uid& uid, const std::string& occurrence, uint64_t index) {
    poison_.insert(RunIdentity("default", uid, occurrence).EventId(index));
  }
  std::map<std::string, int> Sends() const {
    std::map<std::string, int> sends;
    for (const SentEvent& event : world_.Sent()) ++sends[event.attempt.event_id];
    return sends;
  }
  // An event kills its handler. The store has no room for so many notes of the next handler, which
  // drains before it may send anything.
  void DieAndDrainTheSuccessor(int notes_refused) {
    world_.timeout = absl::Seconds(10);
    uid_ = world_.AddSchedule("t");
    Start();
    world_.Advance(absl::Seconds(1));
    world_.AddRow(uid_, {.due = world_.now(), .count = 5, .run_count = 5});
    Poison(uid_, "o1", 3);
    world_.Advance(absl::Seconds(1));
    ASSERT_EQ(deaths_, 1);
    world_.quiet_store.RefuseNotes(notes_refused);
    Start();
    world_.Advance(absl::Seconds(9));  // its predecessor's lease has ended, the attempts have not
    bool drained = false;
    world_.handler(alive_).Drain([&] { drained = true; });
    world_.Advance(absl::Seconds(1));
    ASSERT_TRUE(drained);
    EXPECT_TRUE(world_.transport(alive_).sent.empty());
    world_.KillHandler(alive_);
    alive_.clear();
  }
  void ExpectQuarantined(size_t letters) {
    EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), letters);
    for (const auto& [key, value] : world_.Rows(ColumnFamily::kDeadLetters)) {
      storage::v1::DeadLetterRecord letter;
      ASSERT_TRUE(letter.ParseFromString(value));
      EXPECT_EQ(letter.reason(), kQuarantined);
    }
    EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
    EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
  }

  HandlerWorld world_;
  Uid uid_ = world_.AddSchedule("s");
  std::shared_ptr<Executor> killer_ = world_.runtime.NewExecutor("killer");
  std::set<std::string> poison_;  // event ids
  std::string alive_;
  int started_ = 0;
  int deaths_ = 0;
};

TEST_F(HandlerSuspectsTest, PoisonKillsThreeHandlersAndNothingElseIsLost) {
  world_.timeout = absl::Seconds(2);
  uid_ = world_.AddSchedule("t");
  Start();
  world_.Advance(absl::Seconds(1));
  const absl::Time due = world_.now() + absl::Seconds(1);
  world_.AddRow(uid_, {.due = due, .count = 200, .run_count = 200});
  for (int i = 0; i < 10; ++i) {
    world_.AddRow(uid_, {.shard = 1, .due = due, .occurrence = "n" + std::to_string(i)});
    world_.AddOneOff("one-off-" + std::to_string(i), due, "p" + std::to_string(i));
  }
  Poison(uid_, "o1", 77);
  RunFor(absl::Minutes(2));
  EXPECT_EQ(deaths_, 3);
  ExpectQuarantined(1);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 219u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 1u);
  EXPECT_EQ(world_.OnlyRunPart().succeeded(), 199u);
  EXPECT_EQ(world_.OnlyRunPart().failed(), 1u);
  const std::map<std::string, int> sends = Sends();
  EXPECT_EQ(sends.size(), 220u);
  for (const auto& [id, count] : sends) EXPECT_LE(count, 3) << id;
  EXPECT_EQ(sends.at(*poison_.begin()), 3);
}

TEST_F(HandlerSuspectsTest, TwoPoisonousEventsDieInTurn) {
  world_.timeout = absl::Seconds(1);
  uid_ = world_.AddSchedule("t");
  Start();
  world_.Advance(absl::Seconds(1));
  const absl::Time due = world_.now() + absl::Seconds(1);
  world_.AddRow(uid_, {.due = due, .count = 50, .run_count = 50});
  world_.AddOneOff("poison", due, "p", "consumer", /*shard=*/1);
  poison_.insert("poison");
  Poison(uid_, "o1", 0);
  RunFor(absl::Minutes(2));
  // The first two handlers had both, the next two one of them alone.
  EXPECT_EQ(deaths_, 4);
  ExpectQuarantined(2);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 49u);
}

// Else each pause would cost another handler.
TEST_F(HandlerSuspectsTest, PoisonOfAPausedScheduleIsQuarantinedAtOnce) {
  world_.timeout = absl::Seconds(1);
  uid_ = world_.AddSchedule("t");
  Start();
  world_.Advance(absl::Seconds(1));
  world_.AddRow(uid_, {.due = world_.now(), .count = 20, .run_count = 20});
  Poison(uid_, "o1", 7);
  while (deaths_ < 3) RunFor(absl::Seconds(1));
  world_.SetState(uid_, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  RunFor(absl::Minutes(1));
  EXPECT_EQ(deaths_, 3);
  ExpectQuarantined(1);
  // Those before it have been sent alone. Those behind it wait for the schedule.
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 7u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kParked), 1u);
}

// Else a successor that drains before it has sent anything would hide that a handler was lost.
TEST_F(HandlerSuspectsTest, NotesThatTheStoreHadNoRoomForAreWrittenLater) {
  DieAndDrainTheSuccessor(/*notes_refused=*/HandlerWorld::kShards);
  EXPECT_EQ(world_.quiet_store.notes_to_refuse(), 0);
  RunFor(absl::Minutes(2));
  EXPECT_EQ(deaths_, 3);
  ExpectQuarantined(1);
}

TEST_F(HandlerSuspectsTest, LossIsCountedThoughTheSuccessorGoesBeforeItsNotes) {
  DieAndDrainTheSuccessor(/*notes_refused=*/1'000'000);
  EXPECT_GT(world_.quiet_store.notes_to_refuse(), 0);
  world_.quiet_store.RefuseNotes(0);
  RunFor(absl::Minutes(2));
  EXPECT_EQ(deaths_, 3);
  ExpectQuarantined(1);
}

TEST_F(HandlerSuspectsTest, SuspectsAreSentOneAtATime) {
  world_.timeout = absl::Seconds(1);
  uid_ = world_.AddSchedule("t");
  for (int deaths = 0; deaths < 2; ++deaths) {
    StartUnanswered();
    if (deaths == 0) {
      for (uint16_t shard = 0; shard < HandlerWorld::kShards; ++shard)
        world_.AddRow(uid_, {.shard = shard,
                             .due = world_.now(),
                             .occurrence = "o" + std::to_string(shard),
                             .count = 20,
                             .run_count = 20});
    }
    world_.Advance(deaths == 0 ? absl::Milliseconds(500) : absl::Milliseconds(5400));
    EXPECT_EQ(world_.transport(alive_).sent.size(), 40u);
    Kill();
  }
  Start();
  world_.Advance(absl::Seconds(20));
  const std::vector<SentEvent>& sent = world_.transport(alive_).sent;
  ASSERT_EQ(sent.size(), 40u);
  // The next one waits for the durable end of the one before.
  for (size_t i = 1; i < sent.size(); ++i)
    EXPECT_GT(sent[i].at, sent[i - 1].at + absl::Milliseconds(2));
  EXPECT_EQ(world_.handler(alive_).metrics().suspects.Value(), 40u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 40u);
  ExpectQuarantined(0);
}

// A handler that releases its shards with attempts under way was not lost.
TEST_F(HandlerSuspectsTest, DrainsDoNotCount) {
  world_.timeout = absl::Seconds(60);
  uid_ = world_.AddSchedule("t");
  for (int i = 0; i < 5; ++i) {
    StartUnanswered();
    if (i == 0) world_.AddRow(uid_, {.due = world_.now()});
    // The successor waits until no attempt of the former owner can be under way.
    world_.Advance(i == 0 ? absl::Seconds(1) : world_.timeout);
    EXPECT_EQ(world_.transport(alive_).sent.size(), 1u) << i;
    bool drained = false;
    world_.handler(alive_).Drain([&] { drained = true; });
    world_.Advance(absl::Seconds(30));
    EXPECT_TRUE(drained);
    Kill();
  }
  Start();
  world_.Advance(absl::Minutes(1));
  EXPECT_EQ(world_.handler(alive_).metrics().suspects.Value(), 0u);
  ExpectQuarantined(0);
}

class BackInPlaceTest : public HandlerSuspectsTest {};

// The successor has proof that the handler is dead, so it waits neither for the lease nor for the
// attempts.
TEST_F(BackInPlaceTest, EventsOfADeadHandlerAreSentAtOnce) {
  StartUnanswered();
  world_.AddRow(uid_, {.due = world_.now(), .count = 20, .run_count = 20});
  world_.AddRow(uid_, {.shard = 1, .due = world_.now() + absl::Seconds(1), .occurrence = "o2"});
  world_.Advance(absl::Milliseconds(100));
  const std::string dead = alive_;
  EXPECT_EQ(world_.transport(dead).sent.size(), 20u);
  Kill();
  world_.StartHandler("next", {dead});
  world_.Advance(absl::Seconds(1));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 21u);
  ExpectQuarantined(0);
}

// The handler died between the claim and the due time.
TEST_F(BackInPlaceTest, ClaimsAheadOfTheirDueTimeAreNotSentEarly) {
  Start();
  world_.Advance(absl::Seconds(1));
  const absl::Time due = world_.now() + absl::Seconds(1);
  world_.AddRow(uid_, {.due = due});
  world_.AddOneOff("one-off", due, "p");
  world_.Advance(absl::Seconds(1) - absl::Milliseconds(5));
  ASSERT_EQ(world_.Count(ColumnFamily::kInflight), 1u);
  const std::string dead = alive_;
  Kill();
  world_.StartHandler("next", {dead});
  world_.Advance(absl::Seconds(2));
  const std::vector<SentEvent>& sent = world_.transport("next").sent;
  ASSERT_EQ(sent.size(), 2u);
  for (const SentEvent& event : sent) EXPECT_GE(event.at, due);
}

// Without the proof its lease ends first, and then its attempts.
TEST_F(BackInPlaceTest, OtherHandlersWait) {
  StartUnanswered();
  world_.AddRow(uid_, {.due = world_.now()});
  world_.Advance(absl::Milliseconds(100));
  Kill();
  world_.StartHandler("next", {"somebody else"});
  world_.Advance(absl::Seconds(13));
  EXPECT_EQ(world_.transport("next").sent.size(), 0u);
  world_.Advance(absl::Seconds(4));
  EXPECT_EQ(world_.transport("next").sent.size(), 1u);
}

TEST_F(BackInPlaceTest, TheWaitDoesNotStartOverWithEachOwner) {
  StartUnanswered();
  world_.AddRow(uid_, {.due = world_.now()});
  world_.Advance(absl::Milliseconds(100));
  Kill();
  Start();
  world_.Advance(absl::Seconds(8));
  Kill();
  // The lease of the second handler ends in 5 s. By then no attempt of the first one is under way.
  Start();
  world_.Advance(absl::Seconds(8));
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1u);
}

// A handler that follows a lost one reports the loss.
TEST_F(HandlerSuspectsTest, GrantedEventsCountAtTheirTokenManager) {
  world_.timeout = absl::Seconds(1);
  TestTokenManager manager(world_);
  StartUnanswered();
  manager.Grant(uid_, {{.count = 3}});
  world_.Advance(absl::Milliseconds(100));
  Kill();
  Start();
  world_.Advance(absl::Seconds(10));
  const std::vector<GrantReport> reports = manager.TakeReports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].kind(), GrantReportRecord::RESEND);
  EXPECT_EQ(reports[0].count(), 3u);
  EXPECT_EQ(reports[0].lost_claims(), 1u);
}

TEST_F(HandlerSuspectsTest, TheGrantedSuspectThatKillsIsReportedAsFailed) {
  world_.timeout = absl::Seconds(1);
  TestTokenManager manager(world_);
  Start();
  world_.Advance(absl::Seconds(1));
  Poison(uid_, "o", 1);
  manager.Grant(uid_, {{.count = 4, .on_release = false, .lost_claims = 2}});
  world_.Advance(absl::Milliseconds(100));
  EXPECT_EQ(deaths_, 1);
  // Event 0 was sent alone before it, the others not yet.
  std::vector<GrantReport> reports = manager.TakeReports();
  EXPECT_EQ(EventsOf(reports, GrantReportRecord::SUCCEEDED), 1u);
  Start();
  world_.Advance(absl::Seconds(10));
  reports = manager.TakeReports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].kind(), GrantReportRecord::FAILED);
  EXPECT_EQ(reports[0].first(), 1u);
  EXPECT_EQ(reports[0].count(), 1u);
  EXPECT_EQ(reports[0].reason(), kQuarantined);
  EXPECT_EQ(reports[1].kind(), GrantReportRecord::RESEND);
  EXPECT_EQ(reports[1].first(), 2u);
  EXPECT_EQ(reports[1].count(), 2u);
  EXPECT_EQ(reports[1].lost_claims(), 2u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
}

}  // namespace handler_suspects_test
}  // namespace escapement::handler
