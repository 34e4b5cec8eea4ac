// `escctl target`.

#include <google/protobuf/util/time_util.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "escapement/v1/target_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/pages.h"
#include "tools/escctl/base/watch.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using v1::TargetStatus;
using TargetStub = v1::TargetService::Stub;

std::string IdOf(const TargetStatus& target) {
  return target.name().substr(target.name().rfind('/') + 1);
}

Row TargetRow(const TargetStatus& t) {
  return {IdOf(t),
          t.transport(),
          t.endpoint().empty() ? "-" : t.endpoint(),
          TargetStatus::State_Name(t.state()),
          t.has_down_since_time() ? TimeUtil::ToString(t.down_since_time()) : "-",
          absl::StrCat(t.in_flight(), "/", t.in_flight_max()),
          absl::StrCat(t.attempt_count()),
          absl::StrFormat("%.1f %%", 100 * t.error_rate()),
          t.last_error().empty() ? "-" : t.last_error()};
}

const Row& TargetHeader() {
  static const Row header = {"TARGET", "TRANSPORT", "ENDPOINT", "STATE",     "DOWN SINCE",
                             "OUT",    "ATTEMPTS",  "ERRORS",   "LAST ERROR"};
  return header;
}

// One row for each handler.
Row HandlerRow(const TargetStatus::Handler& h) {
  return {h.handler(),
          TargetStatus::State_Name(h.state()),
          h.has_down_since_time() ? TimeUtil::ToString(h.down_since_time()) : "-",
          h.has_next_probe_time() ? TimeUtil::ToString(h.next_probe_time()) : "-",
          absl::StrCat(h.in_flight(), "/", h.in_flight_max()),
          absl::StrCat(h.attempt_count()),
          absl::StrCat(h.failure_count()),
          h.last_error().empty() ? "-" : h.last_error()};
}

void PrintTarget(Session& session, const TargetStatus& target) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(target, session.format()));
  session.Print(FormatTable(TargetHeader(), {TargetRow(target)}));
  std::vector<Row> rows;
  for (const TargetStatus::Handler& handler : target.handlers())
    rows.push_back(HandlerRow(handler));
  session.Print(FormatTable(
      {"HANDLER", "STATE", "DOWN SINCE", "NEXT PROBE", "OUT", "ATTEMPTS", "FAILURES", "LAST ERROR"},
      rows));
}

// The full name of the target with this id, or of the one that this URL goes to. nullopt, and says
// why, if there is none.
std::optional<std::string> NameOf(Session& session, const std::string& text) {
  if (!absl::StrContains(text, ':')) return session.FullName("targets", text);
  v1::ListTargetsRequest request;
  request.set_parent(session.parent());
  std::vector<TargetStatus> targets;
  const PagesRead read = ReadPages(
      session, &TargetStub::ListTargets, request, SIZE_MAX,
      [](v1::ListTargetsResponse& page) { return page.mutable_targets(); }, targets);
  if (!read.status.ok()) {
    session.Fail(read.status);
    return std::nullopt;
  }
  for (const TargetStatus& target : targets) {
    absl::string_view rest = text;
    if (!target.endpoint().empty() && absl::ConsumePrefix(&rest, target.endpoint()) &&
        (rest.empty() || rest[0] == '/' || rest[0] == '?'))
      return target.name();
  }
  session.Fail(grpc::Status(grpc::StatusCode::NOT_FOUND,
                            absl::StrCat("nothing went to ", text, " in the last minutes")));
  return std::nullopt;
}

void GetTarget(Session& session, const std::string& text, const WatchFlags& watch) {
  const std::optional<std::string> name = NameOf(session, text);
  if (!name.has_value()) return;
  v1::GetTargetRequest request;
  request.set_name(*name);
  const auto get = [&](TargetStatus& target) {
    return session.Call(&TargetStub::GetTarget, request, target);
  };
  if (watch.wanted()) {
    return watch.Run(session, TargetHeader(), [&] {
      std::vector<TargetStatus> target(1);
      grpc::Status status = get(target[0]);
      return Reading::Of(std::move(status), std::move(target), TargetRow);
    });
  }
  TargetStatus target;
  const grpc::Status status = get(target);
  if (!status.ok()) return session.Fail(status);
  PrintTarget(session, target);
}

}  // namespace

void AddTargetCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("target", "targets: how the endpoints of events answer");
  group->require_subcommand(1);
  group->fallthrough();

  CLI::App* list = group->add_subcommand("list", "show the endpoints used in the last minutes");
  auto flags = std::make_shared<ListFlags>();
  flags->Add(*list, "targets", "", "");
  list->callback([flags, &session] {
    flags->Run(
        session, TargetHeader(), &TargetStub::ListTargets, v1::ListTargetsRequest(),
        [](v1::ListTargetsResponse& page) { return page.mutable_targets(); }, TargetRow);
  });

  CLI::App* get = group->add_subcommand("get", "show one endpoint, as each handler sees it");
  struct Options {
    std::string name;
    WatchFlags watch;
  };
  auto o = std::make_shared<Options>();
  get->add_option("target", o->name, "id of the target, or a URL that goes to it")->required();
  o->watch.Add(*get);
  get->callback([o, &session] { GetTarget(session, o->name, o->watch); });

  CLI::App* reset =
      group->add_subcommand("reset", "deliver to an endpoint again at once, without a probe");
  auto text = std::make_shared<std::string>();
  reset->add_option("target", *text, "id of the target, or a URL that goes to it")->required();
  reset->callback([text, &session] {
    const std::optional<std::string> name = NameOf(session, *text);
    if (!name.has_value()) return;
    v1::ResetTargetRequest request;
    request.set_name(*name);
    TargetStatus target;
    const grpc::Status status = session.Call(&TargetStub::ResetTarget, request, target);
    if (!status.ok()) return session.Fail(status);
    PrintTarget(session, target);
  });
}

}  // namespace escapement::escctl
