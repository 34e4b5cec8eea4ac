#include <google/protobuf/util/time_util.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/rest/json_bytes.h"
#include "escapement/v1/calendar_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/pages.h"
#include "tools/escctl/base/watch.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using CalendarStub = v1::CalendarService::Stub;

// Rows of moves that a table shows; -o json has all of the answer.
constexpr int kMovesShown = 20;

std::string Count(int64_t value) { return value == 0 ? "-" : absl::StrCat(value); }

// Names without the tenant, which is the session's.
std::string OthersOf(const v1::Calendar& calendar) {
  std::vector<std::string> ids;
  for (const std::string& name : calendar.calendars())
    ids.push_back(name.substr(name.rfind('/') + 1));
  return ids.empty() ? "-" : absl::StrJoin(ids, " ");
}

Row CalendarRow(const v1::Calendar& c) {
  return {c.name(),
          Count(c.dates_size()),
          c.rules().empty() ? "-" : absl::StrJoin(c.rules(), "; "),
          OthersOf(c),
          Count(c.except_dates_size()),
          absl::StrCat(c.version())};
}

const Row& CalendarHeader() {
  static const Row header = {"NAME", "DATES", "RULES", "CALENDARS", "EXCEPT", "VERSION"};
  return header;
}

void PrintCalendar(Session& session, const v1::Calendar& calendar) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(calendar, session.format()));
  session.Print(FormatTable(CalendarHeader(), {CalendarRow(calendar)}));
}

void PrintUpdate(Session& session, const v1::UpdateCalendarResponse& response) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(response, session.format()));
  session.Print(FormatTable(CalendarHeader(), {CalendarRow(response.calendar())}));
  std::vector<Row> rows;
  for (const auto& move : response.moves()) {
    if (rows.size() == kMovesShown) break;
    rows.push_back({move.schedule().substr(move.schedule().rfind('/') + 1),
                    move.has_from_time() ? TimeUtil::ToString(move.from_time()) : "-",
                    move.has_to_time() ? TimeUtil::ToString(move.to_time()) : "-"});
  }
  if (!rows.empty()) {
    session.Print("\n");
    session.Print(FormatTable({"SCHEDULE", "FROM", "TO"}, rows));
  }
  std::string words =
      absl::StrCat("escctl: ", response.schedule_count(), " schedules get other days; ",
                   response.more() ? "more than " : "", response.moves_size(),
                   " occurrences of the next 366 days move");
  if (response.moves_size() > kMovesShown) absl::StrAppend(&words, "; -o json has them");
  session.Say(words);
}

// Flags of create and update. Flags override the file; "" removes the values of a list.
class CalendarFlags {
 public:
  void Add(CLI::App& command) {
    command.add_option("-f,--file", file_, "file with the calendar in JSON; - = stdin");
    AddList(command, "--date", dates_, "a day such as 2026-12-25");
    AddList(command, "--rule", rules_,
            "days as \"day-of-month month day-of-week\", such as '* * SAT,SUN'");
    AddList(command, "--add", calendars_, "another calendar whose days belong to this one");
    AddList(command, "--except-date", except_dates_,
            "a day that does not belong to it whatever else says so");
    command.add_option("--ics", ics_, "iCalendar file whose days are added to the dates");
    command.add_option("--display-name", display_name_, "text for people");
  }
  bool from_file() const { return !file_.empty(); }

  absl::Status Apply(v1::Calendar& calendar, std::vector<std::string>& fields) const {
    if (!file_.empty()) {
      ASSIGN_OR_RETURN(auto text,
                       TextOrFile(absl::StrCat("@", file_ == "-" ? "/dev/stdin" : file_)));
      if (const absl::Status parsed = rest::MessageFromJson(text, calendar); !parsed.ok())
        return absl::InvalidArgumentError(absl::StrCat(file_, ": ", parsed.message()));
    }
    Set(dates_, "dates", *calendar.mutable_dates(), fields);
    Set(rules_, "rules", *calendar.mutable_rules(), fields);
    Set(calendars_, "calendars", *calendar.mutable_calendars(), fields);
    Set(except_dates_, "except_dates", *calendar.mutable_except_dates(), fields);
    if (display_name_.has_value()) {
      calendar.set_display_name(*display_name_);
      fields.push_back("display_name");
    }
    if (ics_.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(*calendar.mutable_ics(), TextOrFile(absl::StrCat("@", ics_)));
    if (calendar.ics().empty()) return absl::InvalidArgumentError(absl::StrCat(ics_, " is empty"));
    fields.push_back("ics");
    return absl::OkStatus();
  }

 private:
  using Texts = std::vector<std::string>;

  static void AddList(CLI::App& command, const std::string& flag, Texts& texts,
                      const std::string& what) {
    command.add_option(flag, texts, absl::StrCat(what, "; may be repeated; \"\" for none"))
        ->allow_extra_args(false);
  }

  static void Set(const Texts& texts, const char* field,
                  google::protobuf::RepeatedPtrField<std::string>& values, Texts& fields) {
    if (texts.empty()) return;
    values.Clear();
    for (const std::string& text : texts) {
      if (texts.size() > 1 || !text.empty()) *values.Add() = text;
    }
    fields.push_back(field);
  }

  std::string file_;
  Texts dates_, rules_, calendars_, except_dates_;
  std::string ics_;
  std::optional<std::string> display_name_;
};

void AddCalendarCreate(CLI::App& group, Session& session) {
  struct Options {
    CalendarFlags flags;
    std::string id;
    std::string request_id;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("create", "create a calendar");
  command->add_option("id", o->id, "last part of its name; the server makes one if it is missing");
  AddRequestId(*command, o->request_id);
  auto dry = AddValidateOnly(*command);
  o->flags.Add(*command);
  command->callback([o, dry, &session] {
    v1::CreateCalendarRequest request;
    std::vector<std::string> fields;
    auto status = o->flags.Apply(*request.mutable_calendar(), fields);
    if (!status.ok()) return session.FailUsage(status.message());
    request.set_parent(session.parent());
    request.set_calendar_id(o->id);
    request.set_request_id(o->request_id);
    request.set_validate_only(*dry);
    v1::Calendar calendar;
    if (auto failed = session.Call(&CalendarStub::CreateCalendar, request, calendar); !failed.ok())
      return session.Fail(failed);
    PrintCalendar(session, calendar);
  });
}

void AddCalendarUpdate(CLI::App& group, Session& session) {
  struct Options {
    CalendarFlags flags;
    std::string name;
    std::string etag;
    std::string request_id;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand(
      "update", "change the given fields, and the schedules that name it; shows what moves");
  command->add_option("name", o->name, "id or full name")->required();
  command->add_option("--etag", o->etag, "change it only if this is its current etag");
  AddRequestId(*command, o->request_id);
  auto dry = AddValidateOnly(*command);
  o->flags.Add(*command);
  command->callback([o, dry, &session] {
    v1::UpdateCalendarRequest request;
    std::vector<std::string> fields;
    auto status = o->flags.Apply(*request.mutable_calendar(), fields);
    if (!status.ok()) return session.FailUsage(status.message());
    // A file replaces every field that can change.
    if (o->flags.from_file()) {
      request.mutable_update_mask()->add_paths("*");
    } else {
      if (fields.empty()) return session.FailUsage("give at least one flag that changes something");
      for (const std::string& field : fields) request.mutable_update_mask()->add_paths(field);
    }
    request.mutable_calendar()->set_name(session.FullName("calendars", o->name));
    if (!o->etag.empty()) request.mutable_calendar()->set_etag(o->etag);
    request.set_request_id(o->request_id);
    request.set_validate_only(*dry);
    v1::UpdateCalendarResponse response;
    if (auto failed = session.Call(&CalendarStub::UpdateCalendar, request, response); !failed.ok())
      return session.Fail(failed);
    PrintUpdate(session, response);
  });
}

void AddCalendarGetAndList(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  CLI::App* get = group.add_subcommand("get", "show one calendar, its next days and its schedules");
  get->add_option("name", *name, "id or full name")->required();
  get->callback([name, &session] {
    v1::GetCalendarRequest request;
    request.set_name(session.FullName("calendars", *name));
    v1::Calendar calendar;
    if (auto failed = session.Call(&CalendarStub::GetCalendar, request, calendar); !failed.ok())
      return session.Fail(failed);
    PrintCalendar(session, calendar);
    if (session.format() != OutputFormat::kTable) return;
    if (!calendar.next_days().empty()) {
      session.Print(absl::StrCat("\nnext days: ", absl::StrJoin(calendar.next_days(), " "), "\n"));
    }
    session.Print(absl::StrCat(
        "schedules: ", calendar.schedule_count(),
        calendar.outdated_schedule_count() == 0
            ? "\n"
            : absl::StrCat(", ", calendar.outdated_schedule_count(), " with former days\n")));
  });

  auto flags = std::make_shared<ListFlags>();
  CLI::App* list = group.add_subcommand("list", "show the calendars of the tenant");
  flags->Add(*list, "calendars", "", "");
  list->callback([flags, &session] {
    flags->Run(
        session, CalendarHeader(), &CalendarStub::ListCalendars, v1::ListCalendarsRequest(),
        [](auto& page) { return page.mutable_calendars(); }, CalendarRow);
  });
}

void AddCalendarDelete(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto etag = std::make_shared<std::string>();
  CLI::App* command =
      group.add_subcommand("delete", "delete a calendar that no schedule and no calendar names");
  command->add_option("name", *name, "id or full name")->required();
  command->add_option("--etag", *etag, "delete it only if this is its current etag");
  auto dry = AddValidateOnly(*command);
  command->callback([name, etag, dry, &session] {
    v1::DeleteCalendarRequest request;
    request.set_name(session.FullName("calendars", *name));
    request.set_etag(*etag);
    request.set_validate_only(*dry);
    google::protobuf::Empty nothing;
    const auto status = session.Call(&CalendarStub::DeleteCalendar, request, nothing);
    if (!status.ok()) return session.Fail(status);
    session.Say(absl::StrCat(*dry ? "can be deleted: " : "deleted ", request.name()));
  });
}

}  // namespace

void AddCalendarCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand(
      "calendar", "calendars: named days, such as holidays, on which schedules do not fire");
  group->require_subcommand(1);
  group->fallthrough();
  AddCalendarCreate(*group, session);
  AddCalendarGetAndList(*group, session);
  AddCalendarUpdate(*group, session);
  AddCalendarDelete(*group, session);
}

}  // namespace escapement::escctl
