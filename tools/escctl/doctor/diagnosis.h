// The facts that `escctl doctor` has seen of an installation, and the findings made of them. Pure.
//
// A finding stands for what an alert says (deploy/prometheus/alerts.yaml), by the same thresholds,
// as far as one look can show it. An alert waits until its condition has held for some time; a
// finding does not. Rates and trends, such as burn rates or lost leases, need two looks: they are
// left to Prometheus. Metrics only add to what the public API has told.

#ifndef TOOLS_ESCCTL_DOCTOR_DIAGNOSIS_H_
#define TOOLS_ESCCTL_DOCTOR_DIAGNOSIS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "escapement/v1/dead_letter_service.pb.h"
#include "escapement/v1/store_service.pb.h"
#include "escapement/v1/target_service.pb.h"
#include "escapement/v1/tenant_service.pb.h"

namespace escapement::escctl {

// The thresholds of the alerts, by their names there. A test compares the two.
inline constexpr double kOverdueSeconds = 300;
inline constexpr double kBehindSeconds = 60;
inline constexpr double kEmissionBehindSeconds = 20;
inline constexpr double kHeartbeatLateSeconds = 20;
inline constexpr double kPolicyStuckSeconds = 900;
inline constexpr double kHoldersOverdue = 0;
inline constexpr double kRunsAtRisk = 0;
inline constexpr double kDiskFreeShare = 0.1;
inline constexpr double kFollowerLagSeconds = 30;
inline constexpr double kSnapshotSeconds = 172800;
inline constexpr double kCertificateSeconds = 1209600;
inline constexpr double kClockSeconds = 1;
// The part of a quota from which on it is near.
inline constexpr double kQuotaShare = 0.9;
// A replica of the store reports itself every second.
inline constexpr absl::Duration kSilentReplica = absl::Seconds(15);
// Younger dead letters are a warning, older ones a note.
inline constexpr absl::Duration kRecentDeadLetter = absl::Hours(24);
// At most this many targets of a tenant are named.
inline constexpr int kTargetsNamedMax = 10;

struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels = {};
  double value = 0;

  // "" if there is no such label.
  std::string Label(const std::string& label) const;
};

// The samples of a text of /metrics, in their order. Lines that cannot be read are skipped.
std::vector<MetricSample> ReadMetrics(absl::string_view text);

// The answer of one process to GET /metrics.
struct ProcessFacts {
  std::string url;           // as given to --metrics-url
  std::string problem = {};  // empty: it has answered
  std::vector<MetricSample> samples = {};
};

struct TenantFacts {
  std::string id;
  std::optional<v1::TenantUsage> usage = {};
  std::vector<v1::TargetStatus> targets = {};
  std::vector<v1::DeadLetter> dead_letters = {};  // the newest first
  bool more_dead_letters = false;
};

// A question that got no answer, and what to do about it.
struct Unseen {
  std::string what;
  std::string action;
  bool failed = false;  // the platform could not answer; otherwise nobody asked, or it refused
};

struct Facts {
  absl::Time now;
  std::string version = {};         // escctl's, as "1.2.3 (commit abc)"
  std::string server = {};          // host:port of the master
  std::string server_problem = {};  // why the master cannot be reached, or ""
  std::string server_advice = {};   // the action for the user
  std::string store_problem = {};   // why the master has no answer of the store, or ""
  // So many replicas of the store must lead or be able to, and each question must have an answer.
  // 0: the number is not known.
  int replicas_expected = 0;
  std::optional<v1::StoreStatus> store = {};
  std::optional<v1::StoreClock> clock = {};
  std::vector<TenantFacts> tenants = {};
  bool all_tenants = false;  // `tenants` has all, with their targets
  std::vector<ProcessFacts> processes = {};
  std::string curl_tls =
      {};  // flags with which curl reaches a process by https: "--cacert ca.pem "
  std::vector<Unseen> unseen = {};
};

// As in the alerts. A note is worth knowing, and nothing is wrong.
enum class Severity { kCritical, kWarning, kNote };

struct Finding {
  Severity severity;
  std::string place;    // the process, tenant or part of the platform
  std::string problem;  // a sentence without its full stop, on one line
  std::string action;   // a command or words
  std::string page;     // where to read on: a file below docs/, or ""
};

// The worst first.
std::vector<Finding> Diagnose(const Facts& facts);

std::string SeverityText(Severity severity);

// The findings as an array of JSON.
std::string FindingsJson(const std::vector<Finding>& findings);

// Parts of Diagnose.

// The page of an alert.
std::string RunbookOf(absl::string_view alert);

// "2h46m40s".
std::string SecondsText(double seconds);

// The least value above 0 of a metric over all processes; nullopt if there is none.
std::optional<double> LeastOf(const Facts& facts, absl::string_view metric);

// True if a process that leads, or is the whole store, refuses commits because its disk is full.
// AddProcessFindings has a finding of it.
bool LeaderDiskFull(const Facts& facts);

// Appends what the metrics show of processes, deliveries, policies, the store and certificates.
void AddProcessFindings(const Facts& facts, std::vector<Finding>& findings);

}  // namespace escapement::escctl

#endif  // TOOLS_ESCCTL_DOCTOR_DIAGNOSIS_H_
