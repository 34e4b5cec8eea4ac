#include "common/kv/wire/kv_wire.h"

#include <limits>
#include <utility>

#include "common/base/proto_time.h"
#include "escapement/internal/v1/store.pb.h"

namespace escapement::kv {
namespace {

// A number that does not fit into the type becomes one that validation refuses.
ColumnFamily FamilyFromWire(uint32_t cf) {
  return static_cast<ColumnFamily>(cf > 0xff ? 0xff : cf);
}
template <typename Kind>
Kind KindFromWire(uint32_t kind) {
  return static_cast<Kind>(kind > 0xff ? 0xff : kind);
}

void ConditionToWire(const Condition& condition, wire::KvCondition& out) {
  out.set_cf(static_cast<uint32_t>(condition.cf));
  out.set_key(condition.key);
  out.set_kind(static_cast<uint32_t>(condition.kind));
  if (!condition.value.empty()) out.set_value(condition.value);
  out.set_number(condition.number);
  out.set_since(condition.since);
}

Condition ConditionFromWire(wire::KvCondition& in) {
  Condition condition;
  condition.cf = FamilyFromWire(in.cf());
  condition.key = std::move(*in.mutable_key());
  condition.kind = KindFromWire<Condition::Kind>(in.kind());
  condition.value = std::move(*in.mutable_value());
  condition.number = in.number();
  condition.since = in.since();
  return condition;
}

void MutationToWire(const Mutation& mutation, wire::KvMutation& out) {
  out.set_cf(static_cast<uint32_t>(mutation.cf));
  out.set_kind(static_cast<uint32_t>(mutation.kind));
  out.set_key(mutation.key);
  if (!mutation.value.empty()) out.set_value(mutation.value);
  out.set_stamp_offset(mutation.stamp_offset);
  out.set_stamp_add_micros(absl::ToInt64Microseconds(mutation.stamp_add));
}

Mutation MutationFromWire(wire::KvMutation& in) {
  Mutation mutation;
  mutation.cf = FamilyFromWire(in.cf());
  mutation.kind = KindFromWire<Mutation::Kind>(in.kind());
  mutation.key = std::move(*in.mutable_key());
  mutation.value = std::move(*in.mutable_value());
  mutation.stamp_offset = in.stamp_offset();
  mutation.stamp_add = absl::Microseconds(in.stamp_add_micros());
  return mutation;
}

// 0 on the wire means: no slow phase.
template <typename Message>
void PaceToWire(const Pace& pace, Message* out) {
  out->set_slow_from_micros(pace.slow_from == absl::InfiniteFuture() ? 0
                                                                     : ToMicros(pace.slow_from));
  out->set_slowed_micros(absl::ToInt64Microseconds(pace.slowed));
}
template <typename Message>
Pace PaceFromWire(const Message& in) {
  Pace pace;
  if (in.slow_from_micros() != 0) pace.slow_from = FromMicros(in.slow_from_micros());
  pace.slowed = absl::Microseconds(in.slowed_micros());
  return pace;
}

absl::Status NoResult() { return absl::DataLossError("an answer of the store without a result"); }

void RangesToWire(const std::vector<KeyRange>& ranges,
                  google::protobuf::RepeatedPtrField<wire::KvRange>* out) {
  for (const KeyRange& range : ranges) {
    wire::KvRange* added = out->Add();
    added->set_begin(range.begin);
    added->set_end(range.end);
  }
}

std::vector<KeyRange> RangesFromWire(google::protobuf::RepeatedPtrField<wire::KvRange>* in) {
  std::vector<KeyRange> ranges;
  ranges.reserve(static_cast<size_t>(in->size()));
  for (wire::KvRange& range : *in)
    ranges.push_back({std::move(*range.mutable_begin()), std::move(*range.mutable_end())});
  return ranges;
}

}  // namespace

void ToWire(const CommitRequest& request, wire::CommitCall& call) {
  call.set_session(request.session);
  call.set_number(request.number);
  if (request.now_low != absl::InfinitePast()) call.set_now_low_micros(ToMicros(request.now_low));
  for (const Condition& condition : request.fence) ConditionToWire(condition, *call.add_fence());
  call.mutable_groups()->Reserve(static_cast<int>(request.groups.size()));
  for (const Group& group : request.groups) {
    wire::KvGroup* out = call.add_groups();
    for (const Condition& condition : group.conditions)
      ConditionToWire(condition, *out->add_conditions());
    for (const Mutation& mutation : group.mutations)
      MutationToWire(mutation, *out->add_mutations());
  }
}

CommitRequest FromWire(wire::CommitCall& call) {
  CommitRequest request;
  request.session = call.session();
  request.number = call.number();
  if (call.now_low_micros() != 0) request.now_low = FromMicros(call.now_low_micros());
  request.fence.reserve(call.fence_size());
  for (auto& condition : *call.mutable_fence())
    request.fence.push_back(ConditionFromWire(condition));
  request.groups.resize(call.groups_size());
  for (int i = 0; i < call.groups_size(); ++i) {
    wire::KvGroup& in = *call.mutable_groups(i);
    Group& group = request.groups[i];
    group.conditions.reserve(in.conditions_size());
    group.mutations.reserve(in.mutations_size());
    for (auto& condition : *in.mutable_conditions())
      group.conditions.push_back(ConditionFromWire(condition));
    for (auto& mutation : *in.mutable_mutations())
      group.mutations.push_back(MutationFromWire(mutation));
  }
  return request;
}

void ToWire(const std::vector<Key>& keys, wire::MultiGetCall& call) {
  for (const Key& key : keys) {
    wire::KvKey* out = call.add_keys();
    out->set_cf(static_cast<uint32_t>(key.cf));
    out->set_key(key.key);
  }
}

std::vector<Key> FromWire(wire::MultiGetCall& call) {
  std::vector<Key> keys;
  keys.reserve(call.keys_size());
  for (auto& key : *call.mutable_keys())
    keys.push_back({FamilyFromWire(key.cf()), std::move(*key.mutable_key())});
  return keys;
}

void ToWire(const ScanRequest& request, wire::ScanCall& call) {
  call.set_cf(static_cast<uint32_t>(request.cf));
  call.set_begin(request.begin);
  call.set_end(request.end);
  call.set_limit(request.limit);
  call.set_bytes_max(request.bytes_max);
  call.set_reverse(request.reverse);
  call.set_keys_only(request.keys_only);
  RangesToWire(request.then, call.mutable_then());
}

ScanRequest FromWire(wire::ScanCall& call) {
  ScanRequest request;
  request.cf = FamilyFromWire(call.cf());
  request.begin = std::move(*call.mutable_begin());
  request.end = std::move(*call.mutable_end());
  request.limit = call.limit();
  request.bytes_max = call.bytes_max();
  request.reverse = call.reverse();
  request.keys_only = call.keys_only();
  request.then = RangesFromWire(call.mutable_then());
  return request;
}

void ToWire(const WatchRequest& request, wire::OpenWatchCall& call) {
  call.set_cf(static_cast<uint32_t>(request.cf));
  call.set_begin(request.begin);
  call.set_end(request.end);
  call.set_from_seq(request.from_seq);
  call.set_excluded_session(request.excluded_session);
  RangesToWire(request.then, call.mutable_then());
}

WatchRequest FromWire(wire::OpenWatchCall& call) {
  WatchRequest request;
  request.cf = FamilyFromWire(call.cf());
  request.begin = std::move(*call.mutable_begin());
  request.end = std::move(*call.mutable_end());
  request.from_seq = call.from_seq();
  request.excluded_session = call.excluded_session();
  request.then = RangesFromWire(call.mutable_then());
  return request;
}

void ToWire(const absl::Status& status, wire::StoreAnswer& answer) {
  answer.set_status_code(static_cast<uint32_t>(status.code()));
  const absl::string_view message = status.message();
  answer.set_status_message(message.data(), message.size());
}

void ToWire(const absl::StatusOr<SessionInfo>& info, wire::StoreAnswer& answer) {
  if (!info.ok()) return ToWire(info.status(), answer);
  wire::SessionAnswer* out = answer.mutable_session();
  out->set_session(info->session);
  out->set_incarnation(info->incarnation);
  out->set_seq(info->seq);
  out->set_store_time_micros(ToMicros(info->store_time));
  PaceToWire(info->pace, out);
}

void ToWire(const absl::StatusOr<CommitResult>& result, wire::StoreAnswer& answer) {
  if (!result.ok()) return ToWire(result.status(), answer);
  wire::CommitAnswer* out = answer.mutable_commit();
  out->set_seq(result->seq);
  out->set_store_time_micros(ToMicros(result->store_time));
  PaceToWire(result->pace, out);
  out->set_groups(static_cast<uint32_t>(result->verdicts.size()));
  for (size_t i = 0; i < result->verdicts.size(); ++i) {
    if (result->verdicts[i].applied) continue;
    wire::FailedGroup* failed = out->add_failed();
    failed->set_index(static_cast<uint32_t>(i));
    failed->set_condition(result->verdicts[i].failed_condition);
  }
}

void ToWire(absl::StatusOr<GetResult> result, wire::StoreAnswer& answer) {
  if (!result.ok()) return ToWire(result.status(), answer);
  wire::MultiGetAnswer* out = answer.mutable_multi_get();
  for (auto& value : result->values) {
    auto* v = out->add_values();
    v->set_present(value.has_value());
    if (value.has_value()) v->set_value(std::move(*value));
  }
  out->set_seq(result->seq);
  out->set_store_time_micros(ToMicros(result->store_time));
}

void ToWire(absl::StatusOr<ScanResult> result, wire::StoreAnswer& answer) {
  if (!result.ok()) return ToWire(result.status(), answer);
  wire::ScanAnswer* out = answer.mutable_scan();
  out->mutable_entries()->Reserve(static_cast<int>(result->entries.size()));
  for (Entry& entry : result->entries) {
    auto* e = out->add_entries();
    e->set_key(std::move(entry.key));
    if (!entry.value.empty()) e->set_value(std::move(entry.value));
  }
  out->set_more(result->more);
  out->set_seq(result->seq);
  out->set_store_time_micros(ToMicros(result->store_time));
}

void ToWire(WatchBatch batch, wire::StoreAnswer& answer) {
  wire::KvWatchBatch* out = answer.mutable_watch_batch();
  out->set_seq(batch.seq);
  out->set_store_time_micros(ToMicros(batch.store_time));
  for (WatchedMutation& mutation : batch.mutations) {
    auto* m = out->add_mutations();
    m->set_kind(static_cast<uint32_t>(mutation.kind));
    m->set_key(std::move(mutation.key));
    if (!mutation.value.empty()) m->set_value(std::move(mutation.value));
    m->set_value_omitted(mutation.value_omitted);
  }
}

void ToWire(const ClockCall& call, wire::ClockCall& out) {
  if (call.host.has_value()) {
    out.set_boot_id(call.host->boot_id);
    out.set_wall_micros(ToMicros(call.host->wall));
  }
  out.set_confirm(call.confirm);
}

ClockCall FromWire(wire::ClockCall& in) {
  ClockCall call;
  if (!in.boot_id().empty())
    call.host = HostClock{std::move(*in.mutable_boot_id()), FromMicros(in.wall_micros())};
  call.confirm = in.confirm();
  return call;
}

void ToWire(const absl::StatusOr<ClockState>& state, wire::StoreAnswer& answer) {
  if (!state.ok()) return ToWire(state.status(), answer);
  wire::ClockAnswer* out = answer.mutable_clock();
  out->set_store_time_micros(ToMicros(state->store_time));
  PaceToWire(state->pace, out);
  out->set_disagreement_micros(absl::ToInt64Microseconds(state->disagreement));
  out->set_held(state->held);
  out->set_held_for_micros(absl::ToInt64Microseconds(state->held_for));
  out->set_synchronised(state->synchronised);
  out->set_hosts(state->hosts);
  out->set_hosts_disagree(state->hosts_disagree);
}

void ToWire(absl::StatusOr<v1::StoreStatus> status, wire::StoreAnswer& answer) {
  if (!status.ok()) return ToWire(status.status(), answer);
  *answer.mutable_status() = *std::move(status);
}

void ToWire(const absl::StatusOr<v1::HandOverResponse>& handed_over, wire::StoreAnswer& answer) {
  if (!handed_over.ok()) return ToWire(handed_over.status(), answer);
  answer.mutable_handed_over();
}

absl::Status StatusFromWire(const wire::StoreAnswer& answer) {
  return absl::Status(static_cast<absl::StatusCode>(answer.status_code()), answer.status_message());
}

absl::StatusOr<SessionInfo> SessionFromWire(wire::StoreAnswer& answer) {
  if (answer.status_code() != 0) return StatusFromWire(answer);
  if (!answer.has_session()) return NoResult();
  const auto& in = answer.session();
  return SessionInfo{in.session(), in.incarnation(), in.seq(), FromMicros(in.store_time_micros()),
                     PaceFromWire(in)};
}

absl::StatusOr<CommitResult> CommitFromWire(wire::StoreAnswer& answer) {
  if (answer.status_code() != 0) return StatusFromWire(answer);
  if (!answer.has_commit() || answer.commit().groups() > kGroupsMax) return NoResult();
  const auto& in = answer.commit();
  CommitResult result{in.seq(), FromMicros(in.store_time_micros()), {}};
  result.pace = PaceFromWire(in);
  result.verdicts.assign(in.groups(), Verdict{true, Verdict::kNone});
  for (const auto& failed : in.failed()) {
    if (failed.index() >= result.verdicts.size()) return NoResult();
    result.verdicts[failed.index()] = Verdict{false, static_cast<uint16_t>(failed.condition())};
  }
  return result;
}

absl::StatusOr<GetResult> GetFromWire(wire::StoreAnswer& answer) {
  if (answer.status_code() != 0) return StatusFromWire(answer);
  if (!answer.has_multi_get()) return NoResult();
  auto& in = *answer.mutable_multi_get();
  GetResult result{{}, in.seq(), FromMicros(in.store_time_micros())};
  result.values.reserve(in.values_size());
  for (auto& value : *in.mutable_values()) {
    result.values.emplace_back();
    if (value.present()) result.values.back() = std::move(*value.mutable_value());
  }
  return result;
}

absl::StatusOr<ScanResult> ScanFromWire(wire::StoreAnswer& answer) {
  if (answer.status_code() != 0) return StatusFromWire(answer);
  if (!answer.has_scan()) return NoResult();
  auto& in = *answer.mutable_scan();
  ScanResult result{{}, in.more(), in.seq(), FromMicros(in.store_time_micros())};
  result.entries.reserve(in.entries_size());
  for (auto& entry : *in.mutable_entries()) {
    result.entries.push_back({std::move(*entry.mutable_key()), std::move(*entry.mutable_value())});
  }
  return result;
}

absl::StatusOr<ClockState> ClockFromWire(wire::StoreAnswer& answer) {
  if (answer.status_code() != 0) return StatusFromWire(answer);
  if (!answer.has_clock()) return NoResult();
  const auto& in = answer.clock();
  ClockState state;
  state.store_time = FromMicros(in.store_time_micros());
  state.pace = PaceFromWire(in);
  state.disagreement = absl::Microseconds(in.disagreement_micros());
  state.held = in.held();
  state.held_for = absl::Microseconds(in.held_for_micros());
  state.synchronised = in.synchronised();
  state.hosts = in.hosts();
  state.hosts_disagree = in.hosts_disagree();
  return state;
}

absl::StatusOr<v1::StoreStatus> StoreStatusFromWire(wire::StoreAnswer& answer) {
  if (answer.status_code() != 0) return StatusFromWire(answer);
  if (!answer.has_status()) return NoResult();
  return std::move(*answer.mutable_status());
}

absl::StatusOr<v1::HandOverResponse> HandedOverFromWire(wire::StoreAnswer& answer) {
  if (answer.status_code() != 0) return StatusFromWire(answer);
  if (!answer.has_handed_over()) return NoResult();
  return answer.handed_over();
}

WatchBatch WatchBatchFromWire(wire::KvWatchBatch& in) {
  WatchBatch batch{in.seq(), {}, FromMicros(in.store_time_micros())};
  batch.mutations.reserve(in.mutations_size());
  for (auto& mutation : *in.mutable_mutations()) {
    batch.mutations.push_back({KindFromWire<Mutation::Kind>(mutation.kind()),
                               std::move(*mutation.mutable_key()),
                               std::move(*mutation.mutable_value()), mutation.value_omitted()});
  }
  return batch;
}

}  // namespace escapement::kv
