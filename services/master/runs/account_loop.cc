#include "services/master/runs/account_loop.h"

#include <algorithm>

#include "common/base/log.h"
#include "common/base/proto_time.h"
#include "common/base/uid.h"
#include "common/records/row_judge.h"
#include "common/storage/children_table.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

}  // namespace

void AccountLoop::Rest() {
  context_.executor->PostAfter(every_, [this] { Step(); });
}

void AccountLoop::Step() {
  step_begin_ = context_.runtime.clock().Elapsed();
  std::vector<kv::Key> keys;
  for (uint32_t partition = 0; partition < context_.layout.partitions; ++partition)
    keys.push_back({ColumnFamily::kCheckpoints, EmittedToKey(static_cast<uint16_t>(partition))});
  context_.client.MultiGet(std::move(keys), context_.executor,
                           [this](absl::StatusOr<kv::GetResult> checkpoints) {
                             if (!checkpoints.ok()) return Rest();
                             OnEmittedTo(*checkpoints);
                           });
}

void AccountLoop::OnEmittedTo(const kv::GetResult& checkpoints) {
  absl::Duration behind = absl::ZeroDuration();
  for (const std::optional<std::string>& emitted_to : checkpoints.values) {
    // Without a checkpoint the partition has had no schedule yet.
    if (emitted_to.has_value())
      behind = std::max(behind, checkpoints.store_time - DecodeCheckpoint(*emitted_to));
  }
  context_.metrics.emission_behind_seconds.Set(absl::ToDoubleSeconds(behind));
  const ScheduleName heartbeat = {std::string(kHeartbeatTenant), std::string(kHeartbeatSchedule)};
  Account(heartbeat, [this](absl::StatusOr<AccountPage> account) {
    absl::Duration late = absl::ZeroDuration();
    if (account.ok()) {
      for (const v1::Occurrence& beat : account->response.occurrences()) {
        if (beat.result() != v1::Occurrence::PENDING || !beat.has_lateness()) continue;
        late = std::max(late, absl::Seconds(beat.lateness().seconds()) +
                                  absl::Nanoseconds(beat.lateness().nanos()));
      }
    }
    context_.metrics.heartbeat_late_seconds.Set(absl::ToDoubleSeconds(late));
    Sample();
  });
}

void AccountLoop::Account(const ScheduleName& schedule,
                          absl::AnyInvocable<void(absl::StatusOr<AccountPage>)> done) {
  const absl::Time now = context_.client.NowLow();
  AccountQuery query;
  query.tenant = schedule.tenant;
  query.schedule = schedule.schedule;
  query.begin = now - kAccountLoopRange;
  query.end = now;
  query.limit = kAccountOccurrencesMax;
  query.retention_of = [this](const std::string& tenant) { return tenants_.RetentionOf(tenant); };
  AccountOccurrences(context_, std::move(query), std::move(done));
}

void AccountLoop::Sample() {
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kStates;
  const uint64_t high = context_.runtime.random().Next();
  scan.begin = StateKey(Uid::FromHalves(high, context_.runtime.random().Next()));
  scan.limit = kAccountLoopSchedules;
  context_.client.Scan(std::move(scan), context_.executor,
                       [this](absl::StatusOr<kv::ScanResult> states) {
                         if (!states.ok()) return Rest();
                         sampled_.clear();
                         for (const kv::Entry& entry : states->entries) {
                           storage::v1::StateRecord state;
                           if (state.ParseFromString(entry.value) &&
                               state.kind() != storage::v1::SCHEDULE_STATE_KIND_DELETED)
                             sampled_.push_back({state.tenant(), state.schedule_id()});
                         }
                         AccountSampled();
                       });
}

void AccountLoop::AccountSampled() {
  const absl::Duration taken = context_.runtime.clock().Elapsed() - step_begin_;
  if (sampled_.empty() || taken > every_ / kAccountLoopShare) return Rest();
  const ScheduleName schedule = sampled_.back();
  sampled_.pop_back();
  Account(schedule, [this](absl::StatusOr<AccountPage> account) {
    if (account.ok()) {
      for (const auto& count : account->response.counts()) {
        context_.metrics.occurrences_sampled.Increment(static_cast<double>(count.count()));
        if (count.result() == v1::Occurrence::UNACCOUNTED)
          context_.metrics.occurrences_unaccounted.Increment(static_cast<double>(count.count()));
      }
      for (const v1::Occurrence& occurrence : account->response.occurrences()) {
        if (occurrence.result() != v1::Occurrence::UNACCOUNTED) continue;
        Log(LogLevel::kError, "master.account", "an occurrence is unaccounted for",
            {{"run", occurrence.run()}, {"reason", occurrence.reason()}});
      }
    }
    AccountSampled();
  });
}

}  // namespace escapement::master
