#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "escapement/v1/policy_service.grpc.pb.h"
#include "tools/escctl/commands.h"
#include "tools/escctl/target_flags.h"
#include "tools/escctl/watch.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using v1::ThrottlePolicy;
using Stub = v1::PolicyService::Stub;

constexpr int32_t kPageSizeMax = 1000;

std::string Limit(int64_t value) { return value == 0 ? "-" : absl::StrCat(value); }
std::string Time(bool has, const google::protobuf::Timestamp& time) {
  return has ? TimeUtil::ToString(time) : "-";
}

Row ToRow(const ThrottlePolicy& p) {
  return {p.name(),
          ThrottlePolicy::State_Name(p.state()),
          Limit(p.max_concurrent()),
          p.max_per_second() == 0 ? "-" : absl::StrCat(p.max_per_second()),
          Limit(p.burst()),
          TimeUtil::ToString(p.hold_timeout()),
          ThrottlePolicy::OnExpiry_Name(p.on_expiry()),
          ThrottlePolicy::Fairness_Name(p.fairness()),
          absl::StrCat(p.version())};
}

const Row& Header() {
  static const Row header = {"NAME", "STATE",     "CONCURRENT", "PER-SECOND", "BURST",
                             "HOLD", "ON-EXPIRY", "FAIRNESS",   "VERSION"};
  return header;
}

void PrintPolicies(Session& session, const std::vector<ThrottlePolicy>& policies, bool list) {
  if (session.format() == OutputFormat::kTable) {
    std::vector<Row> rows;
    for (const auto& policy : policies) rows.push_back(ToRow(policy));
    return session.Print(FormatTable(Header(), rows));
  }
  if (!list) return session.Print(FormatMessage(policies.front(), session.format()));
  std::vector<const google::protobuf::Message*> messages;
  for (const auto& policy : policies) messages.push_back(&policy);
  session.Print(FormatMessages(messages, session.format()));
}

// Makes one call that answers with a policy, and prints the policy.
template <typename Request>
void CallAndPrint(Session& session, const Request& request,
                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                               ThrottlePolicy*)) {
  grpc::ClientContext context;
  session.Prepare(context);
  ThrottlePolicy policy;
  Stub stub(session.channel());
  const auto status = (stub.*method)(&context, request, &policy);
  if (!status.ok()) return session.Fail(status);
  PrintPolicies(session, {policy}, /*list=*/false);
}

// Flags of create and update. Flags override the file; 0 removes a limit.
struct Limits {
  std::string file;
  std::optional<int64_t> max_concurrent;
  std::optional<double> max_per_second;
  std::optional<int64_t> burst;
  std::optional<std::string> hold_timeout;
  std::optional<std::string> on_expiry;
  std::optional<std::string> fairness;
  std::optional<std::string> display_name;

  void Add(CLI::App& command) {
    command.add_option("-f,--file", file, "file with the policy in JSON; - = stdin");
    command.add_option("--max-concurrent,-m", max_concurrent,
                       "events out at once, over all its schedules; 0 = no limit");
    command.add_option("--max-per-second", max_per_second,
                       "events per second, e.g. 0.5; 0 = no limit");
    command.add_option("--burst", burst, "events that may go out at once, on top of the rate");
    command.add_option("--hold-timeout", hold_timeout,
                       "how long a consumer may hold a token, e.g. 1h30m");
    command
        .add_option("--on-expiry", on_expiry,
                    "after the hold timeout: RECLAIM the token, or let the consumer HOLD it")
        ->transform(CLI::IsMember({"RECLAIM", "HOLD"}, CLI::ignore_case));
    command.add_option("--fairness", fairness, "which event goes first: BY_SCHEDULE or FIFO")
        ->transform(CLI::IsMember({"BY_SCHEDULE", "FIFO"}, CLI::ignore_case));
    command.add_option("--display-name", display_name, "text for people");
  }

  absl::Status Apply(ThrottlePolicy& policy, std::vector<std::string>& fields) const {
    if (!file.empty()) {
      auto text = TextOrFile(absl::StrCat("@", file == "-" ? "/dev/stdin" : file));
      if (!text.ok()) return text.status();
      const auto parsed = google::protobuf::util::JsonStringToMessage(*text, &policy);
      if (!parsed.ok())
        return absl::InvalidArgumentError(absl::StrCat(file, ": ", parsed.ToString()));
    }
    const auto set = [&fields](const auto& value, const char* field, auto&& setter) {
      if (!value.has_value()) return;
      setter(*value);
      fields.push_back(field);
    };
    set(max_concurrent, "max_concurrent", [&](int64_t v) { policy.set_max_concurrent(v); });
    set(max_per_second, "max_per_second", [&](double v) { policy.set_max_per_second(v); });
    set(burst, "burst", [&](int64_t v) { policy.set_burst(v); });
    // CLI11 has checked that they are values, in upper case.
    set(on_expiry, "on_expiry", [&](const std::string& v) {
      ThrottlePolicy::OnExpiry parsed{};
      if (ThrottlePolicy::OnExpiry_Parse(v, &parsed)) policy.set_on_expiry(parsed);
    });
    set(fairness, "fairness", [&](const std::string& v) {
      ThrottlePolicy::Fairness parsed{};
      if (ThrottlePolicy::Fairness_Parse(v, &parsed)) policy.set_fairness(parsed);
    });
    set(display_name, "display_name", [&](const std::string& v) { policy.set_display_name(v); });
    if (!hold_timeout.has_value()) return absl::OkStatus();
    auto hold = ParseDurationFlag("--hold-timeout", *hold_timeout);
    if (!hold.ok()) return hold.status();
    *policy.mutable_hold_timeout() = *hold;
    fields.push_back("hold_timeout");
    return absl::OkStatus();
  }
};

void AddCreate(CLI::App& group, Session& session) {
  struct Options {
    Limits limits;
    std::string id;
    std::string request_id;
    bool validate_only = false;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("create", "create a policy");
  command->add_option("id", o->id, "last part of its name; the server makes one if it is missing");
  command->add_option("--request-id", o->request_id,
                      "makes it safe to repeat: the same id returns the first answer");
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
    CallAndPrint(session, request, &Stub::CreatePolicy);
  });
}

void AddUpdate(CLI::App& group, Session& session) {
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
    CallAndPrint(session, request, &Stub::UpdatePolicy);
  });
}

grpc::Status ListPolicies(Session& session, size_t limit, std::vector<ThrottlePolicy>& policies,
                          bool& more) {
  v1::ListPoliciesRequest request;
  request.set_parent(session.parent());
  do {
    request.set_page_size(
        static_cast<int32_t>(std::min<size_t>(kPageSizeMax, limit - policies.size())));
    grpc::ClientContext context;
    session.Prepare(context);
    v1::ListPoliciesResponse page;
    const auto status = Stub(session.channel()).ListPolicies(&context, request, &page);
    if (!status.ok()) return status;
    for (auto& policy : *page.mutable_policies()) policies.push_back(std::move(policy));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty() && policies.size() < limit);
  more = !request.page_token().empty();
  return grpc::Status::OK;
}

void AddGetAndList(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto get_watch = std::make_shared<WatchFlags>();
  CLI::App* get = group.add_subcommand("get", "show one policy");
  get->add_option("name", *name, "id or full name")->required();
  get_watch->Add(*get);
  get->callback([name, get_watch, &session] {
    v1::GetPolicyRequest request;
    request.set_name(session.FullName("policies", *name));
    if (!get_watch->wanted()) return CallAndPrint(session, request, &Stub::GetPolicy);
    get_watch->Run(session, Header(), [&] {
      grpc::ClientContext context;
      session.Prepare(context);
      std::vector<ThrottlePolicy> policy(1);
      auto status = Stub(session.channel()).GetPolicy(&context, request, &policy[0]);
      return Reading::Of(std::move(status), std::move(policy), ToRow);
    });
  });

  auto limit = std::make_shared<size_t>(1000);
  auto list_watch = std::make_shared<WatchFlags>();
  CLI::App* list = group.add_subcommand("list", "show the policies of the tenant");
  list->add_option("--limit", *limit, "most policies to show")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  list_watch->Add(*list);
  list->callback([limit, list_watch, &session] {
    bool more = false;
    if (list_watch->wanted()) {
      return list_watch->Run(session, Header(), [&] {
        std::vector<ThrottlePolicy> policies;
        auto status = ListPolicies(session, *limit, policies, more);
        return Reading::Of(std::move(status), std::move(policies), ToRow);
      });
    }
    std::vector<ThrottlePolicy> policies;
    const auto status = ListPolicies(session, *limit, policies, more);
    if (!status.ok()) return session.Fail(status);
    PrintPolicies(session, policies, /*list=*/true);
    if (more) session.Say("escctl: there are more policies; raise --limit");
  });
}

void AddDelete(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto etag = std::make_shared<std::string>();
  CLI::App* command =
      group.add_subcommand("delete", "delete a policy that no schedule and no event uses");
  command->add_option("name", *name, "id or full name")->required();
  command->add_option("--etag", *etag, "change it only if this is its current etag");
  command->callback([name, etag, &session] {
    v1::DeletePolicyRequest request;
    request.set_name(session.FullName("policies", *name));
    request.set_etag(*etag);
    grpc::ClientContext context;
    session.Prepare(context);
    google::protobuf::Empty nothing;
    const auto status = Stub(session.channel()).DeletePolicy(&context, request, &nothing);
    if (!status.ok()) return session.Fail(status);
    session.Say(absl::StrCat("deleted ", request.name()));
  });
}

void AddPauseAndResume(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto reason = std::make_shared<std::string>();
  CLI::App* pause = group.add_subcommand("pause", "grant no tokens until it is resumed");
  pause->add_option("name", *name, "id or full name")->required();
  pause->add_option("--reason", *reason, "why it is paused, for people");
  pause->callback([name, reason, &session] {
    v1::PausePolicyRequest request;
    request.set_name(session.FullName("policies", *name));
    request.set_reason(*reason);
    CallAndPrint(session, request, &Stub::PausePolicy);
  });
  CLI::App* resume = group.add_subcommand("resume", "grant tokens again");
  resume->add_option("name", *name, "id or full name")->required();
  resume->callback([name, &session] {
    v1::ResumePolicyRequest request;
    request.set_name(session.FullName("policies", *name));
    CallAndPrint(session, request, &Stub::ResumePolicy);
  });
}

void PrintUsageTables(Session& session, const v1::PolicyUsage& usage) {
  const std::string waiting =
      absl::StrCat(usage.waiting_count(), usage.waiting_truncated() ? "+" : "");
  session.Print(
      FormatTable({"NAME", "STATE", "HELD", "CONCURRENT", "WAITING", "OLDEST", "GRANTS/S",
                   "RELEASES/S", "GRANTED", "RELEASED", "EXPIRED"},
                  {{usage.policy().name(), ThrottlePolicy::State_Name(usage.policy().state()),
                    absl::StrCat(usage.held_count()), Limit(usage.policy().max_concurrent()),
                    waiting, Time(usage.has_oldest_waiter_time(), usage.oldest_waiter_time()),
                    absl::StrCat(usage.grants_per_second()),
                    absl::StrCat(usage.releases_per_second()), absl::StrCat(usage.granted_count()),
                    absl::StrCat(usage.released_count()), absl::StrCat(usage.expired_count())}}));
  std::vector<Row> waiters;
  for (const auto& waiter : usage.waiters()) {
    waiters.push_back({waiter.schedule(), absl::StrCat(waiter.waiting_count()),
                       Time(waiter.has_oldest_due_time(), waiter.oldest_due_time())});
  }
  if (!waiters.empty()) {
    session.Print("\n");
    session.Print(FormatTable({"WAITING SCHEDULE", "EVENTS", "OLDEST"}, waiters));
  }
  std::vector<Row> holders;
  for (const auto& holder : usage.holders()) {
    holders.push_back({holder.event(), absl::StrCat(holder.age().seconds(), "s"),
                       Time(holder.has_delivered_time(), holder.delivered_time()),
                       Time(holder.has_expire_time(), holder.expire_time()),
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
  auto limit = std::make_shared<int32_t>(100);
  CLI::App* command =
      group.add_subcommand("usage", "show who holds its tokens and who waits for one");
  command->add_option("name", *name, "id or full name")->required();
  command->add_option("--limit", *limit, "most holders to show")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->callback([name, limit, &session] {
    v1::PolicyUsage usage;
    v1::GetPolicyUsageRequest request;
    request.set_name(session.FullName("policies", *name));
    do {
      request.set_page_size(std::min(kPageSizeMax, *limit - usage.holders_size()));
      grpc::ClientContext context;
      session.Prepare(context);
      v1::PolicyUsage page;
      const auto status = Stub(session.channel()).GetPolicyUsage(&context, request, &page);
      if (!status.ok()) return session.Fail(status);
      // The first page has everything; the others add only holders.
      if (request.page_token().empty()) {
        usage = page;
      } else {
        usage.mutable_holders()->MergeFrom(page.holders());
      }
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty() && usage.holders_size() < *limit);
    usage.clear_next_page_token();
    if (session.format() == OutputFormat::kTable) {
      PrintUsageTables(session, usage);
    } else {
      session.Print(FormatMessage(usage, session.format()));
    }
    if (!request.page_token().empty()) session.Say("escctl: there are more holders; raise --limit");
  });
}

}  // namespace

void AddPolicyCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand("policy", "throttling policies: how many, how fast");
  group->require_subcommand(1);
  group->fallthrough();
  AddCreate(*group, session);
  AddUpdate(*group, session);
  AddGetAndList(*group, session);
  AddDelete(*group, session);
  AddPauseAndResume(*group, session);
  AddUsage(*group, session);
}

}  // namespace escapement::escctl
