#include "services/master/codec/schedule_codec.h"

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/backoff/backoff.h"
#include "common/base/status_macros.h"
#include "common/status/errors.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace escapement::master {
namespace schedule_codec_test {

// The time that an event with this policy is tried if each attempt fails at once.
absl::Duration TriedFor(const storage::v1::RetryRecord& retry,
                        const std::function<uint64_t()>& random) {
  RetryInput input;
  input.backoff = {.min = absl::Microseconds(retry.min_backoff_micros()),
                   .max = absl::Microseconds(retry.max_backoff_micros()),
                   .multiplier = retry.multiplier()};
  input.attempts_max = retry.max_attempts();
  input.age_max = absl::Microseconds(retry.max_age_micros());
  const absl::Time begin = absl::FromUnixSeconds(1'000);
  input.tried_since = input.now = begin;
  for (;; ++input.attempts) {
    input.random = random();
    const RetryPlan plan = PlanRetry(input);
    if (!plan.at.has_value()) return input.now - begin;
    input.now = *plan.at;
  }
}

constexpr char kTarget[] = "target { http { uri: 'http://h/' } }";

v1::Schedule Parse(const std::string& text) {
  v1::Schedule schedule;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &schedule)) << text;
  return schedule;
}

ScheduleDraft Draft(const std::string& text) {
  absl::StatusOr<ScheduleDraft> draft = DraftOf(Parse(text + kTarget), "default");
  EXPECT_TRUE(draft.ok()) << draft.status();
  return *std::move(draft);
}

storage::v1::StateRecord Enabled() {
  storage::v1::StateRecord state;
  state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
  state.set_tenant("default");
  state.set_schedule_id("s");
  return state;
}

v1::Schedule Current(const std::string& text) {
  ScheduleDraft draft = Draft(text);
  FillAnchor(draft.definition, absl::FromUnixSeconds(100));
  draft.definition.record.set_tenant("default");
  return ShowSchedule({draft.record, Enabled(), draft.definition.record}, std::nullopt);
}

// Applies the patch to `current` and reads the result as an update does. "-": no mask.
absl::StatusOr<ScheduleDraft> Updated(const std::string& current, const std::string& patch,
                                      const std::string& mask) {
  google::protobuf::FieldMask paths;
  if (mask != "-") {
    for (absl::string_view path : absl::StrSplit(mask, ',')) paths.add_paths(std::string(path));
  }
  ASSIGN_OR_RETURN(const auto wanted, ApplyMask(Current(current), Parse(patch), paths));
  return DraftOf(wanted, "default");
}

// Which way of saying when it fires a draft has, and its times.
std::string WayOf(const absl::StatusOr<ScheduleDraft>& draft) {
  if (!draft.ok()) return std::string(draft.status().message());
  const storage::v1::DefinitionRecord& record = draft->definition.record;
  if (record.timing().has_interval()) {
    return absl::StrCat("every ", record.timing().interval().every_micros() / 1'000'000, " from ",
                        draft->definition.anchor_missing
                            ? "?"
                            : absl::StrCat(record.timing().interval().anchor_micros() / 1'000'000));
  }
  if (!record.timing().times_micros().empty())
    return absl::StrCat(record.timing().times_micros_size(), " times");
  return absl::StrCat(record.timing().has_cron_fields() ? "fields " : "cron ", record.cron());
}

TEST(ScheduleCodec, APatchThatSaysWhenAnewReplacesTheFormerWay) {
  const std::string kCron = "cron: '0 3 * * *' dst_policy { gap: SHIFT }";
  const std::string kFields = "cron_fields { hour: '3' minute: '0' }";
  const std::string kInterval = "interval { every { seconds: 60 } }";
  const std::string kTimes = "times { seconds: 5 } times { seconds: 6 }";
  for (const std::string& current : {kCron, kFields, kInterval, kTimes}) {
    EXPECT_EQ(WayOf(Updated(current, "cron: '1 * * * *'", "-")), "cron 1 * * * *");
    EXPECT_EQ(WayOf(Updated(current, "cron: '1 * * * *'", "cron")), "cron 1 * * * *");
    EXPECT_EQ(WayOf(Updated(current, "interval { every { seconds: 9 } }", "-")), "every 9 from ?");
    EXPECT_EQ(WayOf(Updated(current, "interval { every { seconds: 9 } }", "interval")),
              "every 9 from ?");
    EXPECT_EQ(WayOf(Updated(current, "times { seconds: 1 }", "-")), "1 times");
    EXPECT_EQ(WayOf(Updated(current, "times { seconds: 1 }", "times")), "1 times");
    EXPECT_EQ(WayOf(Updated(current, "cron_fields { hour: '4' minute: '5' }", "-")),
              "fields 5 4 * * *");
    // All that are named, though only one is given.
    EXPECT_EQ(WayOf(Updated(current, "times { seconds: 1 }", "cron,interval,times")), "1 times");
    EXPECT_EQ(WayOf(Updated(current, "cron: '1 * * * *'", "times,cron")), "cron 1 * * * *");
    EXPECT_EQ(WayOf(Updated(current, std::string("cron: '2 * * * *'") + kTarget, "*")),
              "cron 2 * * * *");
  }
}

TEST(ScheduleCodec, APartOfTheFormerWayMayBeChangedAlone) {
  EXPECT_EQ(WayOf(Updated("interval { every { seconds: 60 } }", "interval { every { seconds: 9 } }",
                          "interval.every")),
            "every 9 from 100");
  EXPECT_EQ(WayOf(Updated("cron_fields { hour: '3' minute: '0' }", "cron_fields { hour: '7' }",
                          "cron_fields.hour")),
            "fields 0 7 * * *");
  const auto zone = Updated("times { seconds: 5 }", "time_zone: 'Europe/Berlin'", "-");
  EXPECT_EQ(WayOf(zone), "1 times");
  EXPECT_EQ(zone->definition.record.time_zone(), "Europe/Berlin");
}

TEST(ScheduleCodec, TwoWaysAtOnceAndNoneAreRefused) {
  EXPECT_TRUE(absl::IsInvalidArgument(
      Updated("cron: '0 3 * * *'", "times { seconds: 5 } cron: '* * * * *'", "-").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Updated("cron: '0 3 * * *'", "", "cron").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Updated("times { seconds: 5 }", "", "times").status()));
  // The policy is named together with what it does not go with.
  EXPECT_TRUE(absl::IsInvalidArgument(
      Updated("cron: '0 3 * * *'", "interval { every { seconds: 9 } } dst_policy { gap: SHIFT }",
              "-")
          .status()));
}

// The limits that a draft keeps: policy/key/weight, with the weight as it is stored.
std::string LimitsKept(const absl::StatusOr<ScheduleDraft>& draft) {
  if (!draft.ok()) return FieldViolationsOf(draft.status()).at(0).first;
  const storage::v1::ThrottleRecord& throttle = draft->definition.record.throttle();
  std::string text =
      absl::StrCat(throttle.policy_id(), "/", throttle.policy_key(), "/", throttle.weight());
  for (const storage::v1::LimitRecord& limit : throttle.more())
    absl::StrAppend(&text, " ", limit.policy_id(), "/", limit.policy_key(), "/", limit.weight());
  return text;
}

TEST(ScheduleCodec, APatchOfPolicyOrLimitsReplacesTheOther) {
  const std::string kOne = "cron: '0 3 * * *' policy: 'p' policy_key: 'k'";
  const std::string kTwo =
      "cron: '0 3 * * *' limits { policy: 'p' weight: 2 } limits { policy: 'q' policy_key: 'k' }";
  EXPECT_EQ(LimitsKept(Draft(kOne)), "p/k/0");
  EXPECT_EQ(LimitsKept(Draft(kTwo)), "p//2 q/k/1");
  const std::string other = "limits { policy: 'a' weight: 1 } limits { policy: 'b' weight: 3 }";
  for (const std::string& current : {kOne, kTwo}) {
    for (const char* mask : {"-", "limits", "limits,policy", "policy_key,limits"})
      EXPECT_EQ(LimitsKept(Updated(current, other, mask)), "a//0 b//3") << mask;
    EXPECT_EQ(LimitsKept(Updated(current, "policy: 'a' policy_key: 'c'", "-")), "a/c/0");
    EXPECT_EQ(LimitsKept(Updated(current, "policy: 'a'", "policy,policy_key,limits")), "a//0");
    EXPECT_EQ(LimitsKept(Updated(current, "policy: 'a'" + other, "-")), "schedule.limits");
  }
  EXPECT_EQ(LimitsKept(Updated(kOne, "policy: 'a'", "policy")), "a/k/0");
  EXPECT_EQ(LimitsKept(Updated(kTwo, "policy: 'a'", "policy")), "a//0");
  EXPECT_EQ(LimitsKept(Updated(kTwo, "display_name: 'D'", "-")), "p//2 q/k/1");
  EXPECT_EQ(LimitsKept(Updated(kTwo, "", "policy")), "p//2 q/k/1") << "no policy is set";
  EXPECT_EQ(LimitsKept(Updated(kTwo, "policy_key: 'c'", "-")), "schedule.limits");
}

TEST(ScheduleCodec, RetriesThatGoOnAreKeptAndShown) {
  const v1::Schedule current = Current("cron: '0 3 * * *' retry_policy { keep: true }");
  EXPECT_TRUE(current.retry_policy().keep());
  const auto updated = Updated("cron: '0 3 * * *' retry_policy { keep: true }",
                               "retry_policy { max_attempts: 9 }", "retry_policy.max_attempts");
  ASSERT_TRUE(updated.ok());
  EXPECT_TRUE(updated->definition.record.delivery().retry().keep());
}

TEST(ScheduleCodec, WarningsOfTheRequestAreIgnored) {
  const auto wanted = ApplyMask(Current("cron: '0 3 * * *'"), Parse("warnings: 'mine'"), {});
  ASSERT_TRUE(wanted.ok());
  EXPECT_EQ(wanted->warnings_size(), 0);
}

TEST(ScheduleCodec, AnEnabledScheduleWithoutAFurtherOccurrenceIsShownAsFinished) {
  const ScheduleDraft draft = Draft("times { seconds: 5 } times { seconds: 9 }");
  storage::v1::StateRecord state = Enabled();
  const auto shown = [&](int64_t now) {
    return ShowSchedule({draft.record, state, draft.definition.record},
                        NextTime(state, draft.definition, absl::FromUnixSeconds(now)));
  };
  EXPECT_EQ(shown(8).state(), v1::Schedule::ENABLED);
  EXPECT_EQ(shown(8).next_time().seconds(), 9);
  EXPECT_EQ(shown(9).state(), v1::Schedule::FINISHED);
  EXPECT_FALSE(shown(9).has_next_time());
  // Its runs are used up: there is none from 9 on.
  state.set_finish_micros(9'000'000);
  EXPECT_EQ(shown(4).next_time().seconds(), 5);
  EXPECT_EQ(shown(5).state(), v1::Schedule::FINISHED);
  state.set_kind(storage::v1::SCHEDULE_STATE_KIND_PAUSED);
  EXPECT_EQ(shown(5).state(), v1::Schedule::PAUSED);
}

TEST(ScheduleCodec, ScheduleThatNeverFiresIsRefusedWithItsReason) {
  const auto read = DraftOf(Parse(std::string("cron: '0 0 30 2 *'") + kTarget), "default");
  EXPECT_EQ(ErrorReason(read.status()), "IMPOSSIBLE_EXPRESSION");
}

TEST(ScheduleCodec, DefaultRetriesOutliveAnAbsentConsumer) {
  const storage::v1::RetryRecord retry =
      Draft("cron: '0 3 * * *'").definition.record.delivery().retry();
  EXPECT_GE(TriedFor(retry, [] { return uint64_t{0}; }), absl::Minutes(10));
  std::mt19937_64 chance(1);  // NOLINT(cert-msc51-cpp): the same numbers each time
  for (int i = 0; i < 1000; ++i)
    EXPECT_GE(TriedFor(retry, [&chance] { return chance(); }), absl::Minutes(10));
}

}  // namespace schedule_codec_test
}  // namespace escapement::master
