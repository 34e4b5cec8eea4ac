// `escctl why`.

#include <google/protobuf/util/time_util.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;

template <typename Gates>
void PrintGates(Session& session, const Gates& gates) {
  std::vector<Row> rows;
  std::vector<Row> holders;
  for (const v1::Gate& gate : gates) {
    rows.push_back({v1::Gate::Kind_Name(gate.kind()), gate.detail(), gate.opens()});
    for (const v1::Gate::Holder& holder : gate.holders()) {
      holders.push_back({holder.event(), TimeUtil::ToString(holder.age()),
                         absl::StrCat(holder.weight()), gate.subject()});
    }
  }
  if (!rows.empty()) session.Print(FormatTable({"GATE", "DETAIL", "OPENS"}, rows));
  if (!holders.empty())
    session.Print(FormatTable({"HOLDS ITS TOKEN", "FOR", "WEIGHT", "OF"}, holders));
}

void PrintEventReasons(Session& session, const v1::EventExplanation& answer) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(answer, session.format()));
  session.Say(answer.summary());
  PrintGates(session, answer.gates());
  std::vector<Row> rows;
  for (const v1::Phase& phase : answer.phases()) {
    rows.push_back({v1::Phase::Kind_Name(phase.kind()), TimeUtil::ToString(phase.start_time()),
                    phase.detail()});
  }
  if (!rows.empty()) session.Print(FormatTable({"PART", "FROM", "TOOK"}, rows));
}

void PrintScheduleReasons(Session& session, const v1::ScheduleExplanation& answer) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(answer, session.format()));
  session.Say(answer.summary());
  PrintGates(session, answer.gates());
  session.Print(FormatTable(
      {"NEXT", "PARTITION", "EMITTER", "EMITTED TO", "TIME ZONE", "TZDATA"},
      {{answer.has_next_time() ? TimeUtil::ToString(answer.next_time()) : "-",
        absl::StrCat(answer.partition()), answer.emitter().empty() ? "-" : answer.emitter(),
        answer.has_emitted_to_time() ? TimeUtil::ToString(answer.emitted_to_time()) : "-",
        answer.time_zone(), answer.tz_version()}}));
  std::vector<Row> rows;
  for (const v1::PreviewScheduleResponse::Child& child : answer.children()) {
    rows.push_back({child.launch_expression().empty() ? "-" : child.launch_expression(),
                    child.class_(), child.hour().empty() ? "-" : child.hour(),
                    child.minute().empty() ? "-" : child.minute()});
  }
  if (!rows.empty())
    session.Print(FormatTable({"LAUNCH EXPRESSION", "CLASS", "HOUR", "MINUTE"}, rows));
}

grpc::Status ExplainEvent(Session& session, const std::string& name) {
  v1::ExplainEventRequest request;
  request.set_name(name);
  v1::EventExplanation answer;
  const grpc::Status status = session.Call(&v1::EventService::Stub::ExplainEvent, request, answer);
  if (status.ok()) PrintEventReasons(session, answer);
  return status;
}

grpc::Status ExplainSchedule(Session& session, const std::string& name) {
  v1::ExplainScheduleRequest request;
  request.set_name(name);
  v1::ScheduleExplanation answer;
  const grpc::Status status =
      session.Call(&v1::ScheduleService::Stub::ExplainSchedule, request, answer);
  if (status.ok()) PrintScheduleReasons(session, answer);
  return status;
}

grpc::Status Explain(Session& session, const std::string& name) {
  if (absl::StrContains(name, "/runs/")) {
    const std::string full = session.FullName("schedules", name);
    return ExplainEvent(
        session, absl::StrContains(full, "/events/") ? full : absl::StrCat(full, "/events/0"));
  }
  if (absl::StrContains(name, "/events/")) return ExplainEvent(session, name);
  if (absl::StrContains(name, "/schedules/")) return ExplainSchedule(session, name);
  const grpc::Status schedule = ExplainSchedule(session, session.FullName("schedules", name));
  const bool is_none = schedule.error_code() == grpc::StatusCode::NOT_FOUND ||
                       schedule.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
  if (!is_none) return schedule;
  const grpc::Status event = ExplainEvent(session, session.FullName("events", name));
  if (event.error_code() != grpc::StatusCode::NOT_FOUND) return event;
  return {grpc::StatusCode::NOT_FOUND,
          absl::StrCat("there is no schedule and no event \"", name, "\"")};
}

}  // namespace

void AddWhyCommand(CLI::App& app, Session& session) {
  CLI::App* why = app.add_subcommand(
      "why",
      "show why an event waits or where its time went, or when and why a schedule fires next");
  auto name = std::make_shared<std::string>();
  why->add_option("name", *name,
                  "id or full name of a schedule or event; {schedule}/runs/{occurrence} for the "
                  "first event of a run, with /events/{index} for another one")
      ->required();
  why->callback([name, &session] {
    const grpc::Status status = Explain(session, *name);
    if (!status.ok()) session.Fail(status);
  });
}

}  // namespace escapement::escctl
