#include <google/protobuf/util/time_util.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/pages.h"
#include "tools/escctl/base/resource_text.h"
#include "tools/escctl/base/timing_flags.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using OccurrenceStub = v1::ScheduleService::Stub;

void PrintPreview(Session& session, const v1::PreviewScheduleResponse& preview) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(preview, session.format()));
  for (const std::string& words : PreviewWords(preview)) session.Say(words);
  session.Print(FormatTable(PreviewHeader(), PreviewRows(preview)));
}

// Backfills one range with as many calls as needed. Holds the answer of all of them together.
struct Backfill {
  v1::BackfillScheduleRequest request;
  v1::BackfillScheduleResponse total;

  void Run(Session& session) {
    for (int calls = 0;; ++calls) {
      v1::BackfillScheduleResponse part;
      const grpc::Status status = session.Call(&OccurrenceStub::BackfillSchedule, request, part);
      if (!status.ok()) {
        if (calls > 0) {
          session.Say(absl::StrCat(
              "escctl: finished the range before ", TimeUtil::ToString(request.start_time()), ": ",
              total.fired_count(), " fired, ", total.present_count(), " present"));
        }
        return session.Fail(status);
      }
      total.set_fired_count(total.fired_count() + part.fired_count());
      total.set_present_count(total.present_count() + part.present_count());
      if (!part.has_next_start_time()) break;
      if (part.next_start_time() <= request.start_time())
        return session.Fail({grpc::StatusCode::INTERNAL, "the server made no progress"});
      *request.mutable_start_time() = part.next_start_time();
    }
    if (session.format() != OutputFormat::kTable)
      return session.Print(FormatMessage(total, session.format()));
    session.Print(FormatTable({"FIRED", "PRESENT"}, {{absl::StrCat(total.fired_count()),
                                                      absl::StrCat(total.present_count())}}));
  }
};

// The results that an account names one by one, after its counts.
constexpr char kNoteworthy[] = "result = UNACCOUNTED OR result = LATE OR result = FAILED";

// Adds up the pages of an account. It keeps at most `limit` of the listed occurrences.
void Account(Session& session, v1::ListOccurrencesRequest request, size_t limit) {
  v1::ListOccurrencesResponse total;
  std::map<v1::Occurrence::Result, int64_t> counts;
  bool more = false;
  const PagesRead read =
      ForEachPage(session, &OccurrenceStub::ListOccurrences, request, kNoLimit,
                  [&](v1::ListOccurrencesResponse& page) {
                    for (v1::Occurrence& occurrence : *page.mutable_occurrences()) {
                      more |= static_cast<size_t>(total.occurrences_size()) >= limit;
                      if (!more) *total.add_occurrences() = std::move(occurrence);
                    }
                    for (const auto& count : page.counts()) counts[count.result()] += count.count();
                    total.set_schedule_count(total.schedule_count() + page.schedule_count());
                    return 0;
                  });
  if (!read.status.ok()) return session.Fail(read.status);
  for (const auto& [result, count] : counts) {
    v1::ListOccurrencesResponse::ResultCount& of_result = *total.add_counts();
    of_result.set_result(result);
    of_result.set_count(count);
  }
  if (session.format() != OutputFormat::kTable) {
    session.Print(FormatMessage(total, session.format()));
  } else {
    std::vector<Row> rows;
    for (const auto& [result, count] : counts)
      rows.push_back({v1::Occurrence::Result_Name(result), absl::StrCat(count)});
    session.Print(FormatTable({"RESULT", "OCCURRENCES"}, rows));
    if (total.occurrences_size() > 0) {
      rows.clear();
      for (const v1::Occurrence& o : total.occurrences()) {
        rows.push_back({o.run(), v1::Occurrence::Result_Name(o.result()),
                        TimeUtil::ToString(o.nominal_time()),
                        o.has_lateness() ? TimeUtil::ToString(o.lateness()) : "-",
                        o.reason().empty() ? "-" : o.reason()});
      }
      session.Print(FormatTable({"RUN", "RESULT", "NOMINAL", "LATENESS", "REASON"}, rows));
    }
  }
  session.Say(absl::StrCat("escctl: ", total.schedule_count(), " schedules"));
  if (more) session.Say("escctl: there are more; raise --limit");
  const int64_t unaccounted = counts[v1::Occurrence::UNACCOUNTED];
  if (unaccounted == 0) return;
  session.Say(absl::StrCat("escctl: ", unaccounted, " occurrences are unaccounted for"));
  session.SetFailed();
}

}  // namespace

void AddPreviewCommand(CLI::App& group, Session& session) {
  struct Options {
    TimingFlags timing;
    std::string from;
    int32_t count = 10;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      group.add_subcommand("preview", "show when a schedule would fire, without creating it");
  o->timing.AddForPreview(*command);
  command->add_option("--from", o->from, "show occurrences after this time; default: now");
  command->add_option("--count,-n", o->count, "number of occurrences to show")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([o, &session] {
    v1::PreviewScheduleRequest request;
    const absl::Time now = absl::Now();
    if (auto status = o->timing.Apply(now, request); !status.ok())
      return session.FailUsage(status.message());
    if (!o->from.empty()) {
      auto from = ParseTimeFlag("--from", o->from, now);
      if (!from.ok()) return session.FailUsage(from.status().message());
      *request.mutable_from_time() = *from;
    }
    request.set_count(o->count);
    if (!request.calendar().empty()) request.set_parent(session.parent());
    v1::PreviewScheduleResponse preview;
    const grpc::Status status = session.Call(&OccurrenceStub::PreviewSchedule, request, preview);
    if (!status.ok()) return session.Fail(status);
    PrintPreview(session, preview);
  });
}

void AddForecastCommand(CLI::App& app, Session& session) {
  struct Options {
    std::string from, length = "24h", near, by, filter;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("forecast", "show how many events schedules will fire in each minute");
  command->add_option("--from", o->from, "first minute: RFC 3339, or +2h; default: now");
  command->add_option("--for", o->length, "length, at most 72h")->capture_default_str();
  command->add_option("--near", o->near,
                      "also show the minutes with the fewest events near this time");
  command->add_option("--by", o->by, "group by: policy, target or label=KEY");
  command->add_option("--filter", o->filter,
                      "only schedules that meet these conditions, as for schedule list");
  command->callback([o, &session] {
    v1::ForecastLoadRequest request;
    request.set_parent(session.parent());
    const absl::Time now = absl::Now();
    for (const auto& [flag, text, time] :
         {std::tuple("--from", &o->from, &v1::ForecastLoadRequest::mutable_start_time),
          std::tuple("--near", &o->near, &v1::ForecastLoadRequest::mutable_near_time)}) {
      if (text->empty()) continue;
      const auto read = ParseTimeFlag(flag, *text, now);
      if (!read.ok()) return session.FailUsage(read.status().message());
      *(request.*time)() = *read;
    }
    const auto length = ParseDurationFlag("--for", o->length);
    if (!length.ok()) return session.FailUsage(length.status().message());
    *request.mutable_duration() = *length;
    absl::string_view key = o->by;
    request.set_group_by(absl::ConsumePrefix(&key, "label=") ? absl::StrCat("labels.", key)
                                                             : o->by);
    request.set_filter(o->filter);
    v1::ForecastLoadResponse forecast;
    const grpc::Status status = session.Call(&OccurrenceStub::ForecastLoad, request, forecast);
    if (!status.ok()) return session.Fail(status);
    if (session.format() != OutputFormat::kTable)
      return session.Print(FormatMessage(forecast, session.format()));
    session.Say(ForecastWords(forecast));
    session.Print(ForecastTables(forecast));
  });
}

void AddBackfillCommand(CLI::App& group, Session& session) {
  struct Options {
    std::string name, from, to;
    int32_t at_once = 0;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("backfill", "fire past occurrences that have not fired");
  command->add_option("name", o->name, "id or full name")->required();
  command->add_option("--from", o->from, "begin of the range: RFC 3339, or --from=-24h")
      ->required();
  command->add_option("--to", o->to, "end of the range, exclusive; at most now")->required();
  command->add_option("--at-once", o->at_once, "occurrences that one call handles")
      ->check(CLI::PositiveNumber);
  auto dry = AddValidateOnly(*command);
  command->callback([o, dry, &session] {
    const absl::Time now = absl::Now();
    const auto from = ParseTimeFlag("--from", o->from, now);
    if (!from.ok()) return session.FailUsage(from.status().message());
    const auto to = ParseTimeFlag("--to", o->to, now);
    if (!to.ok()) return session.FailUsage(to.status().message());
    Backfill backfill;
    backfill.request.set_name(session.FullName("schedules", o->name));
    *backfill.request.mutable_start_time() = *from;
    *backfill.request.mutable_end_time() = *to;
    backfill.request.set_max_occurrences(o->at_once);
    backfill.request.set_validate_only(*dry);
    backfill.Run(session);
  });
}

void AddAccountCommands(CLI::App& app, CLI::App& group, Session& session) {
  struct Options {
    std::string name, from, to;
    std::string filter = kNoteworthy;
    size_t limit = 100;
    bool all = false;
    int hours = 24;
  };
  auto o = std::make_shared<Options>();
  const auto add_shown = [&](CLI::App& command) {
    command.add_option("--filter", o->filter, "the occurrences to show after the counts")
        ->capture_default_str();
    command.add_option("--limit", o->limit, "most of them to show")->capture_default_str();
  };
  CLI::App* one = group.add_subcommand(
      "account", "account for every occurrence of a schedule; fail if any is unaccounted for");
  one->add_option("name", o->name, "id or full name")->required();
  one->add_option("--from", o->from, "begin of the range: RFC 3339, or --from=-24h, the default");
  one->add_option("--to", o->to, "end of the range, exclusive; default: now");
  add_shown(*one);
  one->callback([o, &session] {
    v1::ListOccurrencesRequest request;
    const absl::Time now = absl::Now();
    const auto from = ParseTimeFlag("--from", o->from.empty() ? "-24h" : o->from, now);
    if (!from.ok()) return session.FailUsage(from.status().message());
    const auto to = ParseTimeFlag("--to", o->to.empty() ? "now" : o->to, now);
    if (!to.ok()) return session.FailUsage(to.status().message());
    request.set_parent(session.FullName("schedules", o->name));
    *request.mutable_start_time() = *from;
    *request.mutable_end_time() = *to;
    request.set_filter(o->filter);
    Account(session, std::move(request), o->limit);
  });
  CLI::App* every = app.add_subcommand(
      "account", "account for every occurrence of all schedules; fail if any is unaccounted for");
  every->add_flag("--all", o->all, "all schedules of the tenant")->required();
  every->add_option("--hours", o->hours, "the last so many hours")
      ->check(CLI::Range(1, 744))
      ->capture_default_str();
  add_shown(*every);
  every->callback([o, &session] {
    v1::ListOccurrencesRequest request;
    const absl::Time now = absl::Now();
    const auto from = ParseTimeFlag("--hours", absl::StrCat("-", o->hours, "h"), now);
    if (!from.ok()) return session.FailUsage(from.status().message());
    request.set_parent(session.FullName("schedules", "-"));
    *request.mutable_start_time() = *from;
    *request.mutable_end_time() = TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(now));
    request.set_filter(o->filter);
    Account(session, std::move(request), o->limit);
  });
}

}  // namespace escapement::escctl
