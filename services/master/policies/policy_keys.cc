#include "services/master/policies/policy_keys.h"

#include <algorithm>
#include <iterator>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "common/storage/waiting_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/policies/policy_codec.h"
#include "services/master/requests/range_reader.h"

namespace escapement::master {

KeyTally::Use* KeyTally::Of(const std::string& key) {
  const auto found = keys_.lower_bound(key);
  if (found != keys_.end() && found->first == key) return &found->second;
  if (keys_.size() < keys_max_) return &keys_.emplace_hint(found, key, Use())->second;
  // A key that makes room for a smaller one does not come back: those that are kept only get
  // smaller.
  if (found == keys_.end()) return nullptr;
  Use* use = &keys_.emplace_hint(found, key, Use())->second;
  keys_.erase(std::prev(keys_.end()));
  return use;
}

void KeyTally::AddHeld(const std::string& key, uint64_t count) {
  if (count == 0) return;
  if (Use* use = Of(key); use != nullptr) use->held += count;
}

void KeyTally::AddWaiting(const storage::v1::EventRecord& row, const DueEvents& due) {
  if (row.throttle().taken() >= row.count()) return;
  Use* use = Of(row.throttle().policy_key());
  if (use == nullptr) return;
  use->waiting += due.count;
  use->later += row.count() - row.throttle().taken() - due.count;
  use->oldest = std::min(use->oldest, due.oldest);
}

std::vector<KeyTally::Key> KeyTally::Busiest(size_t limit) const {
  std::vector<Key> waiting(keys_.begin(), keys_.end());
  // Stable: equal ones stay in the order of their keys.
  std::stable_sort(waiting.begin(), waiting.end(),
                   [](const Key& a, const Key& b) { return a.second.oldest < b.second.oldest; });
  std::vector<Key> busiest;
  auto next = waiting.begin();
  while (next != waiting.end() && busiest.size() < limit && next->second.waiting > 0)
    busiest.push_back(std::move(*next++));
  std::vector<Key> others(std::make_move_iterator(next), std::make_move_iterator(waiting.end()));
  std::erase_if(others, [](const Key& key) { return key.second.held == 0; });
  std::sort(others.begin(), others.end(), [](const Key& a, const Key& b) {
    return a.second.held != b.second.held ? a.second.held > b.second.held : a.first < b.first;
  });
  if (others.size() > limit) others.resize(limit);
  std::move(others.begin(), others.end(), std::back_inserter(busiest));
  return busiest;
}

v1::PolicyKeyUsage ShowKey(const std::string& key, const KeyTally::Use& use,
                           const storage::v1::PolicyRecord& policy, absl::Time now) {
  v1::PolicyKeyUsage shown;
  shown.set_policy_key(key);
  shown.set_held_count(static_cast<int64_t>(use.held));
  shown.set_waiting_count(static_cast<int64_t>(use.waiting));
  shown.set_later_count(static_cast<int64_t>(use.later));
  if (use.waiting > 0) SetTimestamp(ToMicros(use.oldest), *shown.mutable_oldest_due_time());
  for (const storage::v1::OverrideRecord& override : policy.overrides()) {
    if (override.has_policy_key() && override.policy_key() == key && InForce(override, now))
      *shown.mutable_override() = ShowOverride(override);
  }
  return shown;
}

namespace {

using kv::ColumnFamily;

class KeysRead : public std::enable_shared_from_this<KeysRead> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<PolicyKeyPage>)>;
  KeysRead(MasterContext& context, PolicyKeyQuery query, Read done)
      : context_(context),
        query_(std::move(query)),
        done_(std::move(done)),
        tally_(query_.page_size + 1) {}

  void ReadPolicy() {
    context_.client.MultiGet(
        {{ColumnFamily::kPolicies, PolicyKey(query_.name.tenant, query_.name.policy)}},
        context_.executor, [self = shared_from_this()](absl::StatusOr<kv::GetResult> result) {
          if (!result.ok()) return self->done_(StoreFailed(result.status()));
          self->OnPolicy(result->values[0]);
        });
  }

 private:
  void OnPolicy(const std::optional<std::string>& value) {
    if (!value.has_value()) return done_(NotFound(query_.name.ToString()));
    if (!policy_.ParseFromString(*value)) return done_(BrokenRecord(query_.name.ToString()));
    now_ = context_.client.NowLow();
    const auto [shard, uid] = WaitingPlaceOf(policy_, context_.layout.policy_shards);
    const std::string waiting = WaitingPolicyPrefix(shard, uid);
    // One more row than is counted tells that there are more.
    ReadRanges(
        context_,
        {{ColumnFamily::kGrants, GrantsBegin(shard, uid), GrantsEnd(shard, uid)},
         {ColumnFamily::kWaiting, waiting, PrefixEnd(waiting)}},
        kPolicyKeyRowsMax + 1,
        [self = shared_from_this()](const KeyRange& range, kv::Entry& entry) {
          return self->Visit(range.cf == ColumnFamily::kGrants, entry);
        },
        [self = shared_from_this()](const absl::Status& status) {
          status.ok() ? self->Answer() : self->done_(status);
        });
  }

  absl::StatusOr<bool> Visit(bool is_grant, const kv::Entry& entry) {
    if (++(is_grant ? grants_ : rows_) > kPolicyKeyRowsMax) {
      page_.response.set_truncated(true);
      return true;
    }
    return is_grant ? VisitGrant(entry) : VisitRow(entry);
  }

  absl::StatusOr<bool> VisitGrant(const kv::Entry& entry) {
    storage::v1::GrantRecord grant;
    if (!grant.ParseFromString(entry.value))
      return BrokenRecord(absl::StrCat("a grant of ", query_.name.ToString()));
    const std::string& key = grant.event().throttle().policy_key();
    if (!Wanted(key)) return true;
    const uint64_t weight = std::max<uint64_t>(grant.event().throttle().weight(), 1);
    for (const auto& range : grant.holders()) tally_.AddHeld(key, range.count() * weight);
    return true;
  }

  absl::StatusOr<bool> VisitRow(const kv::Entry& entry) {
    const std::optional<WaitingKey> key = DecodeWaitingKey(entry.key);
    storage::v1::EventRecord row;
    if (!key.has_value() || !row.ParseFromString(entry.value))
      return BrokenRecord(absl::StrCat("a waiting row of ", query_.name.ToString()));
    if (Wanted(row.throttle().policy_key())) tally_.AddWaiting(row, DueOf(*key, row, now_));
    return true;
  }

  bool Wanted(const std::string& key) const {
    return absl::StartsWith(key, query_.prefix) &&
           (!query_.after.has_value() || key > *query_.after);
  }

  void Answer() {
    for (const auto& [key, use] : tally_.keys()) {
      if (static_cast<size_t>(page_.response.keys_size()) == query_.page_size) {
        page_.more = true;
        break;
      }
      *page_.response.add_keys() = ShowKey(key, use, policy_, now_);
    }
    done_(std::move(page_));
  }

  MasterContext& context_;
  const PolicyKeyQuery query_;
  Read done_;
  storage::v1::PolicyRecord policy_;
  absl::Time now_;
  KeyTally tally_;
  size_t grants_ = 0, rows_ = 0;  // read so far
  PolicyKeyPage page_;
};

}  // namespace

void ReadPolicyKeys(MasterContext& context, PolicyKeyQuery query,
                    absl::AnyInvocable<void(absl::StatusOr<PolicyKeyPage>)> done) {
  std::make_shared<KeysRead>(context, std::move(query), std::move(done))->ReadPolicy();
}

}  // namespace escapement::master
