#include "services/master/codec/outcome_codec.h"

#include <string>

#include "gtest/gtest.h"

namespace escapement::master {
namespace outcome_codec_test {

using storage::v1::AttemptRecord;
using storage::v1::DoneRecord;

v1::Event Shown(const DoneRecord& done, uint64_t position = 0) {
  v1::Event event;
  ShowAttempts(done, position, event);
  return event;
}

v1::Event Shown(const storage::v1::EventRecord& row, v1::EventState state) {
  v1::Event event;
  ShowAttempts(row, state, event);
  return event;
}

AttemptRecord TimedOut(uint32_t number) {
  AttemptRecord attempt;
  attempt.set_number(number);
  attempt.set_begin_micros(1'000'000 * number);
  attempt.set_duration_micros(250'000);
  attempt.set_kind(AttemptRecord::UNKNOWN);
  attempt.set_error("timed out");
  return attempt;
}

TEST(OutcomeCodecTest, SucceededEventHasItsFailedAttemptsAndTheLast) {
  DoneRecord done;
  done.set_count(1);
  done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
  done.set_attempts(2);
  *done.add_tried() = TimedOut(1);
  done.set_dispatch_time_micros(9'000'000);
  done.set_complete_time_micros(9'030'000);
  done.set_status(201);
  done.set_output("order 7");
  done.set_redrives(3);
  const v1::Event event = Shown(done);
  EXPECT_EQ(event.status(), v1::Event::COMPLETED);
  EXPECT_EQ(event.redrive_count(), 3);
  EXPECT_EQ(event.output(), "order 7");
  ASSERT_EQ(event.recent_attempts_size(), 2);
  const v1::Attempt& first = event.recent_attempts(0);
  EXPECT_EQ(first.number(), 1);
  EXPECT_EQ(first.start_time().seconds(), 1);
  EXPECT_EQ(first.duration().nanos(), 250'000'000);
  EXPECT_EQ(first.result(), v1::Attempt::UNKNOWN);
  EXPECT_EQ(first.error(), "timed out");
  const v1::Attempt& last = event.recent_attempts(1);
  EXPECT_EQ(last.number(), 2);
  EXPECT_EQ(last.result(), v1::Attempt::ACCEPTED);
  EXPECT_EQ(last.status_code(), 201);
  EXPECT_EQ(last.start_time().seconds(), 9);
  EXPECT_EQ(last.duration().nanos(), 30'000'000);
  EXPECT_EQ(last.answer(), "");
}

TEST(OutcomeCodecTest, FailedEventHasTheErrorAndTheAnswerOfItsLastAttempt) {
  DoneRecord done;
  done.set_count(1);
  done.set_outcome(storage::v1::OUTCOME_KIND_FAILED);
  done.set_attempts(1);
  done.set_reason("HTTP 410");
  done.set_last_attempt(AttemptRecord::REJECTED);
  done.set_status(410);
  done.set_answer("gone");
  const v1::Event event = Shown(done);
  EXPECT_EQ(event.status(), v1::Event::PERMANENTLY_FAILED);
  ASSERT_EQ(event.recent_attempts_size(), 1);
  EXPECT_EQ(event.recent_attempts(0).result(), v1::Attempt::REJECTED);
  EXPECT_EQ(event.recent_attempts(0).error(), "HTTP 410");
  EXPECT_EQ(event.recent_attempts(0).answer(), "gone");
  EXPECT_FALSE(event.recent_attempts(0).has_start_time());
  EXPECT_FALSE(event.recent_attempts(0).has_duration());
}

// It waited for another attempt that could not begin any more.
TEST(OutcomeCodecTest, EventThatFailedWhileItWaitedHasNoFurtherAttempt) {
  DoneRecord done;
  done.set_count(1);
  done.set_outcome(storage::v1::OUTCOME_KIND_FAILED);
  done.set_attempts(1);
  *done.add_tried() = TimedOut(1);
  EXPECT_EQ(Shown(done).recent_attempts_size(), 1);
}

TEST(OutcomeCodecTest, EachEventOfARangeHasItsOwnTimes) {
  DoneRecord done;
  done.set_count(2);
  done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
  done.set_attempts(1);
  done.set_dispatch_time_micros(5'000'000);
  done.set_complete_time_micros(8'000'000);
  for (int64_t offset : {0, 1'000'000}) done.add_begin_offset_micros(offset);
  for (int64_t duration : {500'000, 2'000'000}) done.add_duration_micros(duration);
  const v1::Event first = Shown(done, 0);
  EXPECT_EQ(first.dispatch_time().seconds(), 5);
  EXPECT_EQ(first.complete_time().seconds(), 5);
  EXPECT_EQ(first.complete_time().nanos(), 500'000'000);
  const v1::Event second = Shown(done, 1);
  EXPECT_EQ(second.dispatch_time().seconds(), 6);
  EXPECT_EQ(second.complete_time().seconds(), 8);
  EXPECT_EQ(second.recent_attempts(0).duration().seconds(), 2);
}

TEST(OutcomeCodecTest, TimesThatARangeDoesNotKnowAreNotInvented) {
  DoneRecord done;
  done.set_count(2);
  done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
  done.set_attempts(1);
  done.set_dispatch_time_micros(5'000'000);
  done.set_complete_time_micros(8'000'000);
  EXPECT_TRUE(Shown(done, 0).recent_attempts(0).has_start_time());
  EXPECT_FALSE(Shown(done, 0).recent_attempts(0).has_duration());
  EXPECT_FALSE(Shown(done, 1).recent_attempts(0).has_start_time());
  EXPECT_EQ(Shown(done, 1).complete_time().seconds(), 8);
}

// The end is the worker's, much later than the answer.
TEST(OutcomeCodecTest, DeliveryOfWorkHasItsOwnDuration) {
  DoneRecord done;
  done.set_count(1);
  done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
  done.set_attempts(1);
  done.set_dispatch_time_micros(5'000'000);
  done.set_complete_time_micros(65'000'000);
  done.set_last_duration_micros(20'000);
  const v1::Event event = Shown(done);
  EXPECT_EQ(event.complete_time().seconds(), 65);
  EXPECT_EQ(event.recent_attempts(0).duration().nanos(), 20'000'000);
}

TEST(OutcomeCodecTest, EventsThatWereNotSentHaveNoAttempts) {
  DoneRecord done;
  done.set_count(3);
  done.set_outcome(storage::v1::OUTCOME_KIND_SKIPPED);
  EXPECT_EQ(Shown(done, 2).status(), v1::Event::NOT_DELIVERED);
  EXPECT_EQ(Shown(done, 2).recent_attempts_size(), 0);
  EXPECT_FALSE(Shown(done, 2).has_dispatch_time());
}

TEST(OutcomeCodecTest, AnswersThatAreTextAreAlsoShownAsText) {
  const auto text_of = [](const std::string& bytes) {
    DoneRecord done;
    done.set_count(1);
    done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
    done.set_output(bytes);
    AttemptRecord attempt;
    attempt.set_answer(bytes);
    EXPECT_EQ(ShowAttempt(attempt).answer_text(), Shown(done).output_text());
    return ShowAttempt(attempt).answer_text();
  };
  EXPECT_EQ(text_of("gone\r\n\tfor good"), "gone\r\n\tfor good");
  EXPECT_EQ(text_of("caf\xc3\xa9"), "caf\xc3\xa9");
  EXPECT_EQ(text_of("caf\xc3"), "caf");
  EXPECT_EQ(text_of("a\xf0\x9f\x98"), "a");
  EXPECT_EQ(text_of("caf\xff\xfe!"), "");
  EXPECT_EQ(text_of(std::string("a\0b", 3)), "");
  EXPECT_EQ(text_of("\x80\x80\x80\x80\x80"), "");
  EXPECT_EQ(text_of(""), "");
}

TEST(OutcomeCodecTest, StatusOfWaitingEvents) {
  storage::v1::EventRecord row;
  EXPECT_EQ(Shown(row, v1::PENDING).status(), v1::Event::SCHEDULED);
  EXPECT_EQ(Shown(row, v1::RUNNING).status(), v1::Event::IN_PROGRESS);
  row.set_attempts(1);
  *row.add_tried() = TimedOut(1);
  EXPECT_EQ(Shown(row, v1::PENDING).status(), v1::Event::FAILED);
  EXPECT_EQ(Shown(row, v1::RUNNING).status(), v1::Event::IN_PROGRESS);
  EXPECT_EQ(Shown(row, v1::PENDING).recent_attempts(0).error(), "timed out");
}

TEST(OutcomeCodecTest, StatusOfRuns) {
  v1::Run run;
  run.set_state(v1::Run::UPCOMING);
  EXPECT_EQ(StatusOfRun(run), v1::Event::SCHEDULED);
  run.set_state(v1::Run::ACTIVE);
  EXPECT_EQ(StatusOfRun(run), v1::Event::IN_PROGRESS);
  run.set_retry_count(1);
  EXPECT_EQ(StatusOfRun(run), v1::Event::FAILED);
  run.set_state(v1::Run::COMPLETED);
  EXPECT_EQ(StatusOfRun(run), v1::Event::NOT_DELIVERED);
  run.set_succeeded_count(1);
  EXPECT_EQ(StatusOfRun(run), v1::Event::COMPLETED);
  run.set_failed_count(1);
  EXPECT_EQ(StatusOfRun(run), v1::Event::PERMANENTLY_FAILED);
}

}  // namespace outcome_codec_test
}  // namespace escapement::master
