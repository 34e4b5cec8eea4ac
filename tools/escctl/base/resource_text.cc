#include "tools/escctl/base/resource_text.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/cron/cron_expression.h"

namespace escapement::escctl {

namespace {

using google::protobuf::util::TimeUtil;

std::string SelectionOf(const v1::Operation& operation) {
  if (!operation.run().empty()) return operation.run();
  return operation.filter().empty() ? "all" : operation.filter();
}

std::string ErrorOf(const v1::Operation& operation) {
  if (!operation.error().empty()) return operation.error();
  return operation.last_failure().empty() ? "-" : operation.last_failure();
}

}  // namespace

const Row& OperationHeader() {
  static const Row header = {"OPERATION", "KIND",    "STATE", "DONE",         "FAILED", "TOTAL",
                             "RATE",      "CREATED", "ENDED", "DEAD LETTERS", "ERROR"};
  return header;
}

Row OperationRow(const v1::Operation& operation) {
  return {operation.name(),
          v1::Operation::Kind_Name(operation.kind()),
          v1::Operation::State_Name(operation.state()),
          absl::StrCat(operation.done_count()),
          absl::StrCat(operation.failed_count()),
          absl::StrCat(operation.total_count()),
          operation.max_per_second() == 0 ? "-" : absl::StrCat(operation.max_per_second(), "/s"),
          TimeUtil::ToString(operation.create_time()),
          operation.has_end_time() ? TimeUtil::ToString(operation.end_time()) : "-",
          SelectionOf(operation),
          ErrorOf(operation)};
}

void PrintOperation(Session& session, const v1::Operation& operation) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(operation, session.format()));
  session.Print(FormatTable(OperationHeader(), {OperationRow(operation)}));
}

namespace {

std::string FieldsText(const v1::CronFields& fields) {
  return cron::TextOf({.second = fields.second(),
                       .minute = fields.minute(),
                       .hour = fields.hour(),
                       .day_of_month = fields.day_of_month(),
                       .month = fields.month(),
                       .day_of_week = fields.day_of_week(),
                       .year = fields.year()});
}

}  // namespace

std::string WhenOf(const v1::Schedule& schedule) {
  switch (schedule.when_case()) {
    case v1::Schedule::kCron:
      return schedule.cron();
    case v1::Schedule::kCronFields:
      return FieldsText(schedule.cron_fields());
    case v1::Schedule::kInterval:
      return absl::StrCat(
          "every ", absl::FormatDuration(absl::Seconds(schedule.interval().every().seconds()) +
                                         absl::Nanoseconds(schedule.interval().every().nanos())));
    case v1::Schedule::WHEN_NOT_SET:
      break;
  }
  return absl::StrCat(schedule.times_size(), schedule.times_size() == 1 ? " time" : " times");
}

Row PreviewHeader() { return {"TIME", "LOCAL TIME", "NOTE", "OCCURRENCE"}; }

std::vector<Row> PreviewRows(const v1::PreviewScheduleResponse& preview) {
  std::vector<Row> rows;
  for (const auto& occurrence : preview.occurrences()) {
    rows.push_back({google::protobuf::util::TimeUtil::ToString(occurrence.time()),
                    occurrence.local_time(), occurrence.note().empty() ? "-" : occurrence.note(),
                    occurrence.occurrence()});
  }
  return rows;
}

std::vector<std::string> PreviewWords(const v1::PreviewScheduleResponse& preview) {
  std::vector<std::string> words = {
      absl::StrCat(preview.description(), " (tzdata ", preview.tz_version(), ")")};
  for (const std::string& warning : preview.warnings())
    words.push_back(absl::StrCat("warning: ", warning));
  return words;
}

namespace {

constexpr int64_t kMinutesOfHour = 60;
constexpr int64_t kBarCharacters = 40;

std::string MinuteText(int64_t minute) {
  return absl::FormatTime("%Y-%m-%dT%H:%MZ", absl::FromUnixSeconds(minute * 60),
                          absl::UTCTimeZone());
}

std::string MinuteText(const google::protobuf::Timestamp& time) {
  return MinuteText(time.seconds() / 60);
}

struct Hour {
  int64_t minute = 0;  // its first minute in the forecast, since 1970
  int64_t events = 0;
  int64_t peak = 0;  // events of the busiest minute
  int64_t peak_minute = 0;
};

std::vector<Hour> HoursOf(const v1::ForecastLoadResponse& forecast) {
  std::vector<Hour> hours;
  int64_t minute = forecast.start_time().seconds() / 60;
  for (const int64_t events : forecast.events_per_minute()) {
    if (hours.empty() || minute % kMinutesOfHour == 0)
      hours.push_back({.minute = minute, .peak_minute = minute});
    Hour& hour = hours.back();
    hour.events += events;
    if (events > hour.peak) {
      hour.peak = events;
      hour.peak_minute = minute;
    }
    ++minute;
  }
  return hours;
}

std::string HoursTable(const v1::ForecastLoadResponse& forecast) {
  const std::vector<Hour> hours = HoursOf(forecast);
  int64_t most = 1;
  for (const Hour& hour : hours) most = std::max(most, hour.events);
  std::vector<Row> rows;
  for (const Hour& hour : hours) {
    // An hour with few events beside others still shows that it has some.
    const auto bar = static_cast<int64_t>(
        std::ceil(static_cast<double>(hour.events) * kBarCharacters / static_cast<double>(most)));
    rows.push_back({MinuteText(hour.minute), absl::StrCat(hour.events), absl::StrCat(hour.peak),
                    hour.peak == 0 ? "-" : MinuteText(hour.peak_minute).substr(11),
                    std::string(static_cast<size_t>(bar), '#')});
  }
  return FormatTable({"HOUR", "EVENTS", "BUSIEST MINUTE", "AT", ""}, rows);
}

std::string SourcesText(const v1::ForecastLoadResponse::Minute& minute) {
  std::string text;
  for (const auto& source : minute.sources()) {
    absl::StrAppend(&text, text.empty() ? "" : ", ",
                    source.schedule().substr(source.schedule().rfind('/') + 1), " ",
                    source.event_count());
  }
  const int64_t further = minute.schedule_count() - minute.sources_size();
  return further > 0 ? absl::StrCat(text, ", and ", further, " more") : text;
}

}  // namespace

std::string ForecastTables(const v1::ForecastLoadResponse& forecast) {
  std::string tables = HoursTable(forecast);
  std::vector<Row> groups;
  for (const auto& group : forecast.groups()) {
    const bool other = forecast.other() && &group == &*forecast.groups().rbegin();
    groups.push_back({other                 ? "(all others)"
                      : group.key().empty() ? "(none)"
                                            : group.key(),
                      absl::StrCat(group.event_count()), absl::StrCat(group.schedule_count())});
  }
  if (!groups.empty())
    absl::StrAppend(&tables, "\n", FormatTable({"GROUP", "EVENTS", "SCHEDULES"}, groups));
  std::vector<Row> busy;
  for (const auto& minute : forecast.busy_minutes()) {
    busy.push_back({MinuteText(minute.time()), absl::StrCat(minute.event_count()),
                    absl::StrCat(minute.schedule_count()), SourcesText(minute)});
  }
  if (!busy.empty()) {
    absl::StrAppend(&tables, "\n",
                    FormatTable({"BUSY MINUTE", "EVENTS", "SCHEDULES", "MOST EVENTS"}, busy));
  }
  std::vector<Row> quiet;
  for (const auto& minute : forecast.quiet_minutes()) {
    quiet.push_back({MinuteText(minute.time()), absl::StrCat(minute.event_count()),
                     absl::StrCat(minute.schedule_count())});
  }
  if (!quiet.empty())
    absl::StrAppend(&tables, "\n", FormatTable({"NEAR", "EVENTS", "SCHEDULES"}, quiet));
  return tables;
}

std::string ForecastWords(const v1::ForecastLoadResponse& forecast) {
  std::string words =
      absl::StrCat(Counted(static_cast<size_t>(forecast.event_count()), "event"), " of ",
                   Counted(static_cast<size_t>(forecast.schedule_count()), "schedule"));
  if (forecast.jittered_schedule_count() > 0)
    absl::StrAppend(&words, ", ", forecast.jittered_schedule_count(), " with jitter");
  return words;
}

}  // namespace escapement::escctl
