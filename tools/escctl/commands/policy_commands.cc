#include <google/protobuf/util/time_util.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/rest/json_bytes.h"
#include "escapement/v1/policy_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/pages.h"
#include "tools/escctl/base/timing_flags.h"
#include "tools/escctl/base/watch.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using v1::ThrottlePolicy;
using PolicyStub = v1::PolicyService::Stub;

constexpr char kOneOffEvents[] = "one-off events";  // waiters without a schedule

std::string Limit(int64_t value) { return value == 0 ? "-" : absl::StrCat(value); }
std::string PolicyTime(bool has, const google::protobuf::Timestamp& time) {
  return has ? TimeUtil::ToString(time) : "-";
}

// "5 + 0.5/s": both limits of a key.
std::string LimitsOfKey(const ThrottlePolicy::PerKey& key) {
  if (key.max_per_second() == 0) return Limit(key.max_concurrent());
  const std::string rate = absl::StrCat(key.max_per_second(), "/s");
  return key.max_concurrent() == 0 ? rate : absl::StrCat(key.max_concurrent(), " + ", rate);
}

Row PolicyRow(const ThrottlePolicy& p) {
  return {p.name(),
          ThrottlePolicy::State_Name(p.state()),
          Limit(p.max_concurrent()),
          LimitsOfKey(p.per_key()),
          p.max_per_second() == 0 ? "-" : absl::StrCat(p.max_per_second()),
          Limit(p.burst()),
          TimeUtil::ToString(p.hold_timeout()),
          ThrottlePolicy::OnExpiry_Name(p.on_expiry()),
          ThrottlePolicy::Fairness_Name(p.fairness()),
          ThrottlePolicy::Retries_Name(p.retries()),
          Limit(p.overrides_size()),
          absl::StrCat(p.version())};
}

const Row& PolicyHeader() {
  static const Row header = {"NAME", "STATE",     "CONCURRENT", "PER-KEY", "PER-SECOND", "BURST",
                             "HOLD", "ON-EXPIRY", "FAIRNESS",   "RETRIES", "OVERRIDES",  "VERSION"};
  return header;
}

// A key as a cell: the empty key would be a gap.
std::string KeyText(const std::string& key) { return key.empty() ? "\"\"" : key; }

// Only the limits that the override has.
std::string LimitsOf(const v1::PolicyOverride& override) {
  std::vector<std::string> limits;
  if (override.has_max_concurrent()) limits.push_back(absl::StrCat(override.max_concurrent()));
  if (override.has_max_per_second())
    limits.push_back(absl::StrCat(override.max_per_second(), "/s, burst ", override.burst()));
  return absl::StrJoin(limits, " + ");
}

void PrintOverrides(Session& session, const ThrottlePolicy& policy) {
  std::vector<Row> rows;
  for (const v1::PolicyOverride& override : policy.overrides()) {
    rows.push_back({override.has_policy_key() ? KeyText(override.policy_key()) : "-",
                    LimitsOf(override), TimeUtil::ToString(override.expire_time()),
                    override.reason()});
  }
  if (rows.empty()) return;
  session.Print("\n");
  session.Print(FormatTable({"OVERRIDDEN KEY", "LIMITS", "UNTIL", "REASON"}, rows));
}

void PrintPolicy(Session& session, const ThrottlePolicy& policy) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(policy, session.format()));
  session.Print(FormatTable(PolicyHeader(), {PolicyRow(policy)}));
  PrintOverrides(session, policy);
}

// Makes one call that answers with a policy, and prints the policy.
template <typename Request>
void CallAndPrint(Session& session, const Request& request,
                  grpc::Status (PolicyStub::*method)(grpc::ClientContext*, const Request&,
                                                     ThrottlePolicy*)) {
  ThrottlePolicy policy;
  const auto status = session.Call(method, request, policy);
  if (!status.ok()) return session.Fail(status);
  PrintPolicy(session, policy);
}

// Flags of create and update. Flags override the file; 0 removes a limit.
struct Limits {
  std::string file;
  std::optional<int64_t> max_concurrent;
  std::optional<double> max_per_second;
  std::optional<int64_t> burst;
  std::optional<int64_t> max_concurrent_per_key;
  std::optional<double> max_per_second_per_key;
  std::optional<int64_t> burst_per_key;
  std::optional<std::string> hold_timeout;
  std::optional<std::string> on_expiry;
  std::optional<std::string> fairness;
  std::optional<std::string> retries;
  std::optional<std::string> display_name;

  void Add(CLI::App& command) {
    command.add_option("-f,--file", file, "file with the policy in JSON; - = stdin");
    command.add_option("--max-concurrent,-m", max_concurrent,
                       "events out at once, over all that name it; 0 = no limit");
    command.add_option("--max-per-second", max_per_second,
                       "events per second, e.g. 0.5; 0 = no limit");
    command.add_option("--burst", burst, "events that may go out at once, on top of the rate");
    command.add_option("--max-concurrent-per-key", max_concurrent_per_key,
                       "events of one policy key out at once; 0 = no limit");
    command.add_option("--max-per-second-per-key", max_per_second_per_key,
                       "events of one policy key per second; 0 = no limit");
    command.add_option("--burst-per-key", burst_per_key,
                       "events of one policy key that may go out at once, on top of its rate");
    command.add_option("--hold-timeout", hold_timeout,
                       "how long a consumer may hold a token, e.g. 1h30m");
    command
        .add_option("--on-expiry", on_expiry,
                    "after the hold timeout: RECLAIM the token, or let the consumer HOLD it")
        ->transform(CLI::IsMember({"RECLAIM", "HOLD"}, CLI::ignore_case));
    command
        .add_option("--fairness", fairness,
                    "who takes turns: BY_SCHEDULE, BY_KEY, or nobody: FIFO, the event that was due "
                    "first")
        ->transform(CLI::IsMember({"BY_SCHEDULE", "FIFO", "BY_KEY"}, CLI::ignore_case));
    command
        .add_option(
            "--retries", retries,
            "until the next attempt an event gives its token back, FREE_TOKEN, or keeps it, "
            "KEEP_TOKEN")
        ->transform(CLI::IsMember({"FREE_TOKEN", "KEEP_TOKEN"}, CLI::ignore_case));
    command.add_option("--display-name", display_name, "text for people");
  }

  absl::Status Apply(ThrottlePolicy& policy, std::vector<std::string>& fields) const {
    if (!file.empty()) {
      ASSIGN_OR_RETURN(auto text, TextOrFile(absl::StrCat("@", file == "-" ? "/dev/stdin" : file)));
      if (const absl::Status parsed = rest::MessageFromJson(text, policy); !parsed.ok())
        return absl::InvalidArgumentError(absl::StrCat(file, ": ", parsed.message()));
    }
    const auto set = [&fields](const auto& value, const char* field, auto&& setter) {
      if (!value.has_value()) return;
      setter(*value);
      fields.push_back(field);
    };
    set(max_concurrent, "max_concurrent", [&](int64_t v) { policy.set_max_concurrent(v); });
    set(max_per_second, "max_per_second", [&](double v) { policy.set_max_per_second(v); });
    set(burst, "burst", [&](int64_t v) { policy.set_burst(v); });
    ThrottlePolicy::PerKey& key = *policy.mutable_per_key();
    set(max_concurrent_per_key, "per_key.max_concurrent",
        [&](int64_t v) { key.set_max_concurrent(v); });
    set(max_per_second_per_key, "per_key.max_per_second",
        [&](double v) { key.set_max_per_second(v); });
    set(burst_per_key, "per_key.burst", [&](int64_t v) { key.set_burst(v); });
    if (key.ByteSizeLong() == 0) policy.clear_per_key();  // no limits for keys
    // CLI11 has checked that they are values, in upper case.
    set(on_expiry, "on_expiry", [&](const std::string& v) {
      ThrottlePolicy::OnExpiry parsed{};
      if (ThrottlePolicy::OnExpiry_Parse(v, &parsed)) policy.set_on_expiry(parsed);
    });
    set(fairness, "fairness", [&](const std::string& v) {
      ThrottlePolicy::Fairness parsed{};
      if (ThrottlePolicy::Fairness_Parse(v, &parsed)) policy.set_fairness(parsed);
    });
    set(retries, "retries", [&](const std::string& v) {
      ThrottlePolicy::Retries parsed{};
      if (ThrottlePolicy::Retries_Parse(v, &parsed)) policy.set_retries(parsed);
    });
    set(display_name, "display_name", [&](const std::string& v) { policy.set_display_name(v); });
    if (!hold_timeout.has_value()) return absl::OkStatus();
    ASSIGN_OR_RETURN(auto hold, ParseDurationFlag("--hold-timeout", *hold_timeout));
    *policy.mutable_hold_timeout() = hold;
    fields.push_back("hold_timeout");
    return absl::OkStatus();
  }
};

void AddPolicyCreate(CLI::App& group, Session& session) {
  struct Options {
    Limits limits;
    std::string id;
    std::string request_id;
    bool validate_only = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("create", "create a policy");
  command->add_option("id", o->id, "last part of its name; the server makes one if it is missing");
  AddRequestId(*command, o->request_id);
  command->add_flag("--validate-only", o->validate_only, "check, but create nothing");
  o->limits.Add(*command);
  command->callback([o, &session] {
    v1::CreatePolicyRequest request;
    std::vector<std::string> fields;
    if (auto status = o->limits.Apply(*request.mutable_policy(), fields); !status.ok())
      return session.FailUsage(status.message());
    request.set_parent(session.parent());
    request.set_policy_id(o->id);
    request.set_request_id(o->request_id);
    request.set_validate_only(o->validate_only);
    CallAndPrint(session, request, &PolicyStub::CreatePolicy);
  });
}

void AddPolicyUpdate(CLI::App& group, Session& session) {
  struct Options {
    Limits limits;
    std::string name;
    std::string etag;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("update", "change the given fields; they apply at once");
  command->add_option("name", o->name, "id or full name")->required();
  command->add_option("--etag", o->etag, "change it only if this is its current etag");
  o->limits.Add(*command);
  command->callback([o, &session] {
    v1::UpdatePolicyRequest request;
    std::vector<std::string> fields;
    if (auto status = o->limits.Apply(*request.mutable_policy(), fields); !status.ok())
      return session.FailUsage(status.message());
    // A file replaces every field that can change: it needs no mask.
    if (o->limits.file.empty()) {
      if (fields.empty()) return session.FailUsage("give at least one flag that changes something");
      for (const std::string& field : fields) request.mutable_update_mask()->add_paths(field);
    }
    request.mutable_policy()->set_name(session.FullName("policies", o->name));
    if (!o->etag.empty()) request.mutable_policy()->set_etag(o->etag);
    CallAndPrint(session, request, &PolicyStub::UpdatePolicy);
  });
}

void AddPolicyGetAndList(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto get_watch = std::make_shared<WatchFlags>();
  CLI::App* get = group.add_subcommand("get", "show one policy");
  get->add_option("name", *name, "id or full name")->required();
  get_watch->Add(*get);
  get->callback([name, get_watch, &session] {
    v1::GetPolicyRequest request;
    request.set_name(session.FullName("policies", *name));
    if (!get_watch->wanted()) return CallAndPrint(session, request, &PolicyStub::GetPolicy);
    get_watch->Run(session, PolicyHeader(), [&] {
      std::vector<ThrottlePolicy> policy(1);
      auto status = session.Call(&PolicyStub::GetPolicy, request, policy[0]);
      return Reading::Of(std::move(status), std::move(policy), PolicyRow);
    });
  });

  auto flags = std::make_shared<ListFlags>();
  CLI::App* list = group.add_subcommand("list", "show the policies of the tenant");
  flags->Add(*list, "policies",
             "name, display_name, state, max_concurrent, max_per_second, burst, on_expiry, "
             "fairness, create_time and update_time",
             "name (default) or \"name desc\"");
  list->callback([flags, &session] {
    flags->Run(
        session, PolicyHeader(), &PolicyStub::ListPolicies, v1::ListPoliciesRequest(),
        [](auto& page) { return page.mutable_policies(); }, PolicyRow);
  });
}

void AddPolicyDelete(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto etag = std::make_shared<std::string>();
  CLI::App* command =
      group.add_subcommand("delete", "delete a policy that no schedule and no event uses");
  command->add_option("name", *name, "id or full name")->required();
  command->add_option("--etag", *etag, "change it only if this is its current etag");
  auto dry = AddValidateOnly(*command);
  command->callback([name, etag, dry, &session] {
    v1::DeletePolicyRequest request;
    request.set_name(session.FullName("policies", *name));
    request.set_etag(*etag);
    request.set_validate_only(*dry);
    google::protobuf::Empty nothing;
    const auto status = session.Call(&PolicyStub::DeletePolicy, request, nothing);
    if (!status.ok()) return session.Fail(status);
    session.Say(absl::StrCat(*dry ? "can be deleted: " : "deleted ", request.name()));
  });
}

void AddPolicyPauseAndResume(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto reason = std::make_shared<std::string>();
  CLI::App* pause = group.add_subcommand("pause", "grant no tokens until it is resumed");
  pause->add_option("name", *name, "id or full name")->required();
  pause->add_option("--reason", *reason, "why it is paused, for people");
  auto dry = AddValidateOnly(*pause);
  pause->callback([name, reason, dry, &session] {
    v1::PausePolicyRequest request;
    request.set_validate_only(*dry);
    request.set_name(session.FullName("policies", *name));
    request.set_reason(*reason);
    CallAndPrint(session, request, &PolicyStub::PausePolicy);
  });
  CLI::App* resume = group.add_subcommand("resume", "grant tokens again");
  resume->add_option("name", *name, "id or full name")->required();
  auto dry_resume = AddValidateOnly(*resume);
  resume->callback([name, dry_resume, &session] {
    v1::ResumePolicyRequest request;
    request.set_validate_only(*dry_resume);
    request.set_name(session.FullName("policies", *name));
    CallAndPrint(session, request, &PolicyStub::ResumePolicy);
  });
}

// From --for, or from --until.
absl::StatusOr<google::protobuf::Timestamp> OverrideEnd(const std::string& length,
                                                        const std::string& until) {
  const absl::Time now = absl::Now();
  if (!until.empty()) return ParseTimeFlag("--until", until, now);
  if (length.empty()) return absl::InvalidArgumentError("give --for or --until");
  ASSIGN_OR_RETURN(const auto parsed, ParseDurationFlag("--for", length));
  return TimeUtil::MicrosecondsToTimestamp(absl::ToUnixMicros(now)) + parsed;
}

void AddPolicyOverride(CLI::App& group, Session& session) {
  struct Options {
    std::string name;
    std::optional<std::string> key;
    std::optional<int64_t> max_concurrent;
    std::optional<double> max_per_second;
    std::optional<int64_t> burst;
    std::string reason;
    std::string length;
    std::string until;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand(
      "override", "put other limits into force for a time, of the policy or of one of its keys");
  command->add_option("name", o->name, "id or full name")->required();
  command->add_option("--key", o->key, "the policy key; without it the limits of the policy");
  command->add_option("--max-concurrent,-m", o->max_concurrent,
                      "events out at once; 0 = nothing goes out");
  command->add_option("--max-per-second", o->max_per_second, "events per second, e.g. 0.5");
  command->add_option("--burst", o->burst, "events that may go out at once, on top of the rate");
  command->add_option("--reason", o->reason, "why, for people")->required();
  CLI::Option* length = command->add_option("--for", o->length, "how long, e.g. 10m");
  command->add_option("--until", o->until, "when it ends, e.g. 2026-12-01T08:00:00Z or +10m")
      ->excludes(length);
  auto dry = AddValidateOnly(*command);
  command->callback([o, dry, &session] {
    v1::OverridePolicyRequest request;
    request.set_name(session.FullName("policies", o->name));
    request.set_validate_only(*dry);
    v1::PolicyOverride& override = *request.mutable_override();
    if (o->key.has_value()) override.set_policy_key(*o->key);
    if (o->max_concurrent.has_value()) override.set_max_concurrent(*o->max_concurrent);
    if (o->max_per_second.has_value()) override.set_max_per_second(*o->max_per_second);
    if (o->burst.has_value()) override.set_burst(*o->burst);
    override.set_reason(o->reason);
    const auto end = OverrideEnd(o->length, o->until);
    if (!end.ok()) return session.FailUsage(end.status().message());
    *override.mutable_expire_time() = *end;
    CallAndPrint(session, request, &PolicyStub::OverridePolicy);
  });
}

void AddPolicyClearOverride(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto key = std::make_shared<std::optional<std::string>>();
  CLI::App* command = group.add_subcommand("clear-override", "end an override before its time");
  command->add_option("name", *name, "id or full name")->required();
  command->add_option("--key", *key, "the policy key; without it the limits of the policy");
  auto dry = AddValidateOnly(*command);
  command->callback([name, key, dry, &session] {
    v1::ClearOverrideRequest request;
    request.set_name(session.FullName("policies", *name));
    request.set_validate_only(*dry);
    if (key->has_value()) request.set_policy_key(**key);
    CallAndPrint(session, request, &PolicyStub::ClearOverride);
  });
}

Row PolicyKeyRow(const v1::PolicyKeyUsage& key) {
  return {KeyText(key.policy_key()),
          absl::StrCat(key.held_count()),
          absl::StrCat(key.waiting_count()),
          PolicyTime(key.has_oldest_due_time(), key.oldest_due_time()),
          Limit(key.later_count()),
          key.has_override() ? LimitsOf(key.override()) : "-"};
}

const Row& PolicyKeyHeader() {
  static const Row header = {"KEY", "HELD", "WAITING", "OLDEST", "LATER", "OVERRIDE"};
  return header;
}

void AddPolicyKeys(CLI::App& group, Session& session) {
  struct Options {
    std::string name;
    std::string prefix;
    size_t limit = 1000;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command =
      group.add_subcommand("keys", "show the keys of which events wait or hold tokens");
  command->add_option("name", o->name, "id or full name")->required();
  command->add_option("--prefix", o->prefix, "only keys that begin with this text");
  command->add_option("--limit", o->limit, "most keys to show")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([o, &session] {
    v1::ListPolicyKeysRequest request;
    request.set_name(session.FullName("policies", o->name));
    request.set_prefix(o->prefix);
    std::vector<v1::PolicyKeyUsage> keys;
    bool truncated = false;
    const PagesRead read = ReadPages(
        session, &PolicyStub::ListPolicyKeys, request, o->limit,
        [&](v1::ListPolicyKeysResponse& page) {
          truncated = truncated || page.truncated();
          return page.mutable_keys();
        },
        keys);
    if (!read.status.ok()) return session.Fail(read.status);
    PrintList(session, PolicyKeyHeader(), keys, PolicyKeyRow);
    if (truncated)
      session.Say("escctl: the policy has too many events to count all; the counts are too small");
    if (read.more) session.Say("escctl: there are more keys; raise --limit");
  });
}

void PrintBusiestKeys(Session& session, const v1::PolicyUsage& usage) {
  std::vector<Row> rows;
  for (const v1::PolicyKeyUsage& key : usage.keys()) rows.push_back(PolicyKeyRow(key));
  if (rows.empty()) return;
  session.Print("\n");
  session.Print(FormatTable(PolicyKeyHeader(), rows));
}

void PrintUsageTables(Session& session, const v1::PolicyUsage& usage) {
  const std::string waiting =
      absl::StrCat(usage.waiting_count(), usage.waiting_truncated() ? "+" : "");
  session.Print(
      FormatTable({"NAME", "STATE", "HELD", "CONCURRENT", "WAITING", "OLDEST", "GRANTS/S",
                   "RELEASES/S", "GRANTED", "RELEASED", "EXPIRED"},
                  {{usage.policy().name(), ThrottlePolicy::State_Name(usage.policy().state()),
                    absl::StrCat(usage.held_count()), Limit(usage.policy().max_concurrent()),
                    waiting, PolicyTime(usage.has_oldest_waiter_time(), usage.oldest_waiter_time()),
                    absl::StrCat(usage.grants_per_second()),
                    absl::StrCat(usage.releases_per_second()), absl::StrCat(usage.granted_count()),
                    absl::StrCat(usage.released_count()), absl::StrCat(usage.expired_count())}}));
  if (usage.never_given_back())
    session.Say(
        "no token was ever given back, although hold times have ended: "
        "let the consumer give tokens back, or set schedules and events to --completion "
        "on-delivery");
  std::vector<Row> waiters;
  for (const auto& waiter : usage.waiters()) {
    waiters.push_back({waiter.schedule().empty() ? kOneOffEvents : waiter.schedule(),
                       absl::StrCat(waiter.waiting_count()),
                       PolicyTime(waiter.has_oldest_due_time(), waiter.oldest_due_time())});
  }
  if (!waiters.empty()) {
    session.Print("\n");
    session.Print(FormatTable({"WAITING SCHEDULE", "EVENTS", "OLDEST"}, waiters));
  }
  std::vector<Row> holders;
  for (const auto& holder : usage.holders()) {
    holders.push_back({holder.event(), absl::StrCat(holder.age().seconds(), "s"),
                       PolicyTime(holder.has_delivered_time(), holder.delivered_time()),
                       PolicyTime(holder.has_expire_time(), holder.expire_time()),
                       holder.overdue() ? "yes" : "-",
                       holder.token().empty() ? "-" : holder.token()});
  }
  if (!holders.empty()) {
    session.Print("\n");
    session.Print(
        FormatTable({"HOLDER", "AGE", "DELIVERED", "EXPIRES", "OVERDUE", "TOKEN"}, holders));
  }
}

void AddUsage(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto limit = std::make_shared<size_t>(100);
  auto keys = std::make_shared<bool>(false);
  CLI::App* command =
      group.add_subcommand("usage", "show who holds its tokens and who waits for one");
  command->add_option("name", *name, "id or full name")->required();
  command->add_option("--limit", *limit, "most holders to show")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--keys", *keys,
                    "also show the keys that wait longest and hold most; of events that hold, "
                    "those of the first page are counted");
  command->callback([name, limit, keys, &session] {
    v1::PolicyUsage usage;
    v1::GetPolicyUsageRequest request;
    request.set_name(session.FullName("policies", *name));
    bool first = true;
    const PagesRead read = ForEachPage(session, &PolicyStub::GetPolicyUsage, request, *limit,
                                       [&](const v1::PolicyUsage& page) {
                                         // The first page has everything; the others add only
                                         // holders.
                                         if (std::exchange(first, false)) {
                                           usage = page;
                                         } else {
                                           usage.mutable_holders()->MergeFrom(page.holders());
                                         }
                                         return page.holders_size();
                                       });
    if (!read.status.ok()) return session.Fail(read.status);
    usage.clear_next_page_token();
    if (session.format() == OutputFormat::kTable) {
      PrintUsageTables(session, usage);
      if (*keys) PrintBusiestKeys(session, usage);
    } else {
      session.Print(FormatMessage(usage, session.format()));
    }
    if (read.more) session.Say("escctl: there are more holders; raise --limit");
  });
}

}  // namespace

void AddPolicyCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("policy", "throttling policies: how many, how fast");
  group->require_subcommand(1);
  group->fallthrough();
  AddPolicyCreate(*group, session);
  AddPolicyUpdate(*group, session);
  AddPolicyGetAndList(*group, session);
  AddPolicyDelete(*group, session);
  AddPolicyPauseAndResume(*group, session);
  AddPolicyOverride(*group, session);
  AddPolicyClearOverride(*group, session);
  AddPolicyKeys(*group, session);
  AddUsage(*group, session);
}

}  // namespace escapement::escctl
