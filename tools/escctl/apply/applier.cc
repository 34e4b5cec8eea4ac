#include "tools/escctl/apply/applier.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/printable_text.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"
#include "escapement/v1/calendar_service.grpc.pb.h"
#include "escapement/v1/notification_service.grpc.pb.h"
#include "escapement/v1/policy_service.grpc.pb.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "tools/escctl/apply/manifest.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/pages.h"

namespace escapement::escctl {

namespace {

constexpr int kTriesMax = 3;  // if others change the resource at the same time

std::string ParentOf(const std::string& name) {
  return name.substr(0, name.find('/', name.find('/') + 1));
}

struct ScheduleApi {
  using Message = v1::Schedule;
  using Stub = v1::ScheduleService::Stub;

  explicit ScheduleApi(Session& session) : session(session) {}

  grpc::Status Get(const std::string& name, Message& message) {
    v1::GetScheduleRequest request;
    request.set_name(name);
    return session.Call(&Stub::GetSchedule, request, message);
  }
  grpc::Status Create(const Message& wanted, bool validate_only, Message& message) {
    v1::CreateScheduleRequest request;
    request.set_parent(ParentOf(wanted.name()));
    request.set_schedule_id(IdOf(wanted.name()));
    *request.mutable_schedule() = wanted;
    request.set_validate_only(validate_only);
    return session.Call(&Stub::CreateSchedule, request, message);
  }
  grpc::Status Update(const Message& wanted, bool validate_only, Message& message) {
    v1::UpdateScheduleRequest request;
    *request.mutable_schedule() = wanted;
    request.mutable_update_mask()->add_paths("*");
    request.set_validate_only(validate_only);
    return session.Call(&Stub::UpdateSchedule, request, message);
  }
  static std::vector<std::string> WarningsOf(const Message& message) {
    return {message.warnings().begin(), message.warnings().end()};
  }

  Session& session;
};

struct PolicyApi {
  using Message = v1::ThrottlePolicy;
  using Stub = v1::PolicyService::Stub;

  explicit PolicyApi(Session& session) : session(session) {}

  grpc::Status Get(const std::string& name, Message& message) {
    v1::GetPolicyRequest request;
    request.set_name(name);
    return session.Call(&Stub::GetPolicy, request, message);
  }
  grpc::Status Create(const Message& wanted, bool validate_only, Message& message) {
    v1::CreatePolicyRequest request;
    request.set_parent(ParentOf(wanted.name()));
    request.set_policy_id(IdOf(wanted.name()));
    *request.mutable_policy() = wanted;
    request.set_validate_only(validate_only);
    return session.Call(&Stub::CreatePolicy, request, message);
  }
  grpc::Status Update(const Message& wanted, bool validate_only, Message& message) {
    v1::UpdatePolicyRequest request;
    *request.mutable_policy() = wanted;
    request.mutable_update_mask()->add_paths("*");
    request.set_validate_only(validate_only);
    return session.Call(&Stub::UpdatePolicy, request, message);
  }
  static std::vector<std::string> WarningsOf(const Message&) { return {}; }

  Session& session;
};

struct CalendarApi {
  using Message = v1::Calendar;
  using Stub = v1::CalendarService::Stub;

  explicit CalendarApi(Session& session) : session(session) {}

  grpc::Status Get(const std::string& name, Message& message) {
    v1::GetCalendarRequest request;
    request.set_name(name);
    return session.Call(&Stub::GetCalendar, request, message);
  }
  grpc::Status Create(const Message& wanted, bool validate_only, Message& message) {
    v1::CreateCalendarRequest request;
    request.set_parent(ParentOf(wanted.name()));
    request.set_calendar_id(IdOf(wanted.name()));
    *request.mutable_calendar() = wanted;
    request.set_validate_only(validate_only);
    return session.Call(&Stub::CreateCalendar, request, message);
  }
  grpc::Status Update(const Message& wanted, bool validate_only, Message& message) {
    v1::UpdateCalendarRequest request;
    *request.mutable_calendar() = wanted;
    request.mutable_update_mask()->add_paths("*");
    request.set_validate_only(validate_only);
    v1::UpdateCalendarResponse response;
    grpc::Status status = session.Call(&Stub::UpdateCalendar, request, response);
    message = std::move(*response.mutable_calendar());
    return status;
  }
  static std::vector<std::string> WarningsOf(const Message&) { return {}; }

  Session& session;
};

struct SubscriptionApi {
  using Message = v1::Subscription;
  using Stub = v1::NotificationService::Stub;

  explicit SubscriptionApi(Session& session) : session(session) {}

  grpc::Status Get(const std::string& name, Message& message) {
    v1::GetSubscriptionRequest request;
    request.set_name(name);
    return session.Call(&Stub::GetSubscription, request, message);
  }
  grpc::Status Create(const Message& wanted, bool validate_only, Message& message) {
    v1::CreateSubscriptionRequest request;
    request.set_parent(ParentOf(wanted.name()));
    request.set_subscription_id(IdOf(wanted.name()));
    *request.mutable_subscription() = wanted;
    request.set_validate_only(validate_only);
    return session.Call(&Stub::CreateSubscription, request, message);
  }
  grpc::Status Update(const Message& wanted, bool validate_only, Message& message) {
    v1::UpdateSubscriptionRequest request;
    *request.mutable_subscription() = wanted;
    request.mutable_update_mask()->add_paths("*");
    request.set_validate_only(validate_only);
    return session.Call(&Stub::UpdateSubscription, request, message);
  }
  static std::vector<std::string> WarningsOf(const Message&) { return {}; }

  Session& session;
};

template <typename Message>
Message WithoutServerFields(Message message) {
  ClearServerFields(message);
  return message;
}

}  // namespace

absl::string_view EffectName(ApplyEffect effect) {
  switch (effect) {
    case ApplyEffect::kCreated:
      return "created";
    case ApplyEffect::kConfigured:
      return "configured";
    case ApplyEffect::kUnchanged:
      return "unchanged";
    case ApplyEffect::kPruned:
      return "pruned";
  }
  return "";
}

// The server looks policies and calendars up last, so everything else is valid.
bool Applier::RefersToPlanned(const grpc::Status& status) const {
  const absl::Status refused = FromGrpcStatus(status);
  const std::string reason = ErrorReason(refused);
  return dry_run_ && (reason == "POLICY_NOT_FOUND" || reason == "CALENDAR_NOT_FOUND") &&
         std::find(planned_.begin(), planned_.end(), ErrorMetadataValue(refused, "resource")) !=
             planned_.end();
}

template <typename Api>
Applied Applier::ApplyWith(const typename Api::Message& wanted) {
  using Message = typename Api::Message;
  Api api(session_);
  Applied applied;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    Message current;
    Message next;
    applied.status = api.Get(wanted.name(), current);
    const bool absent = applied.status.error_code() == grpc::StatusCode::NOT_FOUND;
    if (!absent && !applied.status.ok()) return applied;
    applied.effect = absent ? ApplyEffect::kCreated : ApplyEffect::kConfigured;
    if (absent) {
      applied.status = api.Create(wanted, dry_run_, next);
    } else {
      Message change = wanted;
      change.set_etag(current.etag());
      applied.before = ManifestYaml(WithoutServerFields(current));
      applied.status = api.Update(change, /*validate_only=*/true, next);
      if (applied.status.ok() && google::protobuf::util::MessageDifferencer::Equals(
                                     WithoutServerFields(current), WithoutServerFields(next))) {
        applied.effect = ApplyEffect::kUnchanged;
      } else if (applied.status.ok() && !dry_run_) {
        applied.status = api.Update(change, /*validate_only=*/false, next);
      }
    }
    if (RefersToPlanned(applied.status)) {
      applied.status = grpc::Status::OK;
      next = wanted;
    }
    // Another client created or changed it since it was read: read it again.
    const bool raced = applied.status.error_code() == grpc::StatusCode::ABORTED ||
                       applied.status.error_code() == grpc::StatusCode::ALREADY_EXISTS;
    if (raced) continue;
    // The server shows the name of a schedule that it only validated as it would be.
    next.set_name(wanted.name());
    applied.after = ManifestYaml(WithoutServerFields(next));
    applied.warnings = Api::WarningsOf(next);
    return applied;
  }
  return applied;
}

Applied Applier::Apply(const v1::Schedule& wanted) { return ApplyWith<ScheduleApi>(wanted); }

Applied Applier::Apply(const v1::ThrottlePolicy& wanted) {
  Applied applied = ApplyWith<PolicyApi>(wanted);
  if (applied.status.ok() && applied.effect == ApplyEffect::kCreated)
    planned_.push_back(wanted.name());
  return applied;
}

Applied Applier::Apply(const v1::Calendar& wanted) {
  Applied applied = ApplyWith<CalendarApi>(wanted);
  if (applied.status.ok() && applied.effect == ApplyEffect::kCreated)
    planned_.push_back(wanted.name());
  return applied;
}

Applied Applier::Apply(const v1::Subscription& wanted) {
  return ApplyWith<SubscriptionApi>(wanted);
}

Applied Applier::Prune(const v1::Schedule& listed) {
  Applied applied;
  applied.effect = ApplyEffect::kPruned;
  if (dry_run_) {
    v1::Schedule current;  // lists have no payload
    applied.status = ScheduleApi(session_).Get(listed.name(), current);
    applied.before = ManifestYaml(WithoutServerFields(current));
    return applied;
  }
  v1::DeleteScheduleRequest request;
  request.set_name(listed.name());
  request.set_etag(listed.etag());
  google::protobuf::Empty nothing;
  applied.status = session_.Call(&v1::ScheduleService::Stub::DeleteSchedule, request, nothing);
  return applied;
}

namespace {

constexpr char kDescription[] =
    R"(create or update the schedules, throttling policies, calendars and subscriptions of a file

The file holds YAML documents separated by "---", or a JSON array. Each document is one resource:

  kind: ThrottlePolicy          # or Schedule, Calendar, Subscription
  name: gentle                  # short, or tenants/{tenant}/policies/{name}
  maxConcurrent: 5
  ---
  kind: Schedule
  name: nightly
  cron: 0 3 * * *
  timeZone: Europe/Berlin
  policy: gentle
  target: {http: {uri: "http://127.0.0.1:8080/nightly"}}
  payloadText: '{"hi":1}'       # the payload as text; payloadJson: as JSON; payload: as base64
  labels: {team: a}

The fields are those of "escctl schedule get -o yaml". The file is the whole definition: a field
that it does not set gets its default. Fields that the server sets (etag, version, ...) are ignored.
Policies and calendars go first; a calendar stands behind those that it contains. Each resource is
printed as created, configured or unchanged. If one is refused, the others still go, and the exit
code is 1.)";

using Labels = std::vector<std::pair<std::string, std::string>>;

class ApplyRun {
 public:
  ApplyRun(Session& session, std::string file, bool dry_run)
      : session_(session), file_(std::move(file)), dry_run_(dry_run), applier_(session, dry_run) {}

  void Apply(const Manifest& manifest) {
    // The server refuses schedules whose policy or calendar does not exist.
    ApplyKind<v1::ThrottlePolicy>(manifest);
    ApplyKind<v1::Calendar>(manifest);
    ApplyKind<v1::Schedule>(manifest);
    ApplyKind<v1::Subscription>(manifest);
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

namespace {

constexpr size_t kContextLines = 3;
constexpr size_t kCellsMax = 4'000'000;  // cells of the table of common lines: 16 MB

using Lines = std::vector<absl::string_view>;

struct Edit {
  char kind;  // ' ', '-' or '+'
  absl::string_view line;
};

Lines LinesOf(absl::string_view text) {
  if (text.empty()) return {};
  return absl::StrSplit(absl::StripSuffix(text, "\n"), '\n');
}

// Appends the edits that turn lines [begin, a_end) of `a` into lines [begin, b_end) of `b`.
void AppendMiddle(const Lines& a, size_t a_end, const Lines& b, size_t b_end, size_t begin,
                  std::vector<Edit>& edits) {
  const size_t rows = a_end - begin;
  const size_t columns = b_end - begin;
  size_t i = 0;
  size_t j = 0;
  if ((rows + 1) * (columns + 1) <= kCellsMax) {
    const size_t width = columns + 1;
    std::vector<uint32_t> common((rows + 1) * width);  // lines in common from (i, j) on
    for (size_t r = rows; r-- > 0;) {
      for (size_t c = columns; c-- > 0;) {
        common[r * width + c] = a[begin + r] == b[begin + c] ? common[(r + 1) * width + c + 1] + 1
                                                             : std::max(common[(r + 1) * width + c],
                                                                        common[r * width + c + 1]);
      }
    }
    while (i < rows && j < columns) {
      if (a[begin + i] == b[begin + j]) {
        edits.push_back({' ', a[begin + i++]});
        ++j;
      } else if (common[(i + 1) * width + j] >= common[i * width + j + 1]) {
        edits.push_back({'-', a[begin + i++]});
      } else {
        edits.push_back({'+', b[begin + j++]});
      }
    }
  }
  while (i < rows) edits.push_back({'-', a[begin + i++]});
  while (j < columns) edits.push_back({'+', b[begin + j++]});
}

std::vector<Edit> EditsBetween(const Lines& a, const Lines& b) {
  size_t begin = 0;
  while (begin < std::min(a.size(), b.size()) && a[begin] == b[begin]) ++begin;
  size_t same = 0;  // lines at the end
  while (same < std::min(a.size(), b.size()) - begin &&
         a[a.size() - 1 - same] == b[b.size() - 1 - same])
    ++same;
  std::vector<Edit> edits;
  for (size_t i = 0; i < begin; ++i) edits.push_back({' ', a[i]});
  AppendMiddle(a, a.size() - same, b, b.size() - same, begin, edits);
  for (size_t i = a.size() - same; i < a.size(); ++i) edits.push_back({' ', a[i]});
  return edits;
}

// "4,7", as in the head of a hunk; `first` counts from 0.
std::string Range(size_t first, size_t count) {
  const size_t shown = count == 0 ? first : first + 1;
  return count == 1 ? absl::StrCat(shown) : absl::StrCat(shown, ",", count);
}

}  // namespace

std::string UnifiedDiff(absl::string_view before_name, absl::string_view before,
                        absl::string_view after_name, absl::string_view after) {
  if (before == after) return "";
  const Lines a = LinesOf(before);
  const Lines b = LinesOf(after);
  const std::vector<Edit> edits = EditsBetween(a, b);
  std::string text = absl::StrCat("--- ", before_name, "\n+++ ", after_name, "\n");
  size_t next = 0;  // the first edit that no hunk has
  size_t a_at = 0;  // its line in each text
  size_t b_at = 0;
  while (true) {
    size_t change = next;
    while (change < edits.size() && edits[change].kind == ' ') ++change;
    if (change == edits.size()) break;
    const size_t begin = change - std::min(kContextLines, change - next);
    a_at += begin - next;
    b_at += begin - next;
    // Changes with at most twice the context between them share a hunk.
    size_t end = change + 1;
    for (size_t i = end; i < edits.size() && i <= end + 2 * kContextLines; ++i) {
      if (edits[i].kind != ' ') end = i + 1;
    }
    end = std::min(edits.size(), end + kContextLines);
    size_t a_count = 0;
    size_t b_count = 0;
    std::string body;
    for (size_t i = begin; i < end; ++i) {
      a_count += edits[i].kind != '+';
      b_count += edits[i].kind != '-';
      absl::StrAppend(&body, std::string(1, edits[i].kind), edits[i].line, "\n");
    }
    absl::StrAppend(&text, "@@ -", Range(a_at, a_count), " +", Range(b_at, b_count), " @@\n", body);
    a_at += a_count;
    b_at += b_count;
    next = end;
  }
  return text;
}

}  // namespace escapement::escctl
