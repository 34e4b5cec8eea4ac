// `escctl doctor`.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/rpc/status_conversion.h"
#include "common/version/version.h"
#include "escapement/v1/dead_letter_service.grpc.pb.h"
#include "escapement/v1/store_service.grpc.pb.h"
#include "escapement/v1/target_service.grpc.pb.h"
#include "escapement/v1/tenant_service.grpc.pb.h"
#include "tools/escctl/base/pages.h"
#include "tools/escctl/commands/commands.h"
#include "tools/escctl/commands/http_fetch.h"
#include "tools/escctl/doctor/diagnosis.h"

namespace escapement::escctl {
namespace {

constexpr size_t kTenantsMax = 100;  // each of them costs three calls
constexpr size_t kDeadLettersMax = 1000;

constexpr char kDoctorDescription[] =
    R"(look for what is wrong with an installation, and say what to do

Asks the master for the store, its replicas, the clocks, and for quotas, targets and dead letters of
each tenant. With --metrics-url also each process that is named: whether it is there and ready, its
version, what is overdue, policies that give no token, disks and certificates. Name all processes of
the installation: it sees no others, and only says which shards are theirs.

--failover N asks only whether the store survives the loss of a process: N of its replicas lead or
could take over now, and PostgreSQL loses no commit with one of its machines.

One line for each finding, the worst first. A NOTE is worth knowing, but nothing is wrong. The exit
code is 0 without any CRITICAL or WARNING, otherwise 1. The thresholds are those of the alerts. What
only shows over time, such as burn rates, is left to the alerts.)";

// Fills in Facts.
class Examination {
 public:
  // `replicas_expected`: as in Facts; if it is not 0, only the store is asked about.
  Examination(Session& session, int replicas_expected) : session_(session) {
    facts_.now = absl::Now();
    facts_.replicas_expected = replicas_expected;
    facts_.version = absl::StrCat(Version(), " (commit ", Commit(), ")");
    facts_.server = session.server();
    const PeerTls& tls = session.tls();
    if (!tls.ca.empty()) absl::StrAppend(&facts_.curl_tls, "--cacert ", tls.ca, " ");
    if (!tls.cert.empty())
      absl::StrAppend(&facts_.curl_tls, "--cert ", tls.cert, " --key ", tls.key, " ");
  }

  // False if a URL is wrong; the user has been told.
  bool AskProcesses(const std::vector<std::string>& urls) {
    for (const std::string& url : urls) {
      ProcessFacts process{.url = url};
      const auto text = HttpFetch(url, session_.tls(), kMetricsTimeout);
      if (absl::IsInvalidArgument(text.status())) {
        session_.FailUsage(absl::StrCat("--metrics-url: ", text.status().message()));
        return false;
      }
      if (text.ok()) {
        process.samples = ReadMetrics(*text);
      } else {
        process.problem = std::string(text.status().message());
      }
      facts_.processes.push_back(std::move(process));
    }
    if (urls.empty() && !OnlyStore()) {
      facts_.unseen.push_back(
          {.what = "processes: whether each is there and ready, versions, what is overdue, disks, "
                   "certificates",
           .action = "escctl doctor --metrics-url URL, for each process"});
    }
    return true;
  }

  // False if the credentials are not accepted; the user has been told.
  bool AskMaster() {
    if (!AskStore()) return false;
    if (!facts_.server_problem.empty()) return true;
    if (!facts_.store_problem.empty()) {
      facts_.unseen.push_back(
          {"tenants, because the store does not answer", "mend it, and ask again"});
      return true;
    }
    if (OnlyStore()) return true;
    std::vector<v1::Tenant> tenants;
    const PagesRead read = ReadPages(
        session_, &v1::TenantService::Stub::ListTenants, v1::ListTenantsRequest(), kTenantsMax,
        [](v1::ListTenantsResponse& page) { return page.mutable_tenants(); }, tenants);
    std::vector<std::string> names;
    for (const v1::Tenant& tenant : tenants) names.push_back(tenant.name());
    // A key of one tenant may list that tenant. One that may see the store sees all tenants.
    facts_.all_tenants = read.status.ok() && !read.more && facts_.store.has_value();
    if (read.more) {
      facts_.unseen.push_back({.what = absl::StrCat("tenants after the first ", kTenantsMax),
                               .action = "escctl --tenant TENANT target list, deadletter list"});
    }
    if (!Take(read.status, "the tenants") && !facts_.unseen.back().failed)
      names.push_back(session_.parent());
    for (const std::string& name : names) AskTenant(name);
    return true;
  }

  const Facts& facts() const { return facts_; }

 private:
  bool OnlyStore() const { return facts_.replicas_expected > 0; }

  // Says what the user can do about it, or "".
  std::string AdviceOn(const absl::Status& status) const {
    const std::string advice = session_.Advice(status);
    return std::string(absl::StripPrefix(advice, "; "));
  }

  // True if the call has an answer. Otherwise the question is one that was not answered.
  bool Take(const grpc::Status& wire, const std::string& what) {
    if (wire.ok()) return true;
    const absl::Status status = FromGrpcStatus(wire);
    const bool refused = absl::IsPermissionDenied(status) || absl::IsNotFound(status) ||
                         absl::IsUnimplemented(status);
    facts_.unseen.push_back(
        {.what = absl::StrCat(what, ": ", status.message()),
         .action = refused
                       ? AdviceOn(status)
                       : "ask again in a minute; then look at /readyz and the log of the master",
         .failed = !refused});
    return false;
  }

  bool AskStore() {
    using Stub = v1::StoreService::Stub;
    v1::StoreStatus status;
    const grpc::Status got = session_.Call(&Stub::GetStatus, v1::GetStatusRequest(), status);
    if (got.error_code() == grpc::StatusCode::UNAUTHENTICATED) {
      session_.Fail(got);
      return false;
    }
    if (got.error_code() == grpc::StatusCode::UNAVAILABLE ||
        got.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
      // If the master does not answer, there is no connection.
      if (session_.channel()->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_READY) {
        facts_.store_problem = got.error_message();
      } else {
        facts_.server_problem = got.error_message();
        facts_.server_advice = AdviceOn(FromGrpcStatus(got));
        return true;
      }
    } else if (Take(got, "the store")) {
      facts_.store = std::move(status);
    }
    if (!facts_.store.has_value()) return true;
    v1::StoreClock clock;
    if (Take(session_.Call(&Stub::GetClock, v1::GetClockRequest(), clock), "the clocks"))
      facts_.clock = std::move(clock);
    return true;
  }

  void AskTenant(const std::string& name) {
    TenantFacts tenant{.id = std::string(absl::StripPrefix(name, "tenants/"))};
    const auto of = [&](absl::string_view what) {
      return absl::StrCat(what, " of tenant ", tenant.id);
    };
    v1::GetTenantUsageRequest usage_request;
    usage_request.set_name(name);
    v1::TenantUsage usage;
    const grpc::Status used =
        session_.Call(&v1::TenantService::Stub::GetTenantUsage, usage_request, usage);
    if (Take(used, of("the quotas"))) tenant.usage = std::move(usage);

    v1::ListTargetsRequest targets;
    targets.set_parent(name);
    const PagesRead targets_read = ReadPages(
        session_, &v1::TargetService::Stub::ListTargets, targets, kNoLimit,
        [](v1::ListTargetsResponse& page) { return page.mutable_targets(); }, tenant.targets);
    if (!Take(targets_read.status, of("the targets"))) facts_.all_tenants = false;

    v1::ListDeadLettersRequest letters;
    letters.set_parent(name);
    const PagesRead letters_read = ReadPages(
        session_, &v1::DeadLetterService::Stub::ListDeadLetters, letters, kDeadLettersMax,
        [](v1::ListDeadLettersResponse& page) { return page.mutable_dead_letters(); },
        tenant.dead_letters);
    Take(letters_read.status, of("the dead letters"));
    tenant.more_dead_letters = letters_read.more;
    facts_.tenants.push_back(std::move(tenant));
  }

  Session& session_;
  Facts facts_;
};

void PrintFindings(Session& session, const std::vector<Finding>& findings) {
  if (session.format() != OutputFormat::kTable)
    return session.Print(FormatJsonText(FindingsJson(findings), session.format()));
  if (findings.empty()) return;
  std::vector<Row> rows;
  for (const Finding& finding : findings) {
    rows.push_back({SeverityText(finding.severity), finding.place, finding.problem, finding.action,
                    finding.page});
  }
  session.Print(FormatTable({"SEVERITY", "WHERE", "PROBLEM", "WHAT TO DO", "READ"}, rows));
}

void RunDoctor(Session& session, const std::vector<std::string>& urls, int replicas_expected) {
  Examination examination(session, replicas_expected);
  if (!examination.AskProcesses(urls) || !examination.AskMaster()) return;
  const std::vector<Finding> findings = Diagnose(examination.facts());
  PrintFindings(session, findings);
  const auto wrong = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity != Severity::kNote;
  });
  if (wrong == 0) return session.Say("nothing is wrong in what was checked");
  session.Say(absl::StrCat(Counted(static_cast<size_t>(wrong), "problem"), " found"));
  session.SetFailed();
}

}  // namespace

void AddDoctorCommand(CLI::App& app, Session& session) {
  auto urls = std::make_shared<std::vector<std::string>>();
  auto failover = std::make_shared<int>(0);
  CLI::App* command = app.add_subcommand("doctor", kDoctorDescription);
  CLI::Option* metrics_url =
      command
          ->add_option("--metrics-url", *urls,
                       "HTTP or HTTPS address of a process, e.g. http://127.0.0.1:7411; may be "
                       "repeated")
          ->allow_extra_args(false);
  command
      ->add_option("--failover", *failover,
                   "check only that the store can fail over between so many replicas")
      ->check(CLI::PositiveNumber)
      ->excludes(metrics_url);
  command->callback([urls, failover, &session] { RunDoctor(session, *urls, *failover); });
}

}  // namespace escapement::escctl
