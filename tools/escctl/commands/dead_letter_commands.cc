// `escctl deadletter`, and `escctl run redrive`.

#include <google/protobuf/util/time_util.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "escapement/v1/dead_letter_service.grpc.pb.h"
#include "escapement/v1/operation_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/resource_text.h"
#include "tools/escctl/base/watch.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {

namespace {

using google::protobuf::util::TimeUtil;
using DeadLetterStub = v1::DeadLetterService::Stub;

constexpr char kFilterHelp[] =
    "which dead letters: conditions on schedule, policy, event, event_id, reason, error and "
    "create_time, joined by AND, OR, NOT";

struct Options {
  std::string name;
  std::string filter;
  std::string request_id;
  double max_per_second = 0;
  bool all = false;
  bool force = false;
};

Row DeadLetterRow(const v1::DeadLetter& letter) {
  return {letter.name(),
          letter.event(),
          TimeUtil::ToString(letter.create_time()),
          absl::StrCat(letter.attempts()),
          absl::StrCat(letter.redrive_count()),
          letter.policy().empty() ? "-" : letter.policy(),
          letter.reason()};
}

const Row& DeadLetterHeader() {
  static const Row header = {"DEAD LETTER", "EVENT",  "FAILED", "ATTEMPTS",
                             "REDRIVES",    "POLICY", "REASON"};
  return header;
}

void AddRate(CLI::App& command, double& max_per_second) {
  command
      .add_option("--max-per-second", max_per_second,
                  "events per second; default: as fast as possible")
      ->check(CLI::PositiveNumber);
}

void Get(Session& session, const std::string& name) {
  v1::GetDeadLetterRequest request;
  request.set_name(session.FullName("deadLetters", name));
  v1::DeadLetter letter;
  const auto status = session.Call(&DeadLetterStub::GetDeadLetter, request, letter);
  if (!status.ok()) return session.Fail(status);
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(letter, session.format()));
  session.Print(FormatTable(DeadLetterHeader(), {DeadLetterRow(letter)}));
}

void RedriveOne(Session& session, const Options& o, bool validate_only) {
  v1::RedriveDeadLetterRequest request;
  request.set_name(session.FullName("deadLetters", o.name));
  request.set_request_id(o.request_id);
  request.set_validate_only(validate_only);
  v1::Event event;
  const auto status = session.Call(&DeadLetterStub::RedriveDeadLetter, request, event);
  if (!status.ok()) return session.Fail(status);
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(event, session.format()));
  session.Print(
      FormatTable({"EVENT", "ID", "STATE", "ATTEMPTS", "REDRIVES"},
                  {{event.name(), event.event_id(), v1::EventState_Name(event.state()),
                    absl::StrCat(event.attempts()), absl::StrCat(event.redrive_count())}}));
}

void RedriveMany(Session& session, const Options& o, bool validate_only) {
  v1::RedriveDeadLettersRequest request;
  request.set_parent(session.parent());
  request.set_filter(o.filter);
  request.set_max_per_second(o.max_per_second);
  request.set_request_id(o.request_id);
  request.set_validate_only(validate_only);
  v1::Operation operation;
  const auto status = session.Call(&DeadLetterStub::RedriveDeadLetters, request, operation);
  if (!status.ok()) return session.Fail(status);
  PrintOperation(session, operation);
}

void RedriveRun(Session& session, const Options& o, bool validate_only) {
  v1::RedriveRunRequest request;
  request.set_name(session.FullName("schedules", o.name));
  request.set_max_per_second(o.max_per_second);
  request.set_request_id(o.request_id);
  request.set_validate_only(validate_only);
  v1::Operation operation;
  const auto status = session.Call(&DeadLetterStub::RedriveRun, request, operation);
  if (!status.ok()) return session.Fail(status);
  PrintOperation(session, operation);
}

void Purge(Session& session, const Options& o) {
  v1::PurgeDeadLettersRequest request;
  request.set_parent(session.parent());
  request.set_filter(o.filter);
  request.set_force(o.force);
  request.set_request_id(o.request_id);
  v1::PurgeDeadLettersResponse response;
  const auto status = session.Call(&DeadLetterStub::PurgeDeadLetters, request, response);
  if (!status.ok()) return session.Fail(status);
  if (o.force) return PrintOperation(session, response.operation());
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(response, session.format()));
  std::vector<Row> rows;
  for (const std::string& name : response.purge_sample()) rows.push_back({name});
  session.Print(FormatTable({"DEAD LETTER"}, rows));
  session.Say(absl::StrCat("escctl: ", response.purge_count(), response.more() ? " or more" : "",
                           " dead letters match; --force deletes them"));
}

void AddRedrive(CLI::App& group, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* redrive = group.add_subcommand(
      "redrive", "send failed events again: one by name, or many by --filter or --all");
  CLI::Option* name = redrive->add_option("name", o->name, "id or full name of one dead letter");
  CLI::Option* filter = redrive->add_option("--filter", o->filter, kFilterHelp)->excludes(name);
  redrive->add_flag("--all", o->all, "all dead letters of the tenant")
      ->excludes(name)
      ->excludes(filter);
  AddRate(*redrive, o->max_per_second);
  AddRequestId(*redrive, o->request_id);
  auto dry = AddValidateOnly(*redrive);
  redrive->callback([o, dry, &session] {
    if (!o->name.empty()) return RedriveOne(session, *o, *dry);
    if (o->filter.empty() && !o->all)
      throw CLI::ValidationError("deadletter redrive", "needs a name, --filter or --all");
    RedriveMany(session, *o, *dry);
  });
}

void AddRedriveRun(CLI::App& app, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* redrive =
      app.get_subcommand("run")->add_subcommand("redrive", "send the failed events of a run again");
  redrive->add_option("name", o->name, "full name, or {schedule}/runs/{occurrence}")->required();
  AddRate(*redrive, o->max_per_second);
  AddRequestId(*redrive, o->request_id);
  auto dry = AddValidateOnly(*redrive);
  redrive->callback([o, dry, &session] { RedriveRun(session, *o, *dry); });
}

void PrintGroups(Session& session, const v1::ListDeadLetterGroupsResponse& response) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(response, session.format()));
  std::vector<Row> rows;
  for (const v1::DeadLetterGroup& group : response.groups()) {
    rows.push_back({absl::StrCat(group.count()), group.schedule().empty() ? "-" : group.schedule(),
                    TimeUtil::ToString(group.first_time()), TimeUtil::ToString(group.last_time()),
                    group.error()});
  }
  session.Print(FormatTable({"COUNT", "SCHEDULE", "FIRST", "LAST", "ERROR"}, rows));
  if (response.more()) session.Say("escctl: there are more: not all dead letters were counted");
  if (!rows.empty()) session.Say("escctl: with -o yaml each group has the filter that redrives it");
}

void AddGroups(CLI::App& group, Session& session) {
  struct GroupOptions {
    std::string filter;
    int hours = 24;
  };
  auto o = std::make_shared<GroupOptions>();
  CLI::App* groups =
      group.add_subcommand("groups", "count dead letters by schedule and error, most first");
  groups->add_option("--filter", o->filter, kFilterHelp);
  groups->add_option("--hours", o->hours, "the last so many hours")
      ->check(CLI::Range(1, 24 * 366))
      ->capture_default_str();
  groups->callback([o, &session] {
    v1::ListDeadLetterGroupsRequest request;
    request.set_parent(session.parent());
    request.set_filter(o->filter);
    *request.mutable_start_time() =
        TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(absl::Now() - absl::Hours(o->hours)));
    v1::ListDeadLetterGroupsResponse response;
    const auto status = session.Call(&DeadLetterStub::ListDeadLetterGroups, request, response);
    if (!status.ok()) return session.Fail(status);
    PrintGroups(session, response);
  });
}

void AddPurge(CLI::App& group, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* purge =
      group.add_subcommand("purge", "count dead letters or, with --force, delete them");
  CLI::Option* filter = purge->add_option("--filter", o->filter, kFilterHelp);
  purge->add_flag("--all", o->all, "all dead letters of the tenant")->excludes(filter);
  purge->add_flag("--force", o->force, "delete them; default: only count");
  AddRequestId(*purge, o->request_id);
  purge->callback([o, &session] {
    if (o->filter.empty() && !o->all)
      throw CLI::ValidationError("deadletter purge", "needs --filter or --all");
    Purge(session, *o);
  });
}

}  // namespace

void AddDeadLetterCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("deadletter", "dead letters: events that failed for good");
  group->require_subcommand(1);
  group->fallthrough();

  CLI::App* list = group->add_subcommand("list", "show dead letters, the newest first");
  auto flags = std::make_shared<ListFlags>();
  flags->Add(*list, "dead letters",
             "schedule, policy, event, event_id, reason, error and create_time",
             "create_time (oldest first) or create_time desc");
  list->callback([flags, &session] {
    flags->Run(
        session, DeadLetterHeader(), &DeadLetterStub::ListDeadLetters, v1::ListDeadLettersRequest(),
        [](auto& page) { return page.mutable_dead_letters(); }, DeadLetterRow);
  });

  AddGroups(*group, session);

  CLI::App* get = group->add_subcommand("get", "show one dead letter");
  auto name = std::make_shared<std::string>();
  get->add_option("name", *name, "id or full name")->required();
  get->callback([name, &session] { Get(session, *name); });

  AddRedrive(*group, session);
  AddPurge(*group, session);
  AddRedriveRun(app, session);
}

// `escctl operation`.

namespace {

using OperationStub = v1::OperationService::Stub;

void GetOperation(Session& session, const std::string& name, const WatchFlags& watch) {
  v1::GetOperationRequest request;
  request.set_name(session.FullName("operations", name));
  const auto get = [&](v1::Operation& operation) {
    return session.Call(&OperationStub::GetOperation, request, operation);
  };
  if (watch.wanted()) {
    return watch.Run(session, OperationHeader(), [&] {
      std::vector<v1::Operation> operation(1);
      grpc::Status status = get(operation[0]);
      const bool ended = status.ok() && operation[0].state() != v1::Operation::RUNNING;
      Reading reading = Reading::Of(std::move(status), std::move(operation), OperationRow);
      reading.last = ended;
      return reading;
    });
  }
  v1::Operation operation;
  const auto status = get(operation);
  if (!status.ok()) return session.Fail(status);
  PrintOperation(session, operation);
}

}  // namespace

void AddOperationCommands(CLI::App& app, Session& session) {
  CLI::App* group =
      app.add_subcommand("operation", "operations: long work such as a redrive of many events");
  group->require_subcommand(1);
  group->fallthrough();

  CLI::App* list = group->add_subcommand("list", "show operations, the newest first");
  auto flags = std::make_shared<ListFlags>();
  flags->Add(*list, "operations",
             "state (RUNNING, SUCCEEDED, FAILED, CANCELLED) and kind (REDRIVE, PURGE, "
             "CANCEL_EVENTS)",
             "");
  list->callback([flags, &session] {
    flags->Run(
        session, OperationHeader(), &OperationStub::ListOperations, v1::ListOperationsRequest(),
        [](auto& page) { return page.mutable_operations(); }, OperationRow);
  });

  CLI::App* get = group->add_subcommand("get", "show one operation and its progress");
  auto name = std::make_shared<std::string>();
  get->add_option("name", *name, "id or full name")->required();
  auto watch = std::make_shared<WatchFlags>();
  watch->Add(*get);
  get->callback([name, watch, &session] { GetOperation(session, *name, *watch); });

  CLI::App* cancel = group->add_subcommand("cancel", "end a running operation; what it did stays");
  auto request = std::make_shared<v1::CancelOperationRequest>();
  cancel->add_option("name", *name, "id or full name")->required();
  auto request_id = std::make_shared<std::string>();
  AddRequestId(*cancel, *request_id);
  auto dry = AddValidateOnly(*cancel);
  cancel->callback([name, request, request_id, dry, &session] {
    request->set_name(session.FullName("operations", *name));
    request->set_request_id(*request_id);
    request->set_validate_only(*dry);
    v1::Operation operation;
    const auto status = session.Call(&OperationStub::CancelOperation, *request, operation);
    if (!status.ok()) return session.Fail(status);
    PrintOperation(session, operation);
  });
}

}  // namespace escapement::escctl
