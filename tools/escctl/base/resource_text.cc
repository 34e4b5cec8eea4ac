#include "tools/escctl/base/resource_text.h"

#include <google/protobuf/util/time_util.h>

#include <string>

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

}  // namespace escapement::escctl
