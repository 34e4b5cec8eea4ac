// `escctl statistics`.

#include <google/protobuf/util/time_util.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/proto_time.h"
#include "escapement/v1/statistics_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using StatisticsStub = v1::StatisticsService::Stub;

enum class StatisticsOf { kTenant, kPolicy, kTarget };

Row StatisticsHeader(StatisticsOf of) {
  switch (of) {
    case StatisticsOf::kPolicy:
      return {"START", "HELD", "LIMIT", "WAITING"};
    case StatisticsOf::kTarget:
      return {"START", "ATTEMPTS", "ERRORS", "LATE", "LATEST BY"};
    case StatisticsOf::kTenant:
      break;
  }
  return {"START", "DUE",       "SUCCEEDED", "FAILED", "OTHER",
          "LATE",  "LATEST BY", "ATTEMPTS",  "ERRORS"};
}

Row StatisticsRow(StatisticsOf of, const v1::Statistics& s) {
  std::string start = TimeUtil::ToString(s.start_time());
  std::string latest = TimeUtil::ToString(s.lateness_max());
  switch (of) {
    case StatisticsOf::kPolicy:
      return {std::move(start), absl::StrCat(s.held_count()),
              s.max_concurrent() == 0 ? "-" : absl::StrCat(s.max_concurrent()),
              absl::StrCat(s.waiting_count())};
    case StatisticsOf::kTarget:
      return {std::move(start), absl::StrCat(s.attempt_count()), absl::StrCat(s.error_count()),
              absl::StrCat(s.late_count()), std::move(latest)};
    case StatisticsOf::kTenant:
      break;
  }
  return {std::move(start),
          absl::StrCat(s.due_count()),
          absl::StrCat(s.succeeded_count()),
          absl::StrCat(s.failed_count()),
          absl::StrCat(s.other_count()),
          absl::StrCat(s.late_count()),
          std::move(latest),
          absl::StrCat(s.attempt_count()),
          absl::StrCat(s.error_count())};
}

}  // namespace

void AddStatisticsCommand(CLI::App& app, Session& session) {
  struct Options {
    std::string policy, target, step = "1m";
    int hours = 1;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("statistics", "show what happened in each minute of the last hours");
  CLI::Option* policy =
      command->add_option("--policy", o->policy, "of this policy: tokens held, and events waiting");
  command->add_option("--target", o->target, "of this target: id, as target list shows it")
      ->excludes(policy);
  command->add_option("--hours", o->hours, "how many hours, at most 48")
      ->check(CLI::Range(1, 48))
      ->capture_default_str();
  command->add_option("--step", o->step, "length of a step: whole minutes")->capture_default_str();
  command->callback([o, &session] {
    v1::ListStatisticsRequest request;
    request.set_parent(session.parent());
    StatisticsOf of = StatisticsOf::kTenant;
    if (!o->policy.empty()) {
      of = StatisticsOf::kPolicy;
      request.set_subject(session.FullName("policies", o->policy));
    } else if (!o->target.empty()) {
      of = StatisticsOf::kTarget;
      request.set_subject(session.FullName("targets", o->target));
    }
    const absl::Time now = absl::Now();
    SetTimestamp(ToMicros(now - absl::Hours(o->hours)), *request.mutable_start_time());
    SetTimestamp(ToMicros(now), *request.mutable_end_time());
    const auto step = ParseDurationFlag("--step", o->step);
    if (!step.ok()) return session.FailUsage(step.status().message());
    *request.mutable_step() = *step;
    v1::ListStatisticsResponse response;
    const grpc::Status status = session.Call(&StatisticsStub::ListStatistics, request, response);
    if (!status.ok()) return session.Fail(status);
    if (session.format() != OutputFormat::kTable)
      return session.Print(FormatMessage(response, session.format()));
    std::vector<Row> rows;
    for (const v1::Statistics& each : response.statistics())
      rows.push_back(StatisticsRow(of, each));
    session.Print(FormatTable(StatisticsHeader(of), rows));
  });
}

}  // namespace escapement::escctl
