#include "services/handler/delivery/facts.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::handler {

namespace {

void AppendDigits(int64_t value, int count, std::string* out) {
  char digits[8];
  for (int i = count - 1; i >= 0; --i) {
    digits[i] = static_cast<char>('0' + value % 10);
    value /= 10;
  }
  out->append(digits, static_cast<size_t>(count));
}

std::string Rfc3339(absl::Time time) {
  std::string text;
  AppendRfc3339(time, &text);
  return text;
}

}  // namespace

std::vector<Fact> ContextFactsOf(const DeliveryContext& context) {
  std::vector<Fact> facts;
  facts.reserve(12);  // with those of the attempt
  facts.push_back({"specversion", std::string(kCloudEventsSpecVersion), "ce_specversion"});
  if (std::string source = context.Source(); !source.empty())
    facts.push_back({"source", std::move(source), "ce_source"});
  facts.push_back({"type", std::string(kCloudEventsType), "ce_type"});
  facts.push_back({"time", Rfc3339(context.nominal_time), "ce_time"});
  const std::string& content_type = context.definition->delivery().content_type();
  if (!context.payload.empty() && !content_type.empty())
    facts.push_back({"datacontenttype", content_type, "ce_datacontenttype"});
  facts.push_back({"count", absl::StrCat(context.run_count), "escapement_count"});
  facts.push_back({"launchtime", Rfc3339(context.launch_time), "escapement_launchtime"});
  if (!context.trace_parent.empty())
    facts.push_back({"traceparent", context.trace_parent, "traceparent"});
  return facts;
}

void VisitAttemptFacts(const DeliveryAttempt& attempt,
                       absl::FunctionRef<void(absl::string_view name, absl::string_view attribute,
                                              absl::string_view value)>
                           visit) {
  visit("id", "ce_id", attempt.event_id);
  const absl::AlphaNum index(attempt.index);
  const std::string& occurrence = attempt.context->occurrence;
  if (!occurrence.empty()) {
    char text[128];  // nearly always enough, and without an allocation
    const size_t size = occurrence.size() + 1 + index.size();
    if (size <= sizeof(text)) {
      memcpy(text, occurrence.data(), occurrence.size());
      text[occurrence.size()] = '/';
      memcpy(text + occurrence.size() + 1, index.data(), index.size());
      visit("subject", "ce_subject", {text, size});
    } else {
      visit("subject", "ce_subject", absl::StrCat(occurrence, "/", index));
    }
  }
  if (!attempt.token.empty()) visit("token", "escapement_token", attempt.token);
  const absl::AlphaNum number(attempt.attempt);
  visit("attempt", "escapement_attempt", number.Piece());
  visit("index", "escapement_index", index.Piece());
}

std::vector<Fact> FactsOf(const DeliveryAttempt& attempt) {
  std::vector<Fact> facts = ContextFactsOf(*attempt.context);
  VisitAttemptFacts(attempt, [&facts](absl::string_view name, absl::string_view attribute,
                                      absl::string_view value) {
    facts.push_back({name, std::string(value), attribute});
  });
  return facts;
}

void AppendRfc3339(absl::Time time, std::string* out) {
  const int64_t micros = ToMicros(time);
  int64_t days = micros / 86'400'000'000;
  int64_t of_day = micros % 86'400'000'000;
  if (of_day < 0) {
    of_day += 86'400'000'000;
    --days;
  }
  // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": civil_from_days.
  const int64_t shifted = days + 719468;
  const int64_t era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
  const int64_t doe = shifted - era * 146097;
  const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const int64_t mp = (5 * doy + 2) / 153;
  const int64_t month = mp < 10 ? mp + 3 : mp - 9;
  AppendDigits(yoe + era * 400 + (month <= 2 ? 1 : 0), 4, out);
  out->push_back('-');
  AppendDigits(month, 2, out);
  out->push_back('-');
  AppendDigits(doy - (153 * mp + 2) / 5 + 1, 2, out);
  out->push_back('T');
  const int64_t seconds = of_day / 1'000'000;
  AppendDigits(seconds / 3600, 2, out);
  out->push_back(':');
  AppendDigits(seconds / 60 % 60, 2, out);
  out->push_back(':');
  AppendDigits(seconds % 60, 2, out);
  if (of_day % 1'000'000 != 0) {
    out->push_back('.');
    AppendDigits(of_day % 1'000'000, 6, out);
  }
  out->push_back('Z');
}

EventFacts EventFactsOf(const DeliveryAttempt& attempt) {
  const DeliveryContext& context = *attempt.context;
  EventFacts facts;
  facts.payload = context.payload;
  facts.id = attempt.event_id;
  facts.source = context.Source();
  AppendRfc3339(context.nominal_time, &facts.time);
  if (!context.occurrence.empty())
    facts.subject = absl::StrCat(context.occurrence, "/", attempt.index);
  facts.attempt = absl::StrCat(attempt.attempt);
  facts.index = absl::StrCat(attempt.index);
  facts.count = absl::StrCat(context.run_count);
  return facts;
}

}  // namespace escapement::handler
