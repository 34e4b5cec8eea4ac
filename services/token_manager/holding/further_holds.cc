#include "services/token_manager/holding/further_holds.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/storage/run_table.h"
#include "common/storage/schedule_table.h"

namespace escapement::token_manager {

const std::string& EventBytesOf(const RowSource& source) {
  if (source.event_bytes.empty()) source.event.SerializeToString(&source.event_bytes);
  return source.event_bytes;
}

namespace {

std::shared_ptr<const FurtherLimits> FurtherLimitsOf(const storage::v1::EventRecord& event,
                                                     const RowSource* other) {
  if (event.throttle().more().empty()) return nullptr;
  if (other != nullptr && other->event.tenant() == event.tenant() &&
      SameLimits(other->event.throttle(), event.throttle()))
    return other->shared_further;
  auto further = std::make_shared<FurtherLimits>();
  further->reserve(static_cast<size_t>(event.throttle().more_size()));
  for (const storage::v1::LimitRecord& limit : event.throttle().more()) {
    further->push_back({.policy = PolicyUid(event.tenant(), limit.policy_id()),
                        .policy_id = limit.policy_id(),
                        .key = limit.policy_key(),
                        .weight = std::max<uint64_t>(limit.weight(), 1)});
  }
  return further;
}

}  // namespace

std::shared_ptr<const RowSource> RowSourceOf(storage::v1::EventRecord&& event, const Uid& uid,
                                             std::string occurrence, uint16_t policy_shard,
                                             const RowSource* other, absl::string_view bytes) {
  auto source = std::make_shared<RowSource>();
  if (HasRun(event))
    source->part_key =
        RunPartKey({.uid = uid, .occurrence = occurrence}, PolicyRunPart(policy_shard));
  source->weight = std::max<uint64_t>(event.throttle().weight(), 1);
  source->shared_further = FurtherLimitsOf(event, other);
  source->event = std::move(event);
  source->event_bytes = std::string(bytes);
  source->uid = uid;
  source->group = source->one_off() ? Uid::FromBytes(source->event.wait_group()) : uid;
  source->occurrence = std::move(occurrence);
  if (!source->one_off()) {
    source->counts_key = other != nullptr && other->uid == uid
                             ? other->counts_key
                             : ScheduleCountsKey(uid, PolicyRunPart(policy_shard));
  }
  return source;
}

FurtherHold& FurtherHolds::HoldOf(const FurtherLimit& limit) {
  if (limit.hold == nullptr || !limit.hold->counted) {
    std::shared_ptr<FurtherHold>& hold = policies_[limit.policy];
    if (hold == nullptr) hold = std::make_shared<FurtherHold>(FurtherHold{.policy = limit.policy});
    limit.hold = hold;
  }
  return *limit.hold;
}

void FurtherHolds::Hold(const RowSource& source, int64_t events) {
  if (events == 0) return;
  for (const FurtherLimit& limit : source.further()) {
    FurtherHold& hold = HoldOf(limit);
    const auto of_key = hold.held_of.try_emplace(limit.key, 0).first;
    const int64_t tokens = events * static_cast<int64_t>(limit.weight);
    hold.held += tokens;
    of_key->second += tokens;
    CHECK_GE(of_key->second, 0);
    if (of_key->second == 0) hold.held_of.erase(of_key);
    DropIfFree(hold);
  }
}

void FurtherHolds::CountRows(const RowSource& source, int64_t rows) {
  for (const FurtherLimit& limit : source.further()) {
    FurtherHold& hold = HoldOf(limit);
    hold.rows += rows;
    CHECK_GE(hold.rows, 0);
    DropIfFree(hold);
  }
}

void FurtherHolds::DropIfFree(FurtherHold& hold) {
  if (hold.rows > 0 || hold.held > 0) return;
  hold.counted = false;
  freed_.push_back(hold.policy);
  policies_.erase(hold.policy);
}

uint64_t FurtherHolds::HeldOf(const Uid& uid) const {
  const auto hold = policies_.find(uid);
  return hold == policies_.end() ? 0 : static_cast<uint64_t>(hold->second->held);
}

uint64_t FurtherHolds::HeldOf(const Uid& uid, const std::string& key) const {
  const auto hold = policies_.find(uid);
  if (hold == policies_.end()) return 0;
  const auto held = hold->second->held_of.find(key);
  return held == hold->second->held_of.end() ? 0 : static_cast<uint64_t>(held->second);
}

}  // namespace escapement::token_manager
