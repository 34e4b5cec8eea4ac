#include "services/master/runs/expected_occurrences.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/storage/children_table.h"
#include "google/protobuf/util/time_util.h"

namespace escapement::master {
namespace {

using storage::v1::DefinitionRecord;
using storage::v1::DoneRecord;
using storage::v1::RunPartRecord;

constexpr absl::Duration kOnTimeMin = absl::Seconds(60);

absl::Duration AllowanceOf(const DefinitionRecord& definition) {
  absl::Duration allowance = std::max(kOnTimeMin, MisfirePolicyOf(definition.misfire()).threshold);
  if (definition.throttle().has_window()) {
    allowance =
        std::max(allowance, absl::Microseconds(definition.throttle().window().duration_micros()));
  }
  return allowance;
}

void SetLateness(absl::Duration lateness, v1::Occurrence& occurrence) {
  *occurrence.mutable_lateness() = google::protobuf::util::TimeUtil::MicrosecondsToDuration(
      absl::ToInt64Microseconds(std::max(lateness, absl::ZeroDuration())));
}

// It has fired.
void SetSent(absl::Time launch_time, std::optional<absl::Time> sent, absl::Duration allowance,
             v1::Occurrence& occurrence) {
  occurrence.set_result(v1::Occurrence::ON_TIME);
  if (!sent.has_value()) return;
  SetLateness(*sent - launch_time, occurrence);
  if (*sent - launch_time > allowance) occurrence.set_result(v1::Occurrence::LATE);
}

}  // namespace

absl::StatusOr<std::vector<VersionTerm>> TermsOf(const std::vector<DefinitionRecord>& versions,
                                                 const storage::v1::StateRecord& state) {
  std::vector<VersionTerm> terms;
  absl::Time end = absl::InfiniteFuture();
  absl::Time finish = FinishOf(state);
  bool limited_later = false;  // a later version has max_runs
  for (const DefinitionRecord& version : versions) {
    const bool former = !terms.empty();
    const bool limited = version.timing().max_runs() > 0;
    const bool finish_known = finish != absl::InfiniteFuture() || !former;
    ASSIGN_OR_RETURN(cron::Timetable timetable, TimetableOf(version, finish));
    const absl::Time made = FromMicros(version.create_time_micros());
    VersionTerm& term = terms.emplace_back(
        VersionTerm{.source = SourceOf(version),
                    .timetable = std::move(timetable),
                    .begin = version.version() <= 1 ? made + absl::Microseconds(1) : made,
                    .end = end,
                    .allowance = AllowanceOf(version)});
    term.end_unknown = limited_later || (limited && !finish_known);
    limited_later |= limited;
    end = made;
    finish = version.former_finish_micros() == 0 ? absl::InfiniteFuture()
                                                 : FromMicros(version.former_finish_micros());
  }
  std::reverse(terms.begin(), terms.end());
  return terms;
}

std::vector<ExpectedOccurrence> Expect(const std::vector<VersionTerm>& terms, absl::Time begin,
                                       absl::Time end, size_t passed, size_t max) {
  std::vector<ExpectedOccurrence> expected;
  for (size_t i = 0; i < terms.size() && expected.size() < max; ++i) {
    const VersionTerm& term = terms[i];
    const absl::Time from = std::max(begin, term.begin);
    const absl::Time to = std::min(end, term.end);
    if (from >= to) continue;
    size_t skip = from == begin ? passed : 0;
    for (const cron::Occurrence& occurrence :
         term.timetable.Enumerate(from, to, max - expected.size() + skip)) {
      if (skip > 0 && occurrence.instant == begin) {
        --skip;
        continue;
      }
      if (expected.size() == max) break;
      expected.push_back({i, ToEmitted(term.source, term.timetable, occurrence)});
    }
  }
  return expected;
}

std::optional<absl::Time> LastFirstSent(const DoneRecord& done) {
  if (done.attempts() == 0) return std::nullopt;
  if (!done.tried().empty()) return FromMicros(done.tried(0).begin_micros());
  if (done.dispatch_time_micros() == 0) return std::nullopt;
  int64_t offset = 0;
  for (const int64_t of_event : done.begin_offset_micros()) offset = std::max(offset, of_event);
  return FromMicros(done.dispatch_time_micros() + offset);
}

void SetEnded(const DoneRecord& done, absl::Duration allowance, v1::Occurrence& occurrence) {
  if (done.run_skipped() || done.outcome() == storage::v1::OUTCOME_KIND_SKIPPED)
    return SetSkipped(done.reason(), occurrence);
  SetSent(FromMicros(done.launch_time_micros()), LastFirstSent(done), allowance, occurrence);
  if (done.outcome() == storage::v1::OUTCOME_KIND_SUCCEEDED) return;
  occurrence.set_result(v1::Occurrence::FAILED);
  occurrence.set_reason(done.reason());
}

void SetEnded(const RunPartRecord& counts, absl::Time launch_time, std::optional<absl::Time> sent,
              absl::Duration allowance, v1::Occurrence& occurrence) {
  const uint64_t ended = EndedCount(counts);
  const uint64_t failed = counts.failed() + counts.expired() + counts.cancelled();
  if (ended > 0 && counts.skipped() == ended) return SetSkipped(counts.skip_reason(), occurrence);
  SetSent(launch_time, sent, allowance, occurrence);
  if (failed == 0) return;
  occurrence.set_result(v1::Occurrence::FAILED);
  occurrence.set_reason(absl::StrCat(counts.failed(), " failed, ", counts.expired(), " expired, ",
                                     counts.cancelled(), " cancelled of ", ended, " events"));
}

void SetSkipped(absl::string_view reason, v1::Occurrence& occurrence) {
  occurrence.set_result(v1::Occurrence::SKIPPED);
  occurrence.set_reason(std::string(reason));
}

void SetPending(absl::string_view reason, absl::Time launch_time, absl::Time now,
                v1::Occurrence& occurrence) {
  occurrence.set_result(v1::Occurrence::PENDING);
  occurrence.set_reason(std::string(reason));
  if (launch_time < now) SetLateness(now - launch_time, occurrence);
}

uint64_t EndedCount(const RunPartRecord& counts) {
  return counts.succeeded() + counts.failed() + counts.skipped() + counts.cancelled() +
         counts.expired();
}

}  // namespace escapement::master
