#include "services/handler/service/handler_service.h"

#include <map>
#include <set>
#include <string>

#include "common/base/proto_time.h"
#include "common/cron/timetable.h"
#include "common/storage/event_id.h"
#include "common/storage/event_table.h"
#include "common/storage/name_tables.h"
#include "gtest/gtest.h"
#include "services/handler/testing/handler_world.h"

namespace escapement::handler {
namespace handler_service_test {

using kv::ColumnFamily;
using storage::v1::OUTCOME_KIND_FAILED;
using storage::v1::OUTCOME_KIND_SKIPPED;
using storage::v1::OUTCOME_KIND_SUCCEEDED;

class HandlerServiceTest : public ::testing::Test {
 protected:
  HandlerServiceTest() { world_.Advance(absl::Seconds(1)); }

  void Start() {
    world_.StartHandler("a");
    world_.Advance(absl::Seconds(1));
  }
  ScriptedTransport& transport() { return world_.transport("a"); }
  // The store has no row and no claim left.
  void ExpectQuiet() {
    EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 0u);
    EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 0u);
    EXPECT_EQ(world_.handler("a").metrics().events_out.Value(), 0u);
  }

  HandlerWorld world_;
};

TEST_F(HandlerServiceTest, ARowIsClaimedSentAtItsDueTimeAndEnded) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  const absl::Time due = world_.now() + absl::Seconds(3);
  world_.AddRow(uid, {.due = due});
  world_.Advance(absl::Seconds(4));
  ASSERT_EQ(transport().sent.size(), 1u);
  const SentEvent& sent = transport().sent[0];
  EXPECT_GE(sent.at, due);
  EXPECT_LE(sent.at, due + absl::Milliseconds(3));
  EXPECT_EQ(sent.attempt.context->payload, "payload of version 1");
  EXPECT_EQ(sent.attempt.context->Source(), "/tenants/default/schedules/s");
  EXPECT_EQ(sent.attempt.context->target_key, "grpc:consumer");
  EXPECT_EQ(sent.attempt.attempt, 1u);
  EXPECT_EQ(sent.attempt.event_id.size(), 32u);
  ASSERT_EQ(world_.Done().size(), 1u);
  EXPECT_EQ(world_.Done()[0].outcome(), OUTCOME_KIND_SUCCEEDED);
  EXPECT_EQ(world_.Done()[0].attempts(), 1u);
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, NothingIsEverSentEarlyAndEverythingOnce) {
  const Uid uid = world_.AddSchedule("s");
  for (int i = 0; i < 300; ++i) {
    world_.AddRow(uid, {.shard = static_cast<uint16_t>(i % 2),
                        .due = world_.now() + absl::Milliseconds(37 * i),
                        .occurrence = "o" + std::to_string(i)});
  }
  Start();
  for (int i = 300; i < 600; ++i) {
    world_.AddRow(uid, {.shard = static_cast<uint16_t>(i % 2),
                        .due = world_.now() + absl::Milliseconds(37 * (i % 100)),
                        .occurrence = "o" + std::to_string(i)});
  }
  world_.Advance(absl::Seconds(30));
  std::set<std::string> ids;
  for (const SentEvent& sent : transport().sent) {
    EXPECT_GE(sent.at, sent.attempt.context->launch_time);
    EXPECT_TRUE(ids.insert(sent.attempt.event_id).second);
  }
  EXPECT_EQ(ids.size(), 600u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 600u);
  ExpectQuiet();
}

// Sending each event alone would cost a call of the transport and two wake-ups of threads. Here a
// step takes no time; longer steps send even more events together.
TEST_F(HandlerServiceTest, EventsOfOneInstantAreSentTogetherDespiteAnswers) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  transport().delay = absl::Microseconds(3);
  const absl::Time due = world_.now() + absl::Seconds(1);
  for (int i = 0; i < 100; ++i) {
    world_.AddRow(uid, {.shard = static_cast<uint16_t>(i % 2),
                        .due = due + absl::Microseconds(5) * i,
                        .occurrence = "o" + std::to_string(i)});
  }
  world_.Advance(absl::Seconds(2));
  ASSERT_EQ(transport().sent.size(), 100u);
  std::set<absl::Time> instants;
  for (const SentEvent& sent : transport().sent) {
    EXPECT_LE(sent.at, sent.attempt.context->launch_time + absl::Milliseconds(3));
    instants.insert(sent.at);
  }
  EXPECT_LE(instants.size(), 12u) << "0.5 ms, at most one each 50 us";
}

TEST_F(HandlerServiceTest, RowOfAOneOffEventStaysUntilItsEnd) {
  Start();
  transport().delay = absl::Seconds(1);
  const absl::Time due = world_.now() + absl::Seconds(1);
  world_.AddOneOff("event-1", due, "hello");
  world_.Advance(absl::Milliseconds(1500));
  ASSERT_EQ(transport().sent.size(), 1u);
  EXPECT_EQ(transport().sent[0].attempt.event_id, "event-1");
  EXPECT_EQ(transport().sent[0].attempt.context->payload, "hello");
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kInflight), 1u);
  world_.Advance(absl::Seconds(2));
  EXPECT_EQ(transport().sent.size(), 1u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 1u);
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, ConsumerSeesTheGenerationInTheId) {
  Start();
  const std::string key = world_.AddOneOff("event-1", world_.now() + absl::Seconds(1), "hello");
  storage::v1::EventRecord row;
  ASSERT_TRUE(row.ParseFromString(world_.Rows(ColumnFamily::kEvents).at(key)));
  row.set_generation(2);
  world_.Put(ColumnFamily::kEvents, key, row.SerializeAsString());
  world_.Advance(absl::Seconds(2));
  ASSERT_EQ(transport().sent.size(), 1u);
  EXPECT_EQ(transport().sent[0].attempt.event_id, "event-1#2");
  ASSERT_EQ(world_.Done().size(), 1u);
  EXPECT_EQ(world_.Done()[0].event_id(), "event-1");
  EXPECT_EQ(world_.Done()[0].generation(), 2u);
}

TEST_F(HandlerServiceTest, IdFromTheKeyIsEqualOnAllAttemptsAndInAllRecords) {
  std::map<std::string, std::string> ids;  // by payload
  for (const std::string payload : {"accepted", "failed", "rejected"}) {
    const auto key = DecodeEventKey(world_.AddOneOff("", world_.now() + absl::Seconds(2), payload));
    ids[payload] = ServerMadeEventId(*key);
  }
  Start();
  transport().decide = [](const DeliveryAttempt& attempt) {
    const absl::string_view wanted = attempt.context->payload;
    return DeliveryResult{.status = wanted == "accepted"   ? DeliveryStatus::kAccepted
                                    : wanted == "rejected" ? DeliveryStatus::kRejected
                                                           : DeliveryStatus::kFailed,
                          .message = "",
                          .retry_after = absl::Seconds(7)};
  };
  world_.Advance(absl::Seconds(5));
  const auto names = world_.Rows(ColumnFamily::kEventNames);
  ASSERT_EQ(names.size(), 1u) << "by which the retry is found";
  EXPECT_EQ(names.begin()->first, EventNameKey("default", ids["failed"]));
  world_.Advance(absl::Seconds(40));
  EXPECT_EQ(transport().sent.size(), 6u);
  for (const SentEvent& sent : transport().sent) {
    const std::string& id = ids[std::string(sent.attempt.context->payload)];
    EXPECT_EQ(sent.attempt.event_id, id);
    EXPECT_EQ(sent.attempt.context->Source(), "/tenants/default/events/" + id);
  }
  std::set<std::string> ended;
  for (const auto& [key, value] : world_.Rows(ColumnFamily::kDone)) {
    storage::v1::DoneRecord done;
    ASSERT_TRUE(done.ParseFromString(value));
    EXPECT_EQ(done.event_id().empty(), done.attempts() == 1);
    ended.insert(EndedEventId(*DecodeDoneKey(key), done));
  }
  EXPECT_EQ(ended, (std::set<std::string>{ids["accepted"], ids["failed"], ids["rejected"]}));
  std::set<std::string> dead;
  for (const auto& [key, value] : world_.Rows(ColumnFamily::kDeadLetters)) {
    storage::v1::DeadLetterRecord letter;
    ASSERT_TRUE(letter.ParseFromString(value));
    dead.insert(letter.event().event_id());
  }
  EXPECT_EQ(dead, (std::set<std::string>{ids["failed"], ids["rejected"]}));
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, ACancelledOneOffIsNotSent) {
  Start();
  const std::string key = world_.AddOneOff("event-1", world_.now() + absl::Seconds(2), "hello");
  world_.Advance(absl::Seconds(1));
  kv::Group cancel;
  cancel.mutations.push_back(
      {.cf = ColumnFamily::kEvents, .kind = kv::Mutation::Kind::kDelete, .key = key});
  EXPECT_TRUE(world_.Commit(std::move(cancel)));
  world_.Advance(absl::Seconds(3));
  EXPECT_TRUE(transport().sent.empty());
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, ASliceOfAHundredThousandIsDeliveredInBoundedMemory) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  world_.AddRow(uid, {.due = world_.now() + absl::Seconds(1), .count = 100'000});
  uint64_t out_max = 0;
  for (int i = 0; i < 600 && world_.DoneEvents(OUTCOME_KIND_SUCCEEDED) < 100'000; ++i) {
    world_.Advance(absl::Milliseconds(20));
    out_max = std::max<uint64_t>(out_max, world_.handler("a").metrics().events_out.Value());
  }
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 100'000u);
  EXPECT_EQ(transport().sent.size(), 100'000u);
  EXPECT_LE(out_max, HandlerOptions().target_events_out_max);
  EXPECT_LT(world_.Done().size(), 1000u) << "Done records cover ranges";
  EXPECT_EQ(world_.OnlyRunPart().succeeded(), 100'000u);
  EXPECT_EQ(world_.ScheduleCounts(uid).succeeded(), 100'000u);
  world_.Advance(absl::Seconds(1));
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, FailedEventIsRetriedAndThenBecomesADeadLetter) {
  Start();
  transport().decide = [](const DeliveryAttempt&) {
    return DeliveryResult{.status = DeliveryStatus::kFailed,
                          .message = "no",
                          .retry_after = absl::Seconds(7),
                          .status_code = 503,
                          .answer = "busy"};
  };
  world_.AddOneOff("event-1", world_.now() + absl::Seconds(1), "hello");
  world_.Advance(absl::Seconds(5));
  ASSERT_EQ(transport().sent.size(), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEvents), 1u) << "the retry row has taken the row's place";
  EXPECT_EQ(world_.Count(ColumnFamily::kEventNames), 1u) << "by which it is found";
  world_.Advance(absl::Seconds(40));
  const auto& sent = transport().sent;
  ASSERT_EQ(sent.size(), 4u);
  for (size_t i = 1; i < sent.size(); ++i) {
    EXPECT_GE(sent[i].at, sent[i - 1].at + absl::Seconds(7));
    EXPECT_LE(sent[i].at, sent[i - 1].at + absl::Seconds(9));
    EXPECT_EQ(sent[i].attempt.attempt, i + 1);
    EXPECT_EQ(sent[i].attempt.context->payload, "hello");
  }
  ASSERT_EQ(world_.Done().size(), 1u);
  EXPECT_EQ(world_.Done()[0].outcome(), OUTCOME_KIND_FAILED);
  EXPECT_EQ(world_.Done()[0].attempts(), 4u);
  EXPECT_EQ(world_.Done()[0].status(), 503);
  EXPECT_EQ(world_.Done()[0].answer(), "busy");
  ASSERT_EQ(world_.Done()[0].tried_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(world_.Done()[0].tried(i).number(), i + 1u);
    EXPECT_EQ(world_.Done()[0].tried(i).answer(), "busy");
  }
  EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kEventNames), 0u);
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, UnsentEventWaitsAndUsesNoAttempt) {
  world_.retry.set_max_attempts(1);
  const Uid uid = world_.AddSchedule("s");
  Start();
  std::map<std::string, int> tries;
  transport().decide = [&](const DeliveryAttempt& attempt) {
    EXPECT_EQ(attempt.attempt, 1u);
    const bool room = ++tries[attempt.event_id] == 4;
    return DeliveryResult{.status = room ? DeliveryStatus::kAccepted : DeliveryStatus::kUnsent,
                          .message = ""};
  };
  // Together less than 20 unsent events, so that the target does not count as down.
  world_.AddRow(uid, {.due = world_.now() + absl::Seconds(1), .count = 5, .run_count = 5});
  world_.AddOneOff("event-1", world_.now() + absl::Seconds(1), "hello");
  world_.Advance(absl::Seconds(4));
  EXPECT_EQ(transport().sent.size(), 24u);
  EXPECT_EQ(transport().sent.back().attempt.context->payload, "hello");
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 6u);
  for (const storage::v1::DoneRecord& done : world_.Done()) EXPECT_EQ(done.attempts(), 1u);
  EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 0u);
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, EventThatIsNeverSentEndsAtItsMaxAge) {
  world_.retry.set_max_age_micros(2'000'000);
  Start();
  transport().delay = absl::Milliseconds(100);
  transport().decide = [](const DeliveryAttempt&) {
    return DeliveryResult{.status = DeliveryStatus::kUnsent, .message = "no room"};
  };
  world_.AddOneOff("event-1", world_.now() + absl::Seconds(1), "hello");
  world_.Advance(absl::Seconds(5));
  ASSERT_EQ(world_.Done().size(), 1u);
  EXPECT_EQ(world_.Done()[0].outcome(), OUTCOME_KIND_FAILED);
  EXPECT_EQ(world_.Done()[0].attempts(), 0u);
  EXPECT_EQ(world_.Done()[0].reason(), "no room");
  EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 1u);
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, EventSurvivesAnyTextOfItsConsumer) {
  Start();
  const std::vector<std::string> words = {"a" + std::string(1500, '\xff'), [] {
                                            std::string cut = "a";
                                            for (int i = 0; i < 700; ++i) cut += "\u00e9";
                                            return cut;
                                          }()};
  transport().decide = [&](const DeliveryAttempt& attempt) {
    return DeliveryResult{.status = DeliveryStatus::kFailed,
                          .message = words[attempt.attempt % words.size()]};
  };
  world_.AddOneOff("event-1", world_.now() + absl::Seconds(1), "hello");
  world_.Advance(absl::Minutes(1));
  ASSERT_EQ(transport().sent.size(), 4u);
  ASSERT_EQ(world_.Done().size(), 1u);
  EXPECT_EQ(world_.Done()[0].outcome(), OUTCOME_KIND_FAILED);
  EXPECT_EQ(world_.Done()[0].reason().size(), 1024u);
  ASSERT_EQ(world_.Count(ColumnFamily::kDeadLetters), 1u);
  storage::v1::DeadLetterRecord letter;
  EXPECT_TRUE(letter.ParseFromString(world_.Rows(ColumnFamily::kDeadLetters).begin()->second));
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, ARejectedEventIsADeadLetterAtOnce) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  transport().decide = [](const DeliveryAttempt& attempt) {
    return DeliveryResult{
        .status = attempt.index == 3 ? DeliveryStatus::kRejected : DeliveryStatus::kAccepted,
        .message = ""};
  };
  world_.AddRow(uid, {.due = world_.now() + absl::Seconds(1), .count = 10});
  world_.Advance(absl::Seconds(3));
  EXPECT_EQ(transport().sent.size(), 10u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_FAILED), 1u);
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SUCCEEDED), 9u);
  EXPECT_EQ(world_.Done().size(), 3u);
  EXPECT_EQ(world_.Count(ColumnFamily::kDeadLetters), 1u);
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, RowsOfAPausedScheduleAreParked) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  const std::string key = world_.AddRow(uid, {.due = world_.now() + absl::Seconds(3), .count = 50});
  world_.Advance(absl::Seconds(1));
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  world_.Advance(absl::Seconds(4));
  EXPECT_TRUE(transport().sent.empty());
  const auto parked = world_.Rows(ColumnFamily::kParked);
  ASSERT_EQ(parked.size(), 1u);
  EXPECT_EQ(parked.begin()->first, ParkedKey(uid, key));
  EXPECT_EQ(world_.Done().size(), 0u);
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, RowsOfADeletedScheduleAreSkippedAndCounted) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  world_.AddRow(uid, {.due = world_.now() + absl::Seconds(3), .count = 50});
  world_.Advance(absl::Seconds(1));
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_DELETED);
  world_.Advance(absl::Seconds(4));
  EXPECT_TRUE(transport().sent.empty());
  ASSERT_EQ(world_.Done().size(), 1u);
  EXPECT_EQ(world_.Done()[0].reason(), "deleted");
  EXPECT_EQ(world_.DoneEvents(OUTCOME_KIND_SKIPPED), 50u);
  const storage::v1::RunPartRecord part = world_.OnlyRunPart();
  EXPECT_EQ(part.skipped(), 50u);
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, RowsOfAnOverlappedRunAreCancelledAndCounted) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  transport().delay = absl::Seconds(2);
  transport().decide = [](const DeliveryAttempt& attempt) {
    const bool gave_way = attempt.context->occurrence == "o1";
    return DeliveryResult{.status = gave_way ? DeliveryStatus::kFailed : DeliveryStatus::kAccepted,
                          .message = ""};
  };
  const absl::Time due = world_.now() + absl::Seconds(3);
  // An attempt is under way when the run is cancelled. Its retry and the unclaimed events end.
  world_.AddRow(uid, {.due = due, .first = 0, .run_count = 51});
  world_.AddRow(uid, {.due = due + absl::Seconds(3),
                      .first = 1,
                      .count = 50,
                      .run_count = 51,
                      .nominal_micros = ToMicros(due)});
  world_.AddRow(uid, {.due = due + absl::Seconds(3),
                      .occurrence = "o2",
                      .nominal_micros = ToMicros(due + absl::Seconds(1))});
  world_.Advance(absl::Seconds(4));
  ASSERT_EQ(transport().sent.size(), 1u);
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 1, due + absl::Seconds(1));
  world_.Advance(absl::Seconds(60));
  EXPECT_EQ(transport().sent.size(), 2u) << "the attempt under way, and the later run's";
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_CANCELLED), 51u);
  EXPECT_EQ(world_.DoneEvents(storage::v1::OUTCOME_KIND_SUCCEEDED), 1u);
  for (const storage::v1::DoneRecord& done : world_.Done())
    EXPECT_EQ(done.reason(),
              done.outcome() == storage::v1::OUTCOME_KIND_CANCELLED ? "overlap" : "");
  const storage::v1::RunPartRecord part = world_.OnlyRunPart();
  EXPECT_EQ(part.cancelled(), 51u);
  EXPECT_EQ(part.never_started(), 50u);
  EXPECT_EQ(part.retries(), 1u);
  ExpectQuiet();
}

TEST_F(HandlerServiceTest, AfterAnUpdateTheCurrentVersionDecidesAndIsSent) {
  const Uid uid = world_.AddSchedule("s");
  Start();
  // Both versions have the occurrence 2026-03-01T03:00:00Z; only the first has 02:00.
  const absl::CivilSecond three(2026, 3, 1, 3, 0, 0);
  const absl::CivilSecond two(2026, 3, 1, 2, 0, 0);
  const absl::Time due = world_.now() + absl::Seconds(3);
  for (const absl::CivilSecond& civil : {three, two}) {
    world_.AddRow(uid, {.due = due,
                        .occurrence = cron::FormatCalendarOccurrence(civil, 0, "UTC"),
                        .nominal_micros = ToMicros(absl::FromCivil(civil, absl::UTCTimeZone()))});
  }
  world_.AddDefinition(uid, 2, "0 3,4 * * *");
  world_.SetState(uid, storage::v1::SCHEDULE_STATE_KIND_ENABLED, 2);
  world_.Advance(absl::Seconds(5));
  ASSERT_EQ(transport().sent.size(), 1u);
  EXPECT_EQ(transport().sent[0].attempt.context->payload, "payload of version 2");
  ASSERT_EQ(world_.DoneEvents(OUTCOME_KIND_SKIPPED), 1u);
  for (const auto& done : world_.Done()) {
    EXPECT_EQ(done.reason(), done.outcome() == OUTCOME_KIND_SKIPPED ? "superseded" : "");
  }
  ExpectQuiet();
}

}  // namespace handler_service_test
}  // namespace escapement::handler
