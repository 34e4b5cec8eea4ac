#include "tools/escctl/apply/apply_command.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/printable_text.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "tools/escctl/apply/applier.h"
#include "tools/escctl/apply/line_diff.h"
#include "tools/escctl/apply/manifest.h"
#include "tools/escctl/base/flag_values.h"
#include "tools/escctl/base/pages.h"

namespace escapement::escctl {
namespace {

constexpr char kDescription[] =
    R"(create or update the schedules and throttling policies of a file

The file holds YAML documents separated by "---", or a JSON array. Each document is one resource:

  kind: ThrottlePolicy          # or Schedule
  name: gentle                  # short, or tenants/{tenant}/policies/{name}
  maxConcurrent: 5
  ---
  kind: Schedule
  name: nightly
  cron: 0 3 * * *
  timeZone: Europe/Berlin
  policy: gentle
  target: {http: {uri: "http://127.0.0.1:8080/nightly"}}
  payloadText: '{"hi":1}'       # the payload as text; payload: is base64
  labels: {team: a}

The fields are those of "escctl schedule get -o yaml". The file is the whole definition: a field
that it does not set gets its default. Fields that the server sets (etag, version, ...) are ignored.
Policies go first. Each resource is printed as created, configured or unchanged. If one is refused,
the others still go, and the exit code is 1.)";

using Labels = std::vector<std::pair<std::string, std::string>>;

class ApplyRun {
 public:
  ApplyRun(Session& session, std::string file, bool dry_run)
      : session_(session), file_(std::move(file)), dry_run_(dry_run), applier_(session, dry_run) {}

  void Apply(const Manifest& manifest) {
    // The server refuses schedules whose policy does not exist.
    ApplyKind<v1::ThrottlePolicy>(manifest);
    ApplyKind<v1::Schedule>(manifest);
    ApplyKind<std::monostate>(manifest);
  }

  // Deletes the schedules with these labels whose names are not in the manifest.
  void Prune(const Manifest& manifest, const Labels& labels) {
    if (failed_) {
      session_.Say("escctl: nothing was pruned, because not every resource could be applied");
      return;
    }
    std::set<std::string> kept;
    for (const Resource& resource : manifest.resources) {
      if (const auto* schedule = std::get_if<v1::Schedule>(&resource.message))
        kept.insert(schedule->name());
    }
    std::vector<v1::Schedule> leaving;
    v1::ListSchedulesRequest request;
    request.set_parent(session_.parent());
    const PagesRead read =
        ForEachPage(session_, &v1::ScheduleService::Stub::ListSchedules, request, kNoLimit,
                    [&](v1::ListSchedulesResponse& page) {
                      for (v1::Schedule& schedule : *page.mutable_schedules()) {
                        if (!kept.contains(schedule.name()) && Matches(schedule, labels))
                          leaving.push_back(std::move(schedule));
                      }
                      return page.schedules_size();
                    });
    if (!read.status.ok()) return session_.Fail(read.status);
    for (const v1::Schedule& schedule : leaving)
      Report("", absl::StrCat("schedule/", IdOf(schedule.name())), applier_.Prune(schedule));
  }

 private:
  static bool Matches(const v1::Schedule& schedule, const Labels& labels) {
    return std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
      const auto found = schedule.labels().find(label.first);
      return found != schedule.labels().end() && found->second == label.second;
    });
  }

  template <typename Kind>
  void ApplyKind(const Manifest& manifest) {
    for (const Resource& resource : manifest.resources) {
      const auto* message = std::get_if<Kind>(&resource.message);
      if (message == nullptr) continue;
      for (const FieldError& error : resource.errors)
        SayError(resource.place, resource.title, error.field, error.problem);
      if (!resource.errors.empty()) continue;
      for (const FieldError& warning : resource.warnings) {
        session_.Say(
            absl::StrCat("warning: ", resource.title, ": ", warning.field, " ", warning.problem));
      }
      if constexpr (!std::is_same_v<Kind, std::monostate>)
        Report(resource.place, resource.title, applier_.Apply(*message));
    }
  }

  void Report(const std::string& place, const std::string& title, const Applied& applied) {
    if (!applied.status.ok()) return SayRefused(place, title, applied.status);
    for (const std::string& warning : applied.warnings)
      session_.Say(absl::StrCat("warning: ", title, ": ", warning));
    if (dry_run_) {
      session_.Print(UnifiedDiff(absl::StrCat(title, " (server)"), applied.before,
                                 absl::StrCat(title, " (file)"), applied.after));
    }
    session_.Print(absl::StrCat(EscapeForTerminal(title), " ", EffectName(applied.effect),
                                dry_run_ ? " (dry run)" : "", "\n"));
  }

  void SayRefused(const std::string& place, const std::string& title, const grpc::Status& wire) {
    const absl::Status status = FromGrpcStatus(wire);
    const auto violations = FieldViolationsOf(status);
    for (const auto& [field, problem] : violations)
      SayError(place, title, FileFieldName(field), problem);
    if (!violations.empty()) return;
    // "schedule.policy: tenants/… does not exist": the field stands in the metadata.
    const std::string field = ErrorMetadataValue(status, "field");
    std::string problem(status.message());
    if (!field.empty() && absl::StartsWith(problem, absl::StrCat(field, ": ")))
      problem.erase(0, field.size() + 2);
    SayError(place, title, FileFieldName(field),
             absl::StrCat(absl::StatusCodeToString(status.code()), ": ", problem,
                          session_.Advice(status)));
  }

  void SayError(const std::string& place, const std::string& title, const std::string& field,
                const std::string& problem) {
    std::string words = "escctl: ";
    if (!place.empty()) absl::StrAppend(&words, file_, ": ", place, ": ");
    if (!title.empty()) absl::StrAppend(&words, title, ": ");
    if (!field.empty()) absl::StrAppend(&words, field, ": ");
    session_.Say(absl::StrCat(words, problem));
    session_.SetFailed();
    failed_ = true;
  }

  Session& session_;
  const std::string file_;
  const bool dry_run_;
  Applier applier_;
  bool failed_ = false;
};

}  // namespace

void AddApplyCommand(CLI::App& app, Session& session) {
  struct Options {
    std::string file;
    std::vector<std::string> labels;
    bool dry_run = false;
    bool prune = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("apply", kDescription);
  command->fallthrough();
  command->add_option("-f,--file", o->file, "file with the resources; - = stdin")->required();
  command->add_flag("--dry-run", o->dry_run,
                    "show each change as a diff, validated by the server, and write nothing");
  auto* labels =
      command
          ->add_option("-l,--selector", o->labels,
                       "with --prune: key=value that a schedule must have; may be repeated")
          ->allow_extra_args(false);
  command
      ->add_flag("--prune", o->prune,
                 "delete the tenant's schedules that have the label of -l and are not in the file")
      ->needs(labels);
  command->callback([o, &session] {
    auto text = TextOrFile(absl::StrCat("@", o->file == "-" ? "/dev/stdin" : o->file));
    if (!text.ok()) return session.FailUsage(absl::StrCat("--file: ", text.status().message()));
    const auto labels = ParsePairs("--selector", o->labels);
    if (!labels.ok()) return session.FailUsage(labels.status().message());
    if (!labels->empty() && !o->prune) return session.FailUsage("--selector: needs --prune");
    const Manifest manifest = ReadManifest(*text, session.parent());
    // With an empty file --prune would delete everything that has the label.
    if (manifest.resources.empty())
      return session.FailUsage(absl::StrCat("--file: ", o->file, " holds no resource"));
    ApplyRun run(session, o->file == "-" ? "stdin" : o->file, o->dry_run);
    run.Apply(manifest);
    if (o->prune) run.Prune(manifest, *labels);
  });
}

}  // namespace escapement::escctl
