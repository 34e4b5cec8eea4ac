#include "services/master/notifications/subscription_codec.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/uid.h"
#include "common/status/errors.h"
#include "google/protobuf/util/json_util.h"
#include "services/master/base/limits.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/codec/target_codec.h"
#include "services/master/schedules/schedule_search.h"

namespace escapement::master {
namespace {

using storage::v1::ProblemRecord;
using storage::v1::SubscriptionRecord;
using storage::v1::SubscriptionStateRecord;
using v1::Subscription;

constexpr absl::string_view kNoticeIdPrefix = "notice-";
constexpr size_t kNoticeIdDigits = 2 * Uid::kBytes;

// The target with the templates of messages, where it has none of its own.
v1::Target WithTemplates(v1::Target target) {
  if (target.has_slack() && target.slack().text().empty())
    target.mutable_slack()->set_text("{{payload.text}}");
  if (target.has_email() && target.email().subject().empty())
    target.mutable_email()->set_subject("{{payload.title}}");
  if (target.has_email() && target.email().text().empty())
    target.mutable_email()->set_text("{{payload.text}}");
  return target;
}

void ReadKinds(const Subscription& subscription, SubscriptionRecord& record,
               FieldViolations& violations) {
  std::set<uint32_t> kinds;
  for (int i = 0; i < subscription.kinds_size(); ++i) {
    const int kind = subscription.kinds(i);
    if (kind == Subscription::KIND_UNSPECIFIED || !Subscription::Kind_IsValid(kind)) {
      violations.Add(absl::StrCat("subscription.kinds[", i, "]"),
                     "must be FAILED, LATE, MISSED, PAUSED or AT_RISK");
    } else {
      kinds.insert(static_cast<uint32_t>(kind));
    }
  }
  record.mutable_kinds()->Assign(kinds.begin(), kinds.end());
}

int64_t ReadLateBy(const Subscription& subscription, FieldViolations& violations) {
  if (!subscription.has_late_by()) return absl::ToInt64Microseconds(kLateByDefault);
  const auto late_by = ToDuration(subscription.late_by());
  if (!late_by.has_value() || *late_by < kLateByMin || *late_by > kLateByMax) {
    violations.Add("subscription.late_by",
                   absl::StrCat("must be from ", absl::FormatDuration(kLateByMin), " to ",
                                absl::FormatDuration(kLateByMax)));
    return 0;
  }
  return MicrosUp(*late_by);
}

void ShowProblem(const ProblemRecord& record, absl::string_view tenant,
                 Subscription::Problem& problem) {
  problem.set_kind(static_cast<Subscription::Kind>(record.kind()));
  if (!record.schedule_id().empty())
    problem.set_schedule(ScheduleName{std::string(tenant), record.schedule_id()}.ToString());
  SetTimestamp(record.begin_micros(), *problem.mutable_begin_time());
  SetTimestamp(record.last_micros(), *problem.mutable_last_time());
  problem.set_count(static_cast<int64_t>(record.count()));
  problem.set_detail(record.detail());
  problem.set_resource(record.resource());
  if (record.notify_micros() != 0)
    SetTimestamp(record.notify_micros(), *problem.mutable_notify_time());
}

absl::string_view Verb(uint32_t kind, bool several) {
  switch (kind) {
    case Subscription::FAILED:
      return several ? "have failed" : "has failed";
    case Subscription::LATE:
      return "is late";
    case Subscription::MISSED:
      return "has missed a run";
    case Subscription::PAUSED:
      return "was paused";
    case Subscription::AT_RISK:
      return "will not keep to its window";
    default:
      return "is in trouble";
  }
}

// "nightly has failed".
std::string InWords(const ProblemRecord& problem) {
  const bool one_off = problem.schedule_id().empty();
  return absl::StrCat(one_off ? "one-off events" : problem.schedule_id(), " ",
                      Verb(problem.kind(), one_off));
}

std::string Line(const ProblemRecord& problem) {
  std::string line = InWords(problem);
  if (!problem.detail().empty()) absl::StrAppend(&line, ": ", problem.detail());
  absl::StrAppend(&line, " (since ", TimeText(problem.begin_micros()));
  if (problem.count() > 1) {
    absl::StrAppend(&line, ", ", problem.count(),
                    problem.schedule_id().empty() ? " events" : " runs");
  }
  if (!problem.resource().empty()) absl::StrAppend(&line, ", ", problem.resource());
  return line + ")";
}

std::string AndMore(size_t count, absl::string_view noun) {
  if (count == 0) return "";
  return absl::StrCat(", and ", count, " more ", noun, count == 1 ? "" : "s");
}

std::string TitleOf(const News& news) {
  if (news.empty()) return "This is a test of a notification";
  if (news.problems.empty()) {
    return absl::StrCat("Ended: ", InWords(news.ended[0]),
                        AndMore(news.ended.size() - 1, "problem"));
  }
  std::string title =
      absl::StrCat(InWords(news.problems[0]), AndMore(news.problems.size() - 1, "problem"));
  if (!news.ended.empty()) absl::StrAppend(&title, "; ", news.ended.size(), " ended");
  return title;
}

// Adds the first problems as lines and messages; the number of the others.
int64_t AddProblems(const std::vector<ProblemRecord>& problems, absl::string_view tenant,
                    absl::string_view heading, std::string& text,
                    google::protobuf::RepeatedPtrField<Subscription::Problem>& shown) {
  const size_t count = std::min(problems.size(), kMessageProblemsMax);
  if (count > 0) absl::StrAppend(&text, heading);
  for (size_t i = 0; i < count; ++i) {
    absl::StrAppend(&text, "- ", Line(problems[i]), "\n");
    ShowProblem(problems[i], tenant, *shown.Add());
  }
  if (problems.size() > count) absl::StrAppend(&text, "- and ", problems.size() - count, " more\n");
  return static_cast<int64_t>(problems.size() - count);
}

std::string ResourceOf(const SubscriptionRecord& record) {
  return SubscriptionName{record.tenant(), record.subscription_id()}.ToString();
}

}  // namespace

absl::StatusOr<SubscriptionRecord> ReadSubscription(const Subscription& subscription,
                                                    absl::string_view tenant,
                                                    const TargetSecrets& secrets,
                                                    const SubscriptionRecord* before) {
  FieldViolations violations;
  SubscriptionRecord record;
  CheckShownText("subscription.display_name", subscription.display_name(), kDisplayNameCharsMax,
                 violations);
  record.set_display_name(subscription.display_name());
  violations.AddStatus("subscription", ReadScheduleFilter(subscription.filter(), tenant).status());
  record.set_filter(subscription.filter());
  ReadKinds(subscription, record, violations);
  record.set_late_by_micros(ReadLateBy(subscription, violations));
  *record.mutable_delivery() =
      ReadDeliveryTo(WithTemplates(subscription.target()), "subscription.target", violations);
  secrets.Seal(tenant, "subscription.target",
               before == nullptr ? nullptr : &before->delivery().target(),
               *record.mutable_delivery()->mutable_target(), violations);
  if (!violations.empty()) return violations.ToStatus();
  return record;
}

Subscription ShowSubscription(const SubscriptionRecord& record) {
  Subscription subscription;
  subscription.set_name(ResourceOf(record));
  subscription.set_display_name(record.display_name());
  subscription.set_filter(record.filter());
  for (const uint32_t kind : record.kinds())
    subscription.add_kinds(static_cast<Subscription::Kind>(kind));
  SetDuration(record.late_by_micros(), *subscription.mutable_late_by());
  WriteTarget(record.delivery().target(), *subscription.mutable_target());
  subscription.set_etag(SubscriptionEtag(record));
  subscription.set_version(static_cast<int64_t>(record.version()));
  SetTimestamp(record.create_time_micros(), *subscription.mutable_create_time());
  SetTimestamp(record.update_time_micros(), *subscription.mutable_update_time());
  return subscription;
}

void ShowChecks(const SubscriptionStateRecord& state, absl::string_view tenant, int problems_max,
                Subscription& subscription) {
  SetTimestamp(state.checked_to_micros(), *subscription.mutable_check_time());
  for (const ProblemRecord& problem : state.problems()) {
    if (problem.ended_micros() != 0) continue;
    subscription.set_problem_count(subscription.problem_count() + 1);
    if (subscription.problems_size() < problems_max)
      ShowProblem(problem, tenant, *subscription.add_problems());
  }
  if (state.messages() == 0) return;
  subscription.set_last_event(
      EventName{std::string(tenant), NoticeEventId(state.uid(), state.messages())}.ToString());
  SetTimestamp(state.message_time_micros(), *subscription.mutable_last_event_time());
}

std::string SubscriptionEtag(const SubscriptionRecord& record) {
  return absl::StrCat("\"", record.version(), "-", absl::Hex(record.create_time_micros()), "\"");
}

std::string TimeText(int64_t micros) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", FromMicros(micros), absl::UTCTimeZone());
}

bool Wants(const SubscriptionRecord& record, Subscription::Kind kind) {
  const auto& kinds = record.kinds();
  return kinds.empty() ||
         std::find(kinds.begin(), kinds.end(), static_cast<uint32_t>(kind)) != kinds.end();
}

v1::Notice NoticeOf(const SubscriptionRecord& record, const News& news, absl::Time now) {
  v1::Notice notice;
  notice.set_subscription(ResourceOf(record));
  SetTimestamp(ToMicros(now), *notice.mutable_time());
  notice.set_title(TitleOf(news));
  std::string text = notice.title() + "\n";
  notice.set_more_problems(
      AddProblems(news.problems, record.tenant(), "\n", text, *notice.mutable_problems()));
  notice.set_more_ended(
      AddProblems(news.ended, record.tenant(), "\nEnded:\n", text, *notice.mutable_ended()));
  absl::StrAppend(&text, "\nNotification: ", notice.subscription(), "\n");
  notice.set_text(std::move(text));
  return notice;
}

std::string NoticeEventId(absl::string_view subscription_uid, uint64_t number) {
  return absl::StrCat(kNoticeIdPrefix,
                      StableHash128(KeyWriter().Text(subscription_uid).U64(number).Take()).ToHex());
}

bool IsNoticeEventId(absl::string_view event_id) {
  if (!absl::ConsumePrefix(&event_id, kNoticeIdPrefix)) return false;
  return event_id.size() == kNoticeIdDigits &&
         std::all_of(event_id.begin(), event_id.end(), absl::ascii_isxdigit);
}

void AddNoticeEvent(const SubscriptionRecord& record, absl::string_view event_id,
                    const v1::Notice& notice, const InternedDelivery& interned,
                    uint32_t queue_shards, absl::Time now, kv::Group& group) {
  google::protobuf::util::JsonPrintOptions as_named;
  as_named.preserve_proto_field_names = true;
  std::string payload;
  CHECK(google::protobuf::util::MessageToJsonString(notice, &payload, as_named).ok());
  AddOwnEvent(record.tenant(), event_id, payload, interned, queue_shards, now, group);
}

}  // namespace escapement::master
