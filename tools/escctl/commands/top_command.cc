#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "escapement/v1/policy_service.grpc.pb.h"
#include "tools/escctl/commands/commands.h"
#include "tools/escctl/commands/http_fetch.h"
#include "tools/escctl/commands/top_frame.h"

namespace escapement::escctl {
namespace {

using Stub = v1::PolicyService::Stub;

constexpr absl::Duration kPause = absl::Seconds(1);
constexpr int32_t kPoliciesMax = 100;  // each of them costs a call in every frame
constexpr int32_t kHoldersMax = 1000;

constexpr char kDescription[] =
    R"(show policies, waiting schedules and deliveries, every second

With --metrics-url also what the processes there have counted: deliveries, how late they were, events
that are out, queue rows in memory, and how far the emitter is behind. The first frame has the
lateness since the start, later frames that of the last second. A dash is a figure that no process
there measures.)";

struct TopOptions {
  std::vector<std::string> metrics_urls;
  bool once = false;
};

class Top {
 public:
  Top(Session& session, TopOptions options) : session_(session), options_(std::move(options)) {}

  // Returns whether there may be another frame.
  bool ShowFrame() {
    std::string frame;
    if (!options_.metrics_urls.empty()) {
      MetricsReading now{absl::Now(), {}};
      for (const std::string& url : options_.metrics_urls) {
        const auto text = HttpFetch(url, session_.tls(), kMetricsTimeout);
        if (!text.ok()) {
          if (absl::IsInvalidArgument(text.status())) {
            session_.FailUsage(absl::StrCat("--metrics-url: ", text.status().message()));
          } else {
            session_.Say(absl::StrCat("escctl: --metrics-url: ", text.status().message()));
            session_.SetFailed();
          }
          return false;
        }
        now.samples.Add(*text);
      }
      frame = absl::StrCat(MetricsTable(before_, now), "\n");
      before_ = std::move(now);
    }
    std::vector<v1::PolicyUsage> usages;
    bool more = false;
    if (const auto status = ReadUsages(usages, more); !status.ok()) {
      session_.Fail(status);
      return false;
    }
    absl::StrAppend(&frame, UsageTables(usages, absl::Now()));
    if (more) absl::StrAppend(&frame, "only the first ", kPoliciesMax, " policies are shown\n");
    const bool clears = !options_.once && isatty(STDOUT_FILENO) == 1;
    session_.Print(absl::StrCat(clears ? "\x1b[H\x1b[2J" : "", frame, options_.once ? "" : "\n"));
    std::fflush(stdout);
    return true;
  }

 private:
  grpc::Status ReadUsages(std::vector<v1::PolicyUsage>& usages, bool& more) {
    v1::ListPoliciesRequest request;
    request.set_parent(session_.parent());
    request.set_page_size(kPoliciesMax);
    v1::ListPoliciesResponse policies;
    grpc::Status status = session_.Call(&Stub::ListPolicies, request, policies);
    if (!status.ok()) return status;
    more = !policies.next_page_token().empty();
    for (const auto& policy : policies.policies()) {
      v1::GetPolicyUsageRequest usage_request;
      usage_request.set_name(policy.name());
      usage_request.set_page_size(kHoldersMax);
      v1::PolicyUsage usage;
      status = session_.Call(&Stub::GetPolicyUsage, usage_request, usage);
      // A policy that was just deleted is left out.
      if (status.error_code() == grpc::StatusCode::NOT_FOUND) continue;
      if (!status.ok()) return status;
      usages.push_back(std::move(usage));
    }
    return grpc::Status::OK;
  }

  Session& session_;
  const TopOptions options_;
  std::optional<MetricsReading> before_;
};

}  // namespace

void AddTopCommand(CLI::App& app, Session& session) {
  auto o = std::make_shared<TopOptions>();
  CLI::App* command = app.add_subcommand("top", kDescription);
  command
      ->add_option("--metrics-url", o->metrics_urls,
                   "HTTP address of a process, e.g. http://127.0.0.1:7411; may be repeated")
      ->allow_extra_args(false);
  command->add_flag("--once", o->once, "print one frame and end");
  command->callback([o, &session] {
    Top top(session, *o);
    while (top.ShowFrame() && !o->once) absl::SleepFor(kPause);
  });
}

}  // namespace escapement::escctl
