#include "services/emitter/emission/emission_plan.h"

#include <algorithm>
#include <utility>

#include "common/base/key_codec.h"
#include "common/cron/zone.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/emitter/base/options.h"

namespace escapement::emitter {

void CatchUp::OnWindow(absl::Time begin, absl::Time end, bool resumed, absl::Time now) {
  if (begin < judged_at_) return;
  judged_at_ = now;
  begin_ = begin;
  // If another owner has begun this window, it may have judged the first occurrences already, and
  // in another way.
  summaries_from_ = resumed ? end : begin;
  plans_.clear();
}

std::shared_ptr<const LatePlan> CatchUp::Find(const std::string& key) const {
  const auto it = plans_.find(key);
  return it == plans_.end() ? nullptr : it->second;
}

std::shared_ptr<const LatePlan> CatchUp::Make(std::string key, const cron::Timetable& timetable,
                                              const cron::MisfirePolicy& policy, absl::Time from) {
  auto plan = std::make_shared<LatePlan>(
      LatePlan{.misfire = cron::PlanMissed(timetable, policy, std::max(begin_, from), judged_at_),
               .summary = std::nullopt,
               .summary_from = std::max(summaries_from_, from),
               .timetable = timetable});
  if (plan->summary_from < plan->misfire.summary_to)
    plan->summary = timetable.FirstAtOrAfter(plan->summary_from);
  if (plans_.size() >= kCatchUpPlansMax) plans_.clear();
  plans_[std::move(key)] = plan;
  return plan;
}

namespace {

ExpressionKey KeyOf(uint16_t partition, const std::string& zone,
                    const cron::LaunchExpression& expression) {
  ExpressionKey key;
  key.partition = partition;
  key.zone = zone;
  key.expression_class = expression.ClassByte();
  key.date_value = expression.date_value;
  return key;
}

}  // namespace

absl::Time PlannedTo(absl::Time now, absl::Duration ahead) {
  return absl::FromUnixSeconds(absl::ToUnixSeconds(now + ahead));
}

absl::Time WindowEnd(absl::Time emitted_to, absl::Time planned_to) {
  return std::min(planned_to, emitted_to + kWindowMax);
}

bool AddInUse(absl::string_view in_use_key, InUse& in_use) {
  const auto key = DecodeExpressionKey(in_use_key);
  if (!key) return false;
  const auto expression = cron::LaunchExpression::Of(key->expression_class, key->date_value);
  if (!expression) return false;
  in_use[key->zone].insert(*expression);
  return true;
}

ChildRanges RangesToRead(uint16_t partition, const InUse& in_use, absl::Time begin, absl::Time end,
                         const RulesChange* rules) {
  ChildRanges result;
  // Every child in this range is due: emission deletes it.
  result.ranges.push_back(
      {.begin = InstantChildPrefix(partition), .end = InstantChildrenFrom(partition, end)});
  for (const auto& [name, expressions] : in_use) {
    absl::StatusOr<cron::Zone> zone = cron::Zone::Load(name);
    if (!zone.ok()) {
      result.unknown_zones.push_back(name);
      continue;
    }
    absl::Time from = begin;
    if (const auto* moved = rules == nullptr ? nullptr : rules->moved->Find(name)) {
      if (rules->by_former) zone = moved->before();
      if (rules->first) from = std::min(from, moved->ReadFrom(rules->frontier.emitted_to));
    }
    for (const cron::PlaceRange& range : cron::PlacesToRead(*zone, from, end, expressions)) {
      const ExpressionKey key = KeyOf(partition, name, range.first.expression);
      result.ranges.push_back(
          {.begin = ChildPrefix(key, range.first.hour, range.first.minute),
           .end = PrefixEnd(ChildPrefix(key, range.last.hour, range.last.minute))});
    }
  }
  return result;
}

std::vector<KeyRange> After(std::vector<KeyRange> ranges, absl::string_view last_key) {
  std::vector<KeyRange> rest;
  const std::string next = KeyAfter(last_key);
  for (KeyRange& range : ranges) {
    if (range.end <= next) continue;
    if (range.begin < next) range.begin = next;
    rest.push_back(std::move(range));
  }
  return rest;
}

bool Fires(uint64_t version, const storage::v1::StateRecord& state) {
  return state.kind() == storage::v1::SCHEDULE_STATE_KIND_ENABLED && state.version() == version;
}

}  // namespace escapement::emitter
