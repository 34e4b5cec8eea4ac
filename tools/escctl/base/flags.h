// Flags that take one of several words: "carry-over" for CARRY_OVER.

#ifndef TOOLS_ESCCTL_BASE_FLAGS_H_
#define TOOLS_ESCCTL_BASE_FLAGS_H_

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "escapement/v1/resources.pb.h"
#include "google/protobuf/duration.pb.h"
#include "tools/escctl/base/pages.h"
#include "tools/escctl/base/session.h"
#include "tools/escctl/base/watch.h"

namespace escapement::escctl {

// The enum value's name for the word.
inline std::string EnumName(absl::string_view text) {
  return absl::StrReplaceAll(absl::AsciiStrToUpper(text), {{"-", "_"}});
}

inline absl::Status NoSuchValue(absl::string_view flag, absl::string_view text,
                                absl::string_view values) {
  return absl::InvalidArgumentError(absl::StrCat(flag, ": '", text, "' is not one of ", values));
}

// The flag that was given to the running command and whose value is in this field of the request:
// "--every" for "schedule.interval.every", "--label[k]" for "schedule.labels[k]", "--target
// http.uri" for "schedule.target.http.uri". "" if there is none.
std::string FlagOfField(const CLI::App& command, absl::string_view field);

// How values of flags are read.

// Parses "90s", "1h30m", "5min" or "2d" (a day is 24 h).
absl::StatusOr<google::protobuf::Duration> ParseDurationFlag(const std::string& name,
                                                             const std::string& text);

// The policies of a schedule or event for a table; "-": none.
template <typename Message>
std::string PoliciesShown(const Message& message) {
  std::string shown = message.policy();
  for (const v1::Limit& limit : message.limits())
    absl::StrAppend(&shown, shown.empty() ? "" : ",", limit.policy());
  return shown.empty() ? "-" : shown;
}

// The text itself, or the content of a file if it begins with '@'.
absl::StatusOr<std::string> TextOrFile(const std::string& text);

// Parses "k=v" pairs.
absl::StatusOr<std::vector<std::pair<std::string, std::string>>> ParsePairs(
    const std::string& flag, const std::vector<std::string>& pairs);

// --filter, --order-by, --limit and --watch of the lists.

template <typename Message, typename ToRow>
void PrintList(Session& session, const Row& header, const std::vector<Message>& list,
               const ToRow& to_row) {
  if (session.format() == OutputFormat::kTable) {
    std::vector<Row> rows;
    for (const auto& message : list) rows.push_back(to_row(message));
    return session.Print(FormatTable(header, rows));
  }
  std::vector<const google::protobuf::Message*> messages;
  for (const auto& message : list) messages.push_back(&message);
  session.Print(FormatMessages(messages, session.format()));
}

class ListFlags {
 public:
  // `fields` and `orders` say what --filter and --order-by take. If one is empty, the list has no
  // such flag.
  void Add(CLI::App& command, absl::string_view noun, absl::string_view fields,
           absl::string_view orders) {
    AddWithoutWatch(command, noun, fields, orders);
    watch_.Add(command);
  }
  void AddWithoutWatch(CLI::App& command, absl::string_view noun, absl::string_view fields,
                       absl::string_view orders) {
    noun_ = std::string(noun);
    command.add_option("--limit", limit_, absl::StrCat("most ", noun, " to show"))
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    if (!fields.empty()) {
      command.add_option("--filter", filter_,
                         absl::StrCat("conditions on ", fields, ", joined by AND, OR, NOT"));
    }
    if (!orders.empty()) command.add_option("--order-by", order_by_, std::string(orders));
  }

  // Reads at most --limit items, page by page, and prints them. `items` gives the items of a page.
  // A request without a parent gets that of the session.
  template <typename Stub, typename Request, typename Page, typename Items, typename ToRow>
  void Run(Session& session, const Row& header,
           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Page*),
           std::type_identity_t<Request> request, const Items& items, const ToRow& to_row) const {
    using Message = std::decay_t<decltype(*items(std::declval<Page&>())->begin())>;
    if constexpr (requires { request.parent(); }) {
      if (request.parent().empty()) request.set_parent(session.parent());
    }
    if constexpr (requires { request.filter(); }) request.set_filter(filter_);
    if constexpr (requires { request.order_by(); }) request.set_order_by(order_by_);
    if (watch_.wanted()) {
      return watch_.Run(session, header, [&] {
        std::vector<Message> list;
        PagesRead read = ReadPages(session, method, request, limit_, items, list);
        return Reading::Of(std::move(read.status), std::move(list), to_row);
      });
    }
    std::vector<Message> list;
    const PagesRead read = ReadPages(session, method, request, limit_, items, list);
    if (!read.status.ok()) return session.Fail(read.status);
    PrintList(session, header, list, to_row);
    if (read.more) session.Say(absl::StrCat("escctl: there are more ", noun_, "; raise --limit"));
  }

 private:
  std::string noun_;
  size_t limit_ = 1000;
  std::string filter_;
  std::string order_by_;
  WatchFlags watch_;
};

// Flags that say which schedules are meant: --filter, or conditions that make one.

class ScheduleFilterFlags {
 public:
  void Add(CLI::App& command);

  // As ListSchedulesRequest.filter. nullopt: none of the flags is given.
  absl::StatusOr<std::optional<std::string>> Filter() const;

 private:
  std::optional<std::string> filter_;
  std::vector<std::string> schedules_;
  std::vector<std::string> labels_;
};

// Flags that schedules and one-off events share: the policy, and when an event has ended.

class PolicyFlags {
 public:
  void Add(CLI::App& command);

  // Writes the given flags into a Schedule or an Event and appends the mask paths that it set; an
  // empty policy or limit clears its field. `policy_name` turns an id into a policy's full name.
  template <typename Message>
  absl::Status Apply(const std::function<std::string(const std::string&)>& policy_name,
                     Message& message, std::vector<std::string>& fields) const {
    if (!limits_.empty()) {
      ASSIGN_OR_RETURN(const std::vector<v1::Limit> limits, ReadLimits(policy_name));
      message.clear_policy();
      message.clear_policy_key();
      *message.mutable_limits() = {limits.begin(), limits.end()};
      fields.push_back("limits");
    }
    if (policy_.has_value()) {
      message.clear_limits();
      message.set_policy(policy_->empty() ? std::string() : policy_name(*policy_));
      fields.push_back("policy");
    }
    if (policy_key_.has_value()) {
      message.set_policy_key(*policy_key_);
      fields.push_back("policy_key");
    }
    if (!completion_.has_value()) return absl::OkStatus();
    v1::Completion completion{};
    if (!v1::Completion_Parse(EnumName(*completion_), &completion))
      return NoSuchValue("--completion", *completion_, "on-delivery, on-release");
    message.set_completion(completion);
    fields.push_back("completion");
    return absl::OkStatus();
  }

 private:
  // POLICY[=KEY][:WEIGHT] each.
  absl::StatusOr<std::vector<v1::Limit>> ReadLimits(
      const std::function<std::string(const std::string&)>& policy_name) const;

  std::optional<std::string> policy_;
  std::optional<std::string> policy_key_;
  std::vector<std::string> limits_;
  std::optional<std::string> completion_;
};

// Flags about throttling, and about the events at the end of runs.

class ThrottleFlags {
 public:
  void Add(CLI::App& command);

  // Writes the given flags into the schedule and appends the mask paths that it set; an empty text
  // clears its field. `policy_name` turns an id into a policy's full name.
  absl::Status Apply(const std::function<std::string(const std::string&)>& policy_name,
                     v1::Schedule& schedule, std::vector<std::string>& fields) const;

 private:
  absl::Status ApplyWindow(v1::Schedule& schedule, std::vector<std::string>& fields) const;
  absl::Status ApplyOnComplete(v1::Schedule& schedule, std::vector<std::string>& fields) const;

  PolicyFlags policy_;
  std::optional<std::string> window_;
  std::optional<std::string> pacing_;
  std::optional<std::string> on_close_;
  std::optional<std::string> on_complete_http_;
  std::optional<std::string> on_complete_grpc_;
  std::optional<std::string> on_complete_when_;
};

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_BASE_FLAGS_H_
