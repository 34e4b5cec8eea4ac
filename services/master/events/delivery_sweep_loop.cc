#include "services/master/events/delivery_sweep_loop.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/key_codec.h"
#include "common/kv/group_parts.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/limits.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

}  // namespace

void DeliverySweepLoop::Start() {
  const DeliveryPeriod present = DeliveryPeriodOf(context_.client.NowLow());
  first_used_ = static_cast<DeliveryPeriod>(std::max(present - kDeliveryPeriodsKept, 0));
  FindFirstStored();
}

void DeliverySweepLoop::StartLater() {
  context_.executor->PostAfter(kDefinitionSweepEvery, [this] { Start(); });
}

void DeliverySweepLoop::ScanPages(kv::ScanRequest scan, OnPage on_page, Closure next) {
  scan.limit = kSweepRowsMax;
  ScanNext(std::make_shared<kv::ScanRequest>(std::move(scan)), std::move(on_page), std::move(next));
}

void DeliverySweepLoop::ScanNext(std::shared_ptr<kv::ScanRequest> scan, OnPage on_page,
                                 Closure next) {
  context_.client.Scan(*scan, context_.executor,
                       [this, scan, on_page = std::move(on_page),
                        next = std::move(next)](absl::StatusOr<kv::ScanResult> page) mutable {
                         if (!page.ok()) return StartLater();
                         if (!on_page(*page) || !page->more || page->entries.empty()) return next();
                         scan->begin = KeyAfter(page->entries.back().key);
                         context_.executor->PostAfter(
                             kSweepPause, [this, scan, on_page = std::move(on_page),
                                           next = std::move(next)]() mutable {
                               ScanNext(scan, std::move(on_page), std::move(next));
                             });
                       });
}

kv::ScanRequest DeliverySweepLoop::OldDeliveries() const {
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kDefinitions;
  scan.end = DeliveryPeriodBegin(first_used_);
  return scan;
}

void DeliverySweepLoop::Use(DeliveryPeriod period) { first_used_ = std::min(first_used_, period); }

void DeliverySweepLoop::UseDeliveryOf(const storage::v1::EventRecord* event) {
  if (event == nullptr) return Use(0);
  if (const auto hash = DeliveryHashOf(*event)) Use(DeliveryPeriodOf(*hash));
}

void DeliverySweepLoop::FindFirstStored() {
  first_stored_ = first_used_;
  ScanPages(
      OldDeliveries(),
      [this](const kv::ScanResult& page) {
        for (const kv::Entry& entry : page.entries) {
          if (!IsDeliveryOfPeriod(entry.key, entry.value)) continue;
          first_stored_ = DeliveryPeriodOf(Uid::FromBytes(entry.key));
          return false;
        }
        return true;
      },
      [this] { LookAtLane(0); });
}

void DeliverySweepLoop::LookAtLane(uint32_t lane) {
  if (AllUsed()) return StartLater();
  // The lanes of the priorities, and that of events under a policy.
  constexpr uint32_t kLanes = kLaneRetry + 1;
  if (lane == context_.layout.queue_shards * kLanes) return LookAtRetries(0);
  const auto shard = static_cast<uint16_t>(lane / kLanes);
  const auto priority =
      static_cast<uint8_t>(lane % kLanes < kLaneRetry ? lane % kLanes : kLaneLimited);
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kEvents;
  scan.begin = EventLaneKey(shard, priority, absl::InfinitePast());
  scan.end = EventLaneKey(shard, priority + 1, absl::InfinitePast());
  scan.limit = 1;
  scan.keys_only = true;
  context_.client.Scan(
      std::move(scan), context_.executor, [this, lane](absl::StatusOr<kv::ScanResult> first) {
        if (!first.ok()) return StartLater();
        if (!first->entries.empty()) {
          const std::optional<EventKey> key = DecodeEventKey(first->entries[0].key);
          Use(key.has_value() ? DeliveryPeriodOf(key->due_time) : DeliveryPeriod{0});
        }
        LookAtLane(lane + 1);
      });
}

void DeliverySweepLoop::LookAtRetries(uint32_t shard) {
  if (AllUsed()) return StartLater();
  if (shard == context_.layout.queue_shards) return LookAtDeadLetters();
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kEvents;
  scan.begin = EventLaneKey(static_cast<uint16_t>(shard), kLaneRetry, absl::InfinitePast());
  scan.end = EventLaneKey(static_cast<uint16_t>(shard), kLaneRetry + 1, absl::InfinitePast());
  ScanPages(
      std::move(scan),
      [this](const kv::ScanResult& page) {
        for (const kv::Entry& entry : page.entries) {
          storage::v1::EventRecord event;
          UseDeliveryOf(event.ParseFromString(entry.value) ? &event : nullptr);
        }
        return !AllUsed();
      },
      [this, shard] { LookAtRetries(shard + 1); });
}

void DeliverySweepLoop::LookAtDeadLetters() {
  kv::ScanRequest scan;
  scan.cf = ColumnFamily::kDeadLetters;
  ScanPages(
      std::move(scan),
      [this](const kv::ScanResult& page) {
        for (const kv::Entry& entry : page.entries) {
          storage::v1::DeadLetterRecord letter;
          UseDeliveryOf(letter.ParseFromString(entry.value) ? &letter.event() : nullptr);
        }
        return !AllUsed();
      },
      [this] { DeleteOld({}); });
}

void DeliverySweepLoop::DeleteOld(std::string position) {
  if (AllUsed()) return StartLater();
  kv::ScanRequest scan = OldDeliveries();
  scan.begin = std::move(position);
  scan.limit = kSweepRowsMax;
  context_.client.Scan(
      std::move(scan), context_.executor, [this](absl::StatusOr<kv::ScanResult> page) {
        if (!page.ok() || page->entries.empty() || AllUsed()) return StartLater();
        kv::Commit commit;
        kv::Group& group = commit.groups.emplace_back();
        for (const kv::Entry& entry : page->entries) {
          if (IsDeliveryOfPeriod(entry.key, entry.value))
            group.mutations.push_back(kv::Delete(ColumnFamily::kDefinitions, entry.key));
        }
        const size_t deleted = group.mutations.size();
        auto go_on = [this, more = page->more, next = KeyAfter(page->entries.back().key)] {
          if (!more) return StartLater();
          context_.executor->PostAfter(kSweepPause, [this, next] { DeleteOld(next); });
        };
        if (deleted == 0) return go_on();
        context_.client.CommitAsync(
            std::move(commit), context_.executor,
            [this, deleted, go_on](const absl::StatusOr<kv::CommitResult>& result) {
              if (!result.ok()) return StartLater();
              context_.metrics.definitions_collected.Increment(deleted);
              go_on();
            });
      });
}

}  // namespace escapement::master
