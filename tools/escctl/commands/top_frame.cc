#include "tools/escctl/commands/top_frame.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "tools/escctl/base/output.h"
#include "tools/escctl/doctor/diagnosis.h"

namespace escapement::escctl {

namespace {

constexpr absl::string_view kBucket = "_bucket";

double CountUpTo(const std::map<double, double>& buckets, double bound) {
  const auto found = buckets.find(bound);
  return found == buckets.end() ? 0 : found->second;
}

std::optional<double> Find(const std::map<std::string, double, std::less<>>& values,
                           absl::string_view name) {
  const auto found = values.find(name);
  return found == values.end() ? std::nullopt : std::make_optional(found->second);
}

}  // namespace

void MetricSamples::Add(absl::string_view text) {
  for (const MetricSample& sample : ReadMetrics(text)) {
    absl::string_view name = sample.name;
    if (absl::ConsumeSuffix(&name, kBucket)) {
      double bound;
      if (absl::SimpleAtod(sample.Label("le"), &bound))
        buckets_[std::string(name)][bound] += sample.value;
      continue;
    }
    sums_[sample.name] += sample.value;
    const auto [maximum, added] = maxima_.emplace(sample.name, sample.value);
    if (!added) maximum->second = std::max(maximum->second, sample.value);
  }
}

std::optional<double> MetricSamples::Sum(absl::string_view name) const { return Find(sums_, name); }

std::optional<double> MetricSamples::Max(absl::string_view name) const {
  return Find(maxima_, name);
}

std::map<double, double> MetricSamples::Buckets(absl::string_view histogram) const {
  const auto found = buckets_.find(histogram);
  return found == buckets_.end() ? std::map<double, double>() : found->second;
}

std::optional<double> Quantile(double quantile, const std::map<double, double>& before,
                               const std::map<double, double>& now) {
  if (now.empty()) return std::nullopt;
  const double total = now.rbegin()->second - CountUpTo(before, now.rbegin()->first);
  if (total <= 0) return std::nullopt;
  double lower_bound = 0;
  double lower_count = 0;
  for (const auto& [bound, count] : now) {
    const double upper_count = count - CountUpTo(before, bound);
    if (upper_count >= quantile * total) {
      if (std::isinf(bound)) return bound;
      const double inside = upper_count - lower_count;
      const double part = inside <= 0 ? 1 : (quantile * total - lower_count) / inside;
      return lower_bound + part * (bound - lower_bound);
    }
    lower_bound = bound;
    lower_count = upper_count;
  }
  return std::nullopt;
}

namespace {

constexpr char kAccepted[] = "escapement_handler_accepted_total";
constexpr char kLateness[] = "escapement_handler_lateness_seconds";

std::string Number(std::optional<double> value) {
  return value.has_value() ? absl::StrFormat("%.0f", *value) : "-";
}

std::string Seconds(std::optional<double> value) {
  if (!value.has_value()) return "-";
  if (std::isinf(*value)) return "above all";
  return *value < 1 ? absl::StrFormat("%.1f ms", *value * 1000) : absl::StrFormat("%.1f s", *value);
}

std::string Rate(double per_second) { return absl::StrFormat("%.1f", per_second); }

std::string LastPart(const std::string& name) { return name.substr(name.rfind('/') + 1); }

// "nightly" in tenants/default/schedules/nightly/runs/…
std::string ScheduleOf(const std::string& event) {
  const size_t runs = event.find("/runs/");
  return runs == std::string::npos ? "" : LastPart(event.substr(0, runs));
}

std::string Age(bool has, const google::protobuf::Timestamp& time, absl::Time now) {
  if (!has) return "-";
  const absl::Duration age = now - absl::FromUnixSeconds(time.seconds());
  return absl::FormatDuration(absl::Trunc(std::max(age, absl::ZeroDuration()), absl::Seconds(1)));
}

}  // namespace

std::string MetricsTable(const std::optional<MetricsReading>& before, const MetricsReading& now) {
  const std::optional<double> delivered = now.samples.Sum(kAccepted);
  std::string rate = "-";
  if (before.has_value() && delivered.has_value() && now.time > before->time) {
    const double more = *delivered - before->samples.Sum(kAccepted).value_or(0);
    // A process that has been restarted counts from 0.
    if (more >= 0) rate = Rate(more / absl::ToDoubleSeconds(now.time - before->time));
  }
  const auto earlier =
      before.has_value() ? before->samples.Buckets(kLateness) : std::map<double, double>();
  const auto buckets = now.samples.Buckets(kLateness);
  const std::optional<double> behind = now.samples.Max("escapement_emitter_behind_seconds");
  return FormatTable(
      {"DELIVERED/S", "DELIVERED", "LATENESS P50", "P99", "EVENTS OUT", "ROWS IN MEMORY",
       "EMITTER BEHIND"},
      {{rate, Number(delivered), Seconds(Quantile(0.5, earlier, buckets)),
        Seconds(Quantile(0.99, earlier, buckets)),
        Number(now.samples.Sum("escapement_handler_events_out")),
        Number(now.samples.Sum("escapement_handler_rows_in_memory")), Seconds(behind)}});
}

std::string UsageTables(const std::vector<v1::PolicyUsage>& usages, absl::Time now) {
  struct Share {
    int64_t held = 0;
    int64_t waiting = 0;
    std::string oldest = "-";
  };
  std::vector<Row> policies;
  std::vector<Row> schedules;
  for (const v1::PolicyUsage& usage : usages) {
    const v1::ThrottlePolicy& policy = usage.policy();
    const std::string id = LastPart(policy.name());
    policies.push_back({id, v1::ThrottlePolicy::State_Name(policy.state()),
                        absl::StrCat(usage.held_count()),
                        policy.max_concurrent() == 0 ? "-" : absl::StrCat(policy.max_concurrent()),
                        absl::StrCat(usage.waiting_count(), usage.waiting_truncated() ? "+" : ""),
                        Age(usage.has_oldest_waiter_time(), usage.oldest_waiter_time(), now),
                        Rate(usage.grants_per_second()), Rate(usage.releases_per_second())});
    std::map<std::string, Share> shares;
    for (const auto& holder : usage.holders()) ++shares[ScheduleOf(holder.event())].held;
    for (const auto& waiter : usage.waiters()) {
      Share& share = shares[LastPart(waiter.schedule())];
      share.waiting = waiter.waiting_count();
      share.oldest = Age(waiter.has_oldest_due_time(), waiter.oldest_due_time(), now);
    }
    const bool all_holders = usage.next_page_token().empty();
    for (const auto& [schedule, share] : shares) {
      schedules.push_back({schedule, id, absl::StrCat(share.held, all_holders ? "" : "+"),
                           absl::StrCat(share.waiting, usage.waiting_truncated() ? "+" : ""),
                           share.oldest});
    }
  }
  std::string text = FormatTable(
      {"POLICY", "STATE", "HELD", "LIMIT", "WAITING", "OLDEST", "GRANTS/S", "RELEASES/S"},
      policies);
  if (!schedules.empty()) {
    absl::StrAppend(&text, "\n",
                    FormatTable({"SCHEDULE", "POLICY", "HELD", "WAITING", "OLDEST"}, schedules));
  }
  return text;
}

}  // namespace escapement::escctl
