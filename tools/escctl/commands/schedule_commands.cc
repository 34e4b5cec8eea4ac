#include <google/protobuf/util/time_util.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/rest/json_bytes.h"
#include "escapement/v1/run_service.grpc.pb.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/resource_text.h"
#include "tools/escctl/base/target_flags.h"
#include "tools/escctl/base/timing_flags.h"
#include "tools/escctl/base/watch.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using ScheduleStub = v1::ScheduleService::Stub;

std::string ScheduleTime(bool has, const google::protobuf::Timestamp& time) {
  return has ? TimeUtil::ToString(time) : "-";
}

Row ScheduleRow(const v1::Schedule& s) {
  return {s.name(),
          v1::Schedule::State_Name(s.state()),
          WhenOf(s),
          s.time_zone(),
          absl::StrCat(s.event_count()),
          ScheduleTime(s.has_next_time(), s.next_time()),
          absl::StrCat(s.succeeded_count()),
          absl::StrCat(s.failed_count()),
          ScheduleTime(s.has_last_time(), s.last_time()),
          s.last_outcome() == v1::OUTCOME_UNSPECIFIED ? "-" : v1::Outcome_Name(s.last_outcome()),
          absl::StrCat(s.version())};
}

const Row& ScheduleHeader() {
  static const Row header = {"NAME",      "STATE",  "WHEN", "ZONE",    "N",      "NEXT",
                             "SUCCEEDED", "FAILED", "LAST", "OUTCOME", "VERSION"};
  return header;
}

void PrintOrFail(Session& session, const grpc::Status& status, const v1::Schedule& schedule) {
  if (!status.ok()) return session.Fail(status);
  for (const std::string& warning : schedule.warnings())
    session.Say(absl::StrCat("warning: ", warning));
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(schedule, session.format()));
  session.Print(FormatTable(ScheduleHeader(), {ScheduleRow(schedule)}));
}

// Flags of create and update. Flags override the file.
struct Definition {
  std::string file;
  std::string display_name;
  int64_t event_count = 0;
  std::vector<std::string> labels;
  TimingFlags timing;
  TargetFlags target;
  ThrottleFlags throttle;

  void Add(CLI::App& command) {
    command.add_option("-f,--file", file, "file with the schedule in JSON; - = stdin");
    command.add_option("--event-count,-n", event_count, "events that each occurrence fires")
        ->check(CLI::PositiveNumber);
    command.add_option("--display-name", display_name, "text for people");
    command.add_option("--label", labels, "key=value; may be repeated")->allow_extra_args(false);
    timing.Add(command);
    target.Add(command);
    target.AddRetryKeep(command);
    throttle.Add(command);
  }

  absl::Status Apply(const Session& session, v1::Schedule& schedule,
                     std::vector<std::string>& fields) const {
    if (!file.empty()) {
      ASSIGN_OR_RETURN(auto text, TextOrFile(absl::StrCat("@", file == "-" ? "/dev/stdin" : file)));
      if (const absl::Status parsed = rest::MessageFromJson(text, schedule); !parsed.ok())
        return absl::InvalidArgumentError(absl::StrCat(file, ": ", parsed.message()));
    }
    if (!display_name.empty()) {
      schedule.set_display_name(display_name);
      fields.push_back("display_name");
    }
    RETURN_IF_ERROR(timing.Apply(absl::Now(), schedule, fields));
    if (event_count > 0) {
      schedule.set_event_count(event_count);
      fields.push_back("event_count");
    }
    if (!labels.empty()) {
      ASSIGN_OR_RETURN(auto pairs, ParsePairs("--label", labels));
      for (const auto& [key, value] : pairs) (*schedule.mutable_labels())[key] = value;
      fields.push_back("labels");
    }
    const auto policy_name = [&session](const std::string& policy) {
      return session.FullName("policies", policy);
    };
    RETURN_IF_ERROR(throttle.Apply(policy_name, schedule, fields));
    return target.Apply(schedule, fields);
  }
};

void AddScheduleCreate(CLI::App& group, Session& session) {
  struct Options {
    Definition definition;
    std::string id;
    std::string request_id;
    bool validate_only = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("create", "create a schedule");
  command->add_option("id", o->id, "last part of its name; the server makes one if it is missing");
  AddRequestId(*command, o->request_id);
  command->add_flag("--validate-only", o->validate_only, "check, but create nothing");
  o->definition.Add(*command);
  command->callback([o, &session] {
    v1::CreateScheduleRequest request;
    std::vector<std::string> fields;
    if (auto status = o->definition.Apply(session, *request.mutable_schedule(), fields);
        !status.ok()) {
      return session.FailUsage(status.message());
    }
    const v1::Schedule& made = request.schedule();
    if (auto status = CheckPayload(made.payload(), made.content_type()); !status.ok())
      return session.FailUsage(status.message());
    request.set_parent(session.parent());
    request.set_schedule_id(o->id);
    request.set_request_id(o->request_id);
    request.set_validate_only(o->validate_only);
    v1::Schedule schedule;
    PrintOrFail(session, session.Call(&ScheduleStub::CreateSchedule, request, schedule), schedule);
  });
}

void AddScheduleUpdate(CLI::App& group, Session& session) {
  struct Options {
    Definition definition;
    std::string name;
    std::string etag;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("update", "change the given fields");
  command->add_option("name", o->name, "id or full name")->required();
  command->add_option("--etag", o->etag, "change it only if this is its current etag");
  o->definition.Add(*command);
  command->callback([o, &session] {
    v1::UpdateScheduleRequest request;
    std::vector<std::string> fields;
    if (auto status = o->definition.Apply(session, *request.mutable_schedule(), fields);
        !status.ok()) {
      return session.FailUsage(status.message());
    }
    // A file replaces every field that can change: it needs no mask.
    if (o->definition.file.empty()) {
      if (fields.empty()) return session.FailUsage("give at least one flag that changes something");
      for (const std::string& field : fields) request.mutable_update_mask()->add_paths(field);
    }
    request.mutable_schedule()->set_name(session.FullName("schedules", o->name));
    if (!o->etag.empty()) request.mutable_schedule()->set_etag(o->etag);
    v1::Schedule schedule;
    PrintOrFail(session, session.Call(&ScheduleStub::UpdateSchedule, request, schedule), schedule);
  });
}

grpc::Status GetSchedule(Session& session, const std::string& name, v1::Schedule& schedule) {
  v1::GetScheduleRequest request;
  request.set_name(session.FullName("schedules", name));
  return session.Call(&ScheduleStub::GetSchedule, request, schedule);
}

void AddScheduleGetAndList(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto get_watch = std::make_shared<WatchFlags>();
  CLI::App* get = group.add_subcommand("get", "show one schedule");
  get->add_option("name", *name, "id or full name")->required();
  get_watch->Add(*get);
  get->callback([name, get_watch, &session] {
    if (get_watch->wanted()) {
      return get_watch->Run(session, ScheduleHeader(), [&] {
        std::vector<v1::Schedule> schedule(1);
        grpc::Status status = GetSchedule(session, *name, schedule[0]);
        return Reading::Of(std::move(status), std::move(schedule), ScheduleRow);
      });
    }
    v1::Schedule schedule;
    PrintOrFail(session, GetSchedule(session, *name, schedule), schedule);
  });

  auto flags = std::make_shared<ListFlags>();
  CLI::App* list = group.add_subcommand("list", "show the schedules of the tenant");
  flags->Add(
      *list, "schedules",
      "name, display_name, labels.KEY, state, time_zone, policy, calendar, target, create_time, "
      "update_time and next_time",
      "name (default) or \"name desc\"");
  list->callback([flags, &session] {
    flags->Run(
        session, ScheduleHeader(), &ScheduleStub::ListSchedules, v1::ListSchedulesRequest(),
        [](auto& page) { return page.mutable_schedules(); }, ScheduleRow);
  });
}

void AddScheduleVersions(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  CLI::App* command =
      group.add_subcommand("versions", "show when its versions were made, and what each changed");
  command->add_option("name", *name, "id or full name")->required();
  command->callback([name, &session] {
    v1::ListScheduleVersionsRequest request;
    request.set_parent(session.FullName("schedules", *name));
    v1::ListScheduleVersionsResponse response;
    const auto status = session.Call(&ScheduleStub::ListScheduleVersions, request, response);
    if (!status.ok()) return session.Fail(status);
    if (session.format() != OutputFormat::kTable)
      return session.Print(FormatMessage(response, session.format()));
    std::vector<Row> rows;
    for (const v1::ScheduleVersion& version : response.versions()) {
      rows.push_back(
          {absl::StrCat(version.version()), TimeUtil::ToString(version.create_time()),
           version.changed_fields().empty() ? "-" : absl::StrJoin(version.changed_fields(), ", ")});
    }
    session.Print(FormatTable({"VERSION", "MADE", "CHANGED"}, rows));
  });
}

void AddScheduleDelete(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto etag = std::make_shared<std::string>();
  CLI::App* command = group.add_subcommand("delete", "delete a schedule");
  command->add_option("name", *name, "id or full name")->required();
  command->add_option("--etag", *etag, "change it only if this is its current etag");
  auto dry = AddValidateOnly(*command);
  command->callback([name, etag, dry, &session] {
    v1::DeleteScheduleRequest request;
    request.set_name(session.FullName("schedules", *name));
    request.set_etag(*etag);
    request.set_validate_only(*dry);
    google::protobuf::Empty nothing;
    const auto status = session.Call(&ScheduleStub::DeleteSchedule, request, nothing);
    if (!status.ok()) return session.Fail(status);
    session.Say(absl::StrCat(*dry ? "can be deleted: " : "deleted ", request.name()));
  });
}

void AddSchedulePauseAndResume(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto reason = std::make_shared<std::string>();
  CLI::App* pause = group.add_subcommand("pause", "stop it until it is resumed");
  pause->add_option("name", *name, "id or full name")->required();
  pause->add_option("--reason", *reason, "why it is paused, for people");
  auto dry = AddValidateOnly(*pause);
  pause->callback([name, reason, dry, &session] {
    v1::PauseScheduleRequest request;
    request.set_validate_only(*dry);
    request.set_name(session.FullName("schedules", *name));
    request.set_reason(*reason);
    v1::Schedule schedule;
    PrintOrFail(session, session.Call(&ScheduleStub::PauseSchedule, request, schedule), schedule);
  });
  CLI::App* resume = group.add_subcommand("resume", "let it fire again");
  resume->add_option("name", *name, "id or full name")->required();
  auto dry_resume = AddValidateOnly(*resume);
  resume->callback([name, dry_resume, &session] {
    v1::ResumeScheduleRequest request;
    request.set_validate_only(*dry_resume);
    request.set_name(session.FullName("schedules", *name));
    v1::Schedule schedule;
    PrintOrFail(session, session.Call(&ScheduleStub::ResumeSchedule, request, schedule), schedule);
  });
}

void AddTrigger(CLI::App& group, Session& session) {
  struct Options {
    std::string name;
    std::string request_id;
    int64_t event_count = 0;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("trigger", "fire once now, even while it is paused");
  command->add_option("name", o->name, "id or full name")->required();
  command
      ->add_option("--event-count,-n", o->event_count, "number of events; default: the schedule's")
      ->check(CLI::PositiveNumber);
  AddRequestId(*command, o->request_id);
  auto dry = AddValidateOnly(*command);
  command->callback([o, dry, &session] {
    v1::TriggerScheduleRequest request;
    request.set_validate_only(*dry);
    request.set_name(session.FullName("schedules", o->name));
    request.set_event_count(o->event_count);
    request.set_request_id(o->request_id);
    v1::Run run;
    const auto status = session.Call(&ScheduleStub::TriggerSchedule, request, run);
    if (!status.ok()) return session.Fail(status);
    if (session.format() != OutputFormat::kTable)
      return session.Print(FormatMessage(run, session.format()));
    session.Print(FormatTable({"RUN", "N"}, {{run.name(), absl::StrCat(run.event_count())}}));
  });
}

}  // namespace

void AddScheduleCommands(CLI::App& app, Session& session) {
  CLI::App* group =
      app.add_subcommand("schedule", "schedules: when events fire, how many, and where they go");
  group->require_subcommand(1);
  group->fallthrough();
  AddScheduleCreate(*group, session);
  AddScheduleUpdate(*group, session);
  AddScheduleGetAndList(*group, session);
  AddScheduleVersions(*group, session);
  AddScheduleDelete(*group, session);
  AddSchedulePauseAndResume(*group, session);
  AddTrigger(*group, session);
  AddPreviewCommand(*group, session);
  AddBackfillCommand(*group, session);
  AddAccountCommands(app, *group, session);
}

}  // namespace escapement::escctl
