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
#include "escapement/v1/notification_service.grpc.pb.h"
#include "tools/escctl/base/flags.h"
#include "tools/escctl/base/target_flags.h"
#include "tools/escctl/commands/commands.h"

namespace escapement::escctl {
namespace {

using google::protobuf::util::TimeUtil;
using v1::Subscription;
using SubscriptionStub = v1::NotificationService::Stub;

constexpr char kOneOffEventsShown[] = "one-off events";

// Names without the tenant, which is the session's.
std::string ShortName(const std::string& name) { return name.substr(name.rfind('/') + 1); }

std::string KindsShown(const Subscription& subscription) {
  std::vector<std::string> names;
  for (const int kind : subscription.kinds())
    names.push_back(Subscription::Kind_Name(static_cast<Subscription::Kind>(kind)));
  return names.empty() ? "all" : absl::StrJoin(names, " ");
}

// "http", "email"
std::string TargetKindShown(const v1::Target& target) {
  const auto* kind = target.GetReflection()->GetOneofFieldDescriptor(
      target, v1::Target::descriptor()->FindOneofByName("kind"));
  return kind == nullptr ? "-" : kind->name();
}

Row SubscriptionRow(const Subscription& s) {
  return {s.name(),
          s.filter().empty() ? "all schedules" : s.filter(),
          KindsShown(s),
          TimeUtil::ToString(s.late_by()),
          TargetKindShown(s.target()),
          absl::StrCat(s.problem_count()),
          absl::StrCat(s.version())};
}

const Row& SubscriptionHeader() {
  static const Row header = {"NAME", "FILTER", "KINDS", "LATE-BY", "TARGET", "PROBLEMS", "VERSION"};
  return header;
}

void PrintSubscription(Session& session, const Subscription& subscription) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatMessage(subscription, session.format()));
  session.Print(FormatTable(SubscriptionHeader(), {SubscriptionRow(subscription)}));
}

void PrintProblems(Session& session, const Subscription& subscription) {
  std::string words =
      subscription.has_check_time()
          ? absl::StrCat("checked up to ", TimeUtil::ToString(subscription.check_time()))
          : "not checked yet";
  absl::StrAppend(&words, "; problems: ", subscription.problem_count());
  if (!subscription.last_event().empty()) {
    absl::StrAppend(&words, "; last message: ", ShortName(subscription.last_event()), " of ",
                    TimeUtil::ToString(subscription.last_event_time()));
  }
  session.Print(absl::StrCat("\n", words, "\n"));
  std::vector<Row> rows;
  for (const Subscription::Problem& problem : subscription.problems()) {
    rows.push_back({Subscription::Kind_Name(problem.kind()),
                    problem.schedule().empty() ? kOneOffEventsShown : ShortName(problem.schedule()),
                    TimeUtil::ToString(problem.begin_time()),
                    TimeUtil::ToString(problem.last_time()), absl::StrCat(problem.count()),
                    problem.has_notify_time() ? TimeUtil::ToString(problem.notify_time()) : "-",
                    problem.resource().empty() ? "-" : ShortName(problem.resource()),
                    problem.detail().empty() ? "-" : problem.detail()});
  }
  if (rows.empty()) return;
  session.Print("\n");
  session.Print(FormatTable(
      {"PROBLEM", "SCHEDULE", "BEGAN", "LAST", "COUNT", "NOTIFIED", "LAST RUN", "DETAIL"}, rows));
  const int64_t further = subscription.problem_count() - subscription.problems_size();
  if (further > 0) session.Say(absl::StrCat("escctl: ", further, " further problems last"));
}

// Flags of create and update. Flags override the file; "" removes the values of a list.
class SubscriptionFlags {
 public:
  void Add(CLI::App& command) {
    command.add_option("-f,--file", file_, "file with the subscription in JSON; - = stdin");
    filter_.Add(command);
    command
        .add_option(
            "--kind", kinds_,
            "which problems: failed, late, missed, paused or at-risk; may be repeated; \"\" "
            "for every kind")
        ->allow_extra_args(false);
    command.add_option("--late-by", late_by_,
                       "how long a run may wait before it counts as late, e.g. 10m; \"\" for the "
                       "default");
    command.add_option("--display-name", display_name_, "text for people");
    target_.Add(command);
  }
  bool from_file() const { return !file_.empty(); }

  absl::Status Apply(Subscription& subscription, std::vector<std::string>& fields) const {
    if (!file_.empty()) {
      ASSIGN_OR_RETURN(auto text,
                       TextOrFile(absl::StrCat("@", file_ == "-" ? "/dev/stdin" : file_)));
      if (const absl::Status parsed = rest::MessageFromJson(text, subscription); !parsed.ok())
        return absl::InvalidArgumentError(absl::StrCat(file_, ": ", parsed.message()));
    }
    ASSIGN_OR_RETURN(const auto filter, filter_.Filter());
    if (filter.has_value()) {
      subscription.set_filter(*filter);
      fields.push_back("filter");
    }
    RETURN_IF_ERROR(ApplyKinds(subscription, fields));
    if (late_by_.has_value()) {
      subscription.clear_late_by();
      if (!late_by_->empty()) {
        ASSIGN_OR_RETURN(*subscription.mutable_late_by(),
                         ParseDurationFlag("--late-by", *late_by_));
      }
      fields.push_back("late_by");
    }
    if (display_name_.has_value()) {
      subscription.set_display_name(*display_name_);
      fields.push_back("display_name");
    }
    ASSIGN_OR_RETURN(auto target, target_.Target());
    if (!target.has_value()) return absl::OkStatus();
    *subscription.mutable_target() = *std::move(target);
    fields.push_back("target");
    return absl::OkStatus();
  }

 private:
  absl::Status ApplyKinds(Subscription& subscription, std::vector<std::string>& fields) const {
    if (kinds_.empty()) return absl::OkStatus();
    subscription.clear_kinds();
    fields.push_back("kinds");
    if (kinds_ == std::vector<std::string>{""}) return absl::OkStatus();
    for (const std::string& word : kinds_) {
      Subscription::Kind kind{};
      if (!Subscription::Kind_Parse(EnumName(word), &kind) || kind == 0)
        return NoSuchValue("--kind", word, "failed, late, missed, paused, at-risk");
      subscription.add_kinds(kind);
    }
    return absl::OkStatus();
  }

  std::string file_;
  ScheduleFilterFlags filter_;
  std::vector<std::string> kinds_;
  std::optional<std::string> late_by_;
  std::optional<std::string> display_name_;
  TargetKindFlags target_;
};

void AddSubscriptionCreate(CLI::App& group, Session& session) {
  struct Options {
    SubscriptionFlags flags;
    std::string id;
    std::string request_id;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand("create", "create a subscription");
  command->add_option("id", o->id, "last part of its name; the server makes one if it is missing");
  AddRequestId(*command, o->request_id);
  auto dry = AddValidateOnly(*command);
  o->flags.Add(*command);
  command->callback([o, dry, &session] {
    v1::CreateSubscriptionRequest request;
    std::vector<std::string> fields;
    auto status = o->flags.Apply(*request.mutable_subscription(), fields);
    if (!status.ok()) return session.FailUsage(status.message());
    request.set_parent(session.parent());
    request.set_subscription_id(o->id);
    request.set_request_id(o->request_id);
    request.set_validate_only(*dry);
    Subscription subscription;
    if (auto failed = session.Call(&SubscriptionStub::CreateSubscription, request, subscription);
        !failed.ok())
      return session.Fail(failed);
    PrintSubscription(session, subscription);
  });
}

void AddSubscriptionUpdate(CLI::App& group, Session& session) {
  struct Options {
    SubscriptionFlags flags;
    std::string name;
    std::string etag;
    std::string request_id;
  };
  auto o = std::make_shared<Options>();
  CLI::App* command = group.add_subcommand(
      "update", "change the given fields; problems of schedules that it leaves out end");
  command->add_option("name", o->name, "id or full name")->required();
  command->add_option("--etag", o->etag, "change it only if this is its current etag");
  AddRequestId(*command, o->request_id);
  auto dry = AddValidateOnly(*command);
  o->flags.Add(*command);
  command->callback([o, dry, &session] {
    v1::UpdateSubscriptionRequest request;
    std::vector<std::string> fields;
    auto status = o->flags.Apply(*request.mutable_subscription(), fields);
    if (!status.ok()) return session.FailUsage(status.message());
    // A file replaces every field that can change.
    if (o->flags.from_file()) {
      request.mutable_update_mask()->add_paths("*");
    } else {
      if (fields.empty()) return session.FailUsage("give at least one flag that changes something");
      for (const std::string& field : fields) request.mutable_update_mask()->add_paths(field);
    }
    request.mutable_subscription()->set_name(session.FullName("subscriptions", o->name));
    if (!o->etag.empty()) request.mutable_subscription()->set_etag(o->etag);
    request.set_request_id(o->request_id);
    request.set_validate_only(*dry);
    Subscription subscription;
    if (auto failed = session.Call(&SubscriptionStub::UpdateSubscription, request, subscription);
        !failed.ok())
      return session.Fail(failed);
    PrintSubscription(session, subscription);
  });
}

void AddSubscriptionGetAndList(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  CLI::App* get = group.add_subcommand("get", "show one subscription and the problems that last");
  get->add_option("name", *name, "id or full name")->required();
  get->callback([name, &session] {
    v1::GetSubscriptionRequest request;
    request.set_name(session.FullName("subscriptions", *name));
    Subscription subscription;
    if (auto failed = session.Call(&SubscriptionStub::GetSubscription, request, subscription);
        !failed.ok())
      return session.Fail(failed);
    PrintSubscription(session, subscription);
    if (session.format() == OutputFormat::kTable) PrintProblems(session, subscription);
  });

  auto flags = std::make_shared<ListFlags>();
  CLI::App* list = group.add_subcommand("list", "show the subscriptions of the tenant");
  flags->Add(*list, "subscriptions", "", "");
  list->callback([flags, &session] {
    flags->Run(
        session, SubscriptionHeader(), &SubscriptionStub::ListSubscriptions,
        v1::ListSubscriptionsRequest(), [](auto& page) { return page.mutable_subscriptions(); },
        SubscriptionRow);
  });
}

void AddSubscriptionDelete(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto etag = std::make_shared<std::string>();
  CLI::App* command =
      group.add_subcommand("delete", "delete a subscription; messages under way are still sent");
  command->add_option("name", *name, "id or full name")->required();
  command->add_option("--etag", *etag, "delete it only if this is its current etag");
  auto dry = AddValidateOnly(*command);
  command->callback([name, etag, dry, &session] {
    v1::DeleteSubscriptionRequest request;
    request.set_name(session.FullName("subscriptions", *name));
    request.set_etag(*etag);
    request.set_validate_only(*dry);
    google::protobuf::Empty nothing;
    const auto status = session.Call(&SubscriptionStub::DeleteSubscription, request, nothing);
    if (!status.ok()) return session.Fail(status);
    session.Say(absl::StrCat(*dry ? "can be deleted: " : "deleted ", request.name()));
  });
}

void AddSubscriptionTest(CLI::App& group, Session& session) {
  auto name = std::make_shared<std::string>();
  auto request_id = std::make_shared<std::string>();
  CLI::App* command = group.add_subcommand("test", "send a message without problems to its target");
  command->add_option("name", *name, "id or full name")->required();
  AddRequestId(*command, *request_id);
  auto dry = AddValidateOnly(*command);
  command->callback([name, request_id, dry, &session] {
    v1::TestSubscriptionRequest request;
    request.set_name(session.FullName("subscriptions", *name));
    request.set_request_id(*request_id);
    request.set_validate_only(*dry);
    v1::TestSubscriptionResponse response;
    const auto status = session.Call(&SubscriptionStub::TestSubscription, request, response);
    if (!status.ok()) return session.Fail(status);
    if (session.format() != OutputFormat::kTable)
      return session.Print(FormatMessage(response, session.format()));
    if (*dry) return session.Say(absl::StrCat("can be tested: ", request.name()));
    session.Print(FormatTable({"MESSAGE"}, {{response.event()}}));
    session.Say(
        absl::StrCat("escctl: what became of it: escctl event get ", ShortName(response.event())));
  });
}

}  // namespace

void AddSubscriptionCommands(CLI::App& app, Session& session) {
  CLI::App* group = app.add_subcommand(
      "subscription",
      "subscriptions: messages to people or a webhook when schedules fail, are late or are paused");
  group->require_subcommand(1);
  group->fallthrough();
  AddSubscriptionCreate(*group, session);
  AddSubscriptionGetAndList(*group, session);
  AddSubscriptionUpdate(*group, session);
  AddSubscriptionDelete(*group, session);
  AddSubscriptionTest(*group, session);
}

}  // namespace escapement::escctl
