#include "services/master/target_states/target_service.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/status/errors.h"
#include "common/storage/name_tables.h"
#include "escapement/storage/v1/target_records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

namespace {

using storage::v1::TargetStateRecord;
using v1::TargetStatus;

TargetStatus::State StateOf(TargetStateRecord::Breaker breaker) {
  switch (breaker) {
    case TargetStateRecord::CLOSED:
      return TargetStatus::CLOSED;
    case TargetStateRecord::OPEN:
      return TargetStatus::OPEN;
    case TargetStateRecord::HALF_OPEN:
      return TargetStatus::HALF_OPEN;
    default:
      return TargetStatus::STATE_UNSPECIFIED;
  }
}

// The state of the target, if handlers see it in both of these.
TargetStatus::State Worse(TargetStatus::State a, TargetStatus::State b) {
  if (a == TargetStatus::OPEN || b == TargetStatus::OPEN) return TargetStatus::OPEN;
  return std::max(a, b);
}

void ShowHandler(const HandlerRow& row, TargetStatus::Handler& handler) {
  const TargetStateRecord& state = row.record.state();
  handler.set_handler(row.handler);
  handler.set_state(StateOf(state.breaker()));
  if (row.record.down_since_micros() != 0) {
    SetTimestamp(row.record.down_since_micros(), *handler.mutable_down_since_time());
    SetTimestamp(state.open_until_micros(), *handler.mutable_next_probe_time());
  }
  handler.set_in_flight(static_cast<int64_t>(state.in_flight()));
  handler.set_in_flight_max(static_cast<int64_t>(row.record.in_flight_max()));
  handler.set_attempt_count(static_cast<int64_t>(state.attempts()));
  handler.set_failure_count(static_cast<int64_t>(state.failures()));
  SetDuration(state.measured_micros(), *handler.mutable_measured_duration());
  if (state.last_error_time_micros() != 0) {
    handler.set_last_error(state.last_error());
    SetTimestamp(state.last_error_time_micros(), *handler.mutable_last_error_time());
  }
  SetTimestamp(state.update_time_micros(), *handler.mutable_update_time());
}

// The smaller of two times, where 0 is none.
int64_t Earlier(int64_t a, int64_t b) { return a == 0 || b == 0 ? a + b : std::min(a, b); }

}  // namespace

TargetStatus ShowTarget(const std::string& tenant, const Uid& target,
                        const std::vector<HandlerRow>& rows) {
  CHECK(!rows.empty());
  TargetStatus status;
  status.set_name(absl::StrCat("tenants/", tenant, "/targets/", target.ToHex()));
  const std::string& key = rows.front().record.state().target_key();
  const size_t colon = key.find(':');
  status.set_transport(key.substr(0, colon));
  if (colon != std::string::npos) status.set_endpoint(key.substr(colon + 1));
  int64_t down_since = 0, next_probe = 0, error_at = 0, updated = 0;
  for (const HandlerRow& row : rows) {
    const TargetStateRecord& state = row.record.state();
    TargetStatus::Handler& handler = *status.add_handlers();
    ShowHandler(row, handler);
    status.set_state(Worse(status.state(), handler.state()));
    status.set_in_flight(status.in_flight() + handler.in_flight());
    status.set_in_flight_max(status.in_flight_max() + handler.in_flight_max());
    status.set_attempt_count(status.attempt_count() + handler.attempt_count());
    status.set_failure_count(status.failure_count() + handler.failure_count());
    down_since = Earlier(down_since, row.record.down_since_micros());
    next_probe = Earlier(next_probe, state.open_until_micros());
    updated = std::max(updated, state.update_time_micros());
    if (state.last_error_time_micros() <= error_at) continue;
    error_at = state.last_error_time_micros();
    status.set_last_error(state.last_error());
  }
  if (down_since != 0) {
    SetTimestamp(down_since, *status.mutable_down_since_time());
    SetTimestamp(next_probe, *status.mutable_next_probe_time());
  }
  if (error_at != 0) SetTimestamp(error_at, *status.mutable_last_error_time());
  SetTimestamp(updated, *status.mutable_update_time());
  if (status.attempt_count() > 0) {
    status.set_error_rate(static_cast<double>(status.failure_count()) /
                          static_cast<double>(status.attempt_count()));
  }
  return status;
}

namespace {

// When the pause of the first handler ends. InfinitePast: no handler has one.
absl::Time PausedUntil(const std::vector<HandlerRow>& rows, absl::Time now) {
  absl::Time first = absl::InfiniteFuture();
  for (const HandlerRow& row : rows) {
    const absl::Time until = FromMicros(row.record.paused_until_micros());
    if (until > now) first = std::min(first, until);
  }
  return first == absl::InfiniteFuture() ? absl::InfinitePast() : first;
}

}  // namespace

void ReadHeldTargets(MasterContext& context, const std::string& tenant,
                     std::set<std::string> target_keys,
                     absl::AnyInvocable<void(absl::StatusOr<HeldTargets>)> done) {
  if (target_keys.empty()) return done(HeldTargets());
  std::vector<KeyRange> ranges;
  for (const std::string& key : target_keys) {
    const std::string prefix = TargetRowPrefix(tenant, TargetIdOf(key));
    ranges.push_back({kv::ColumnFamily::kTargetStates, prefix, PrefixEnd(prefix)});
  }
  auto rows = std::make_shared<std::map<Uid, std::vector<HandlerRow>>>();
  const absl::Time now = context.client.NowLow();
  ReadRanges(
      context, std::move(ranges), kTargetHandlersMax,
      [rows, oldest = ToMicros(now - kTargetRowValidFor)](
          const KeyRange&, kv::Entry& entry) -> absl::StatusOr<bool> {
        const std::optional<TargetRowName> name = DecodeTargetRowKey(entry.key);
        HandlerRow row;
        if (!name.has_value() || !row.record.ParseFromString(entry.value))
          return BrokenRecord("the state of a target");
        // Its handler is dead.
        if (row.record.state().update_time_micros() < oldest) return true;
        row.handler = name->handler;
        (*rows)[name->target].push_back(std::move(row));
        return true;
      },
      [rows, now, tenant, target_keys = std::move(target_keys),
       done = std::move(done)](absl::Status status) mutable {
        if (!status.ok()) return done(std::move(status));
        HeldTargets held;
        for (const std::string& key : target_keys) {
          const auto found = rows->find(TargetIdOf(key));
          if (found == rows->end()) continue;
          HeldTarget target{.status = ShowTarget(tenant, found->first, found->second),
                            .paused_until = PausedUntil(found->second, now)};
          if (target.status.has_down_since_time() || target.paused_until > now)
            held.emplace(key, std::move(target));
        }
        done(std::move(held));
      });
}

// A target that is down for one handler and has asked another for a pause shows as down.
void ShowTargetHeld(const HeldTarget& target, absl::Time now, v1::Event& event) {
  if (event.state() != v1::PENDING) return;
  const bool down = target.status.has_down_since_time();
  if (event.status() == v1::Event::SCHEDULED) {
    const std::string& error = target.status.last_error();
    if (down) {
      event.set_status(v1::Event::TARGET_DOWN);
      event.set_reason(error.empty() ? "target is down" : absl::StrCat("target is down: ", error));
    } else {
      event.set_reason(absl::StrCat(
          "the target asked for a pause until ",
          absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", target.paused_until, absl::UTCTimeZone())));
    }
  }
  const int64_t next = down ? TimestampMicros(target.status.next_probe_time()).value_or(0)
                            : ToMicros(target.paused_until);
  if (FromMicros(next) > now) SetTimestamp(next, *event.mutable_next_attempt_time());
}

namespace {

constexpr uint32_t kRowsAtOnce = 1000;

// Reads the targets of a tenant in the order of their ids, from `begin` on.
class Listing : public std::enable_shared_from_this<Listing> {
 public:
  struct Query {
    std::string tenant;
    std::string begin;  // key; the first row of a target
    std::string end;
    size_t targets_max = 0;
  };
  struct Page {
    std::vector<v1::TargetStatus> targets;
    std::optional<Uid> next;  // the first target of the next page
  };

  Listing(MasterContext& context, Query query, absl::AnyInvocable<void(absl::StatusOr<Page>)> done)
      : context_(context), query_(std::move(query)), done_(std::move(done)) {}

  void Step() {
    kv::ScanRequest scan;
    scan.cf = kv::ColumnFamily::kTargetStates;
    scan.begin = query_.begin;
    scan.end = query_.end;
    scan.limit = kRowsAtOnce;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> result) {
                           if (!result.ok()) return self->done_(StoreFailed(result.status()));
                           self->OnRows(*result);
                         });
  }

 private:
  void OnRows(const kv::ScanResult& result) {
    const int64_t oldest = ToMicros(context_.client.NowLow() - kTargetRowValidFor);
    for (const kv::Entry& entry : result.entries) {
      const std::optional<TargetRowName> name = DecodeTargetRowKey(entry.key);
      HandlerRow row;
      if (!name.has_value() || !row.record.ParseFromString(entry.value))
        return done_(BrokenRecord("the state of a target"));
      query_.begin = KeyAfter(entry.key);
      // Its handler is dead.
      if (row.record.state().update_time_micros() < oldest) continue;
      if (target_ != name->target && !EndTarget()) return EndPage();
      target_ = name->target;
      row.handler = name->handler;
      rows_.push_back(std::move(row));
    }
    if (result.more && !result.entries.empty()) return Step();
    if (!EndTarget()) return EndPage();
    done_(std::move(page_));
  }

  // Shows the target whose rows have been read. False if it does not fit on the page.
  bool EndTarget() {
    if (rows_.empty()) return true;
    v1::TargetStatus shown = ShowTarget(query_.tenant, target_, rows_);
    if (page_.targets.size() == query_.targets_max || !budget_.Take(shown)) return false;
    page_.targets.push_back(std::move(shown));
    rows_.clear();
    return true;
  }

  void EndPage() {
    page_.next = target_;
    done_(std::move(page_));
  }

  MasterContext& context_;
  Query query_;
  absl::AnyInvocable<void(absl::StatusOr<Page>)> done_;
  Uid target_;                    // the target of `rows_`
  std::vector<HandlerRow> rows_;  // read, and not shown yet
  Page page_;
  PageBudget budget_;
};

}  // namespace

void TargetService::ListTargets(v1::ListTargetsRequest request,
                                Done<v1::ListTargetsResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  std::string list = absl::StrCat("ListTargets ", *tenant);
  const absl::StatusOr<PageRequest> wanted = ReadPage(list, request);
  if (!wanted.ok()) return context_.Refuse(wanted.status(), std::move(done));
  const std::string prefix = TargetRowPrefix(*tenant);
  std::make_shared<Listing>(
      context_,
      Listing::Query{.tenant = *tenant,
                     .begin = wanted->position.empty()
                                  ? prefix
                                  : TargetRowPrefix(*tenant, Uid::FromBytes(wanted->position)),
                     .end = PrefixEnd(prefix),
                     .targets_max = wanted->size},
      [list = std::move(list), done = std::move(done)](absl::StatusOr<Listing::Page> page) mutable {
        if (!page.ok()) return done(page.status());
        v1::ListTargetsResponse response;
        for (v1::TargetStatus& target : page->targets) *response.add_targets() = std::move(target);
        if (page->next.has_value())
          response.set_next_page_token(EncodePageToken(list, page->next->bytes()));
        done(std::move(response));
      })
      ->Step();
}

void TargetService::Read(const TargetName& name,
                         absl::AnyInvocable<void(absl::StatusOr<v1::TargetStatus>)> done) {
  const std::string prefix = TargetRowPrefix(name.tenant, name.target);
  std::make_shared<Listing>(
      context_,
      Listing::Query{
          .tenant = name.tenant, .begin = prefix, .end = PrefixEnd(prefix), .targets_max = 1},
      [resource = absl::StrCat("tenants/", name.tenant, "/targets/", name.target.ToHex()),
       done = std::move(done)](absl::StatusOr<Listing::Page> page) mutable {
        if (!page.ok()) return done(page.status());
        if (page->targets.empty()) return done(NotFound(resource));
        done(std::move(page->targets[0]));
      })
      ->Step();
}

void TargetService::GetTarget(v1::GetTargetRequest request, Done<v1::TargetStatus> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<TargetName> name = ParseTargetName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  Read(*name, std::move(done));
}

void TargetService::ResetTarget(v1::ResetTargetRequest request, Done<v1::TargetStatus> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<TargetName> name = ParseTargetName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  RecordChange change{
      .key = {kv::ColumnFamily::kTargetStates,
              EncodeTargetRowKey({.tenant = "", .target = name->target, .handler = ""})},
      .resource = request.name(),
      .mark = RequestMark(name->tenant, "ResetTarget", "", request, *done.caller()),
      .response = std::make_unique<v1::TargetStatus>()};
  Read(*name, [this, change = std::move(change),
               done = std::move(done)](absl::StatusOr<v1::TargetStatus> target) mutable {
    if (!target.ok()) return done(target.status());
    change.decide = [key = change.key.key, target = *std::move(target)](
                        const std::optional<std::string>&,
                        absl::Time now) -> absl::StatusOr<RecordDecision> {
      storage::v1::TargetRowRecord row;
      row.mutable_state()->set_update_time_micros(ToMicros(now));
      RecordDecision decision;
      decision.group.mutations.push_back(
          kv::Put(kv::ColumnFamily::kTargetStates, key, row.SerializeAsString()));
      decision.response = std::make_unique<v1::TargetStatus>(target);
      return decision;
    };
    ChangeRecord(context_, std::move(change), AsAnswer(std::move(done)));
  });
}

namespace {

std::optional<std::string> DeleteOldRows(const kv::ScanResult& page, absl::Time now,
                                         kv::Commit& commit) {
  const int64_t oldest = ToMicros(now - kTargetRowValidFor);
  for (const kv::Entry& entry : page.entries) {
    storage::v1::TargetRowRecord record;
    if (record.ParseFromString(entry.value) && record.state().update_time_micros() >= oldest)
      continue;
    // Its handler may be alive after all, and have written it again.
    kv::Group& group = commit.groups.emplace_back();
    group.conditions.push_back({.cf = kv::ColumnFamily::kTargetStates,
                                .key = entry.key,
                                .kind = kv::Condition::Kind::kUnchangedSince,
                                .since = page.seq});
    group.mutations.push_back(kv::Delete(kv::ColumnFamily::kTargetStates, entry.key));
  }
  return std::nullopt;
}

}  // namespace

std::vector<SweptRows> TargetSweep() {
  return {{.cf = kv::ColumnFamily::kTargetStates, .delete_old = &DeleteOldRows}};
}

}  // namespace escapement::master
