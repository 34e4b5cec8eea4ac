#include "common/kv/commit_validation.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"

namespace escapement::kv {
namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

bool KnownFamily(ColumnFamily cf) { return static_cast<size_t>(cf) < kColumnFamilyCount; }

absl::Status ValidateKey(ColumnFamily cf, absl::string_view key) {
  if (!KnownFamily(cf)) return Invalid("unknown column family");
  if (key.empty()) return Invalid("empty key");
  if (key.size() > kKeyBytesMax) return Invalid(absl::StrCat("a key of ", key.size(), " bytes"));
  if (cf == ColumnFamily::kMeta && IsReservedMetaKey(key))
    return Invalid("a key that is the store's own");
  return absl::OkStatus();
}

absl::Status ValidateCondition(const Condition& condition, size_t& bytes) {
  if (condition.kind == Condition::Kind::kTimeBefore) return absl::OkStatus();
  RETURN_IF_ERROR(ValidateKey(condition.cf, condition.key));
  if (condition.kind > Condition::Kind::kTimeBefore) return Invalid("unknown kind of condition");
  if (condition.kind == Condition::Kind::kRangeCount && condition.value <= condition.key) {
    return Invalid("a count over an empty range");
  }
  if (condition.value.size() > kValueBytesMax) return Invalid("a condition's value is too long");
  bytes += condition.key.size() + condition.value.size();
  return absl::OkStatus();
}

bool HasCountOver(const Group& group, const Mutation& range) {
  for (const Condition& condition : group.conditions) {
    if (condition.kind == Condition::Kind::kRangeCount && condition.cf == range.cf &&
        condition.key == range.key && condition.value == range.value) {
      return true;
    }
  }
  return false;
}

bool InsideOneClaimPrefix(const Mutation& range) {
  if (range.key.size() < kClaimPrefixBytesMin) return false;
  const std::string bound = PrefixEnd(range.key.substr(0, kClaimPrefixBytesMin));
  return bound.empty() || range.value <= bound;
}

absl::Status ValidateDeleteRange(const Group& group, const Mutation& range) {
  if (range.value <= range.key) return Invalid("DeleteRange over an empty range");
  if (HasCountOver(group, range)) return absl::OkStatus();
  if (range.cf == ColumnFamily::kInflight && InsideOneClaimPrefix(range)) return absl::OkStatus();
  if (range.cf == ColumnFamily::kDone && range.key.size() == kDoneDayPrefixBytes &&
      range.value == PrefixEnd(range.key)) {
    return absl::OkStatus();
  }
  return Invalid(
      absl::StrCat("DeleteRange in ", Name(range.cf), " without a count over the same range"));
}

absl::Status ValidateMutation(const Group& group, const Mutation& mutation, size_t& bytes) {
  RETURN_IF_ERROR(ValidateKey(mutation.cf, mutation.key));
  if (mutation.value.size() > kValueBytesMax) {
    return Invalid(absl::StrCat("a value of ", mutation.value.size(), " bytes"));
  }
  bytes += mutation.key.size() + mutation.value.size();
  switch (mutation.kind) {
    case Mutation::Kind::kPut:
    case Mutation::Kind::kDelete:
      return absl::OkStatus();
    case Mutation::Kind::kDeleteRange:
      return ValidateDeleteRange(group, mutation);
    case Mutation::Kind::kPutStamped:
      if (uint64_t{mutation.stamp_offset} + 8 > mutation.value.size())
        return Invalid("a stamp outside its value");
      return absl::OkStatus();
  }
  return Invalid("unknown kind of mutation");
}

bool IsPut(const Mutation& mutation) {
  return mutation.kind == Mutation::Kind::kPut || mutation.kind == Mutation::Kind::kPutStamped;
}

bool WantsAbsent(const Group& group, const Mutation& mutation) {
  for (const Condition& condition : group.conditions) {
    if (condition.kind == Condition::Kind::kAbsent && condition.cf == mutation.cf &&
        condition.key == mutation.key) {
      return true;
    }
  }
  return false;
}

// `put` has written a key, and `next` writes it again. An exact repeat loses nothing, unless the
// group wants the key absent: then each of the two was meant to be the first.
absl::Status ValidateRepeat(const Group& group, const Mutation& put, const Mutation& next) {
  const bool same = put.kind == next.kind && put.value == next.value &&
                    put.stamp_offset == next.stamp_offset && put.stamp_add == next.stamp_add;
  if (same && !WantsAbsent(group, put)) return absl::OkStatus();
  return Invalid(absl::StrCat("one group puts a key of ", Name(put.cf), " and writes it again"));
}

struct KeyHash {
  size_t operator()(const std::pair<ColumnFamily, absl::string_view>& key) const {
    return StableHash64(key.second);  // the same key in two families is rare
  }
};

// A group's conditions are evaluated before its own mutations. So two items of one group that want
// the same key would both pass, and the second would silently replace the first. A delete with a
// put after it is allowed: an update replaces a key that way.
absl::Status ValidatePutsOnce(const Group& group) {
  // Most groups are this small, and comparing is then cheaper than hashing.
  constexpr size_t kComparedMax = 8;
  const std::vector<Mutation>& mutations = group.mutations;
  if (mutations.size() <= kComparedMax) {
    for (size_t i = 1; i < mutations.size(); ++i) {
      const Mutation& next = mutations[i];
      if (next.kind == Mutation::Kind::kDeleteRange) continue;
      for (size_t j = 0; j < i; ++j) {
        const Mutation& put = mutations[j];
        if (put.cf != next.cf || put.key != next.key || !IsPut(put)) continue;
        RETURN_IF_ERROR(ValidateRepeat(group, put, next));
      }
    }
    return absl::OkStatus();
  }
  absl::flat_hash_map<std::pair<ColumnFamily, absl::string_view>, const Mutation*, KeyHash> puts;
  puts.reserve(mutations.size());
  for (const Mutation& mutation : mutations) {
    const Mutation* put = nullptr;
    if (IsPut(mutation)) {
      const auto [it, added] = puts.try_emplace({mutation.cf, mutation.key}, &mutation);
      if (!added) put = it->second;
    } else if (mutation.kind == Mutation::Kind::kDelete && !puts.empty()) {
      const auto it = puts.find({mutation.cf, mutation.key});
      if (it != puts.end()) put = it->second;
    }
    if (put == nullptr) continue;
    RETURN_IF_ERROR(ValidateRepeat(group, *put, mutation));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateCommit(const CommitRequest& request) {
  if (request.groups.size() > kGroupsMax)
    return Invalid(absl::StrCat(request.groups.size(), " groups in one commit"));
  size_t bytes = 0;
  for (const Condition& condition : request.fence) {
    RETURN_IF_ERROR(ValidateCondition(condition, bytes));
  }
  for (const Group& group : request.groups) {
    for (const Condition& condition : group.conditions) {
      RETURN_IF_ERROR(ValidateCondition(condition, bytes));
    }
    for (const Mutation& mutation : group.mutations) {
      RETURN_IF_ERROR(ValidateMutation(group, mutation, bytes));
    }
    RETURN_IF_ERROR(ValidatePutsOnce(group));
    if (group.conditions.size() >= Verdict::kNone)
      return Invalid("too many conditions in one group");
  }
  if (bytes > kCommitBytesMax) return Invalid(absl::StrCat("a commit of ", bytes, " bytes"));
  return absl::OkStatus();
}

absl::Status ValidateScan(const ScanRequest& request) {
  if (!KnownFamily(request.cf)) return Invalid("unknown column family");
  if (request.begin.size() > kKeyBytesMax || request.end.size() > kKeyBytesMax)
    return Invalid("a key is too long");
  if (request.limit == 0) return Invalid("a scan of no entries");
  if (request.then.size() > kScanRangesMax) return Invalid("a scan of too many ranges");
  if (request.reverse && !request.then.empty()) return Invalid("a reverse scan of several ranges");
  const std::string* end = &request.end;
  for (const KeyRange& range : request.then) {
    if (range.begin.size() > kKeyBytesMax || range.end.size() > kKeyBytesMax)
      return Invalid("a key is too long");
    if (end->empty() || range.begin < *end || (!range.end.empty() && range.end < range.begin))
      return Invalid("the ranges of a scan are not ascending and disjoint");
    end = &range.end;
  }
  return absl::OkStatus();
}

absl::Status ValidateKeys(const std::vector<Key>& keys) {
  if (keys.size() > kMultiGetKeysMax)
    return Invalid(absl::StrCat(keys.size(), " keys in one read"));
  for (const Key& key : keys) {
    RETURN_IF_ERROR(ValidateKey(key.cf, key.key));
  }
  return absl::OkStatus();
}

absl::Status ValidateAnswer(const GetResult& result) {
  size_t bytes = 0;
  for (const auto& value : result.values) bytes += value.has_value() ? value->size() : 0;
  if (bytes <= kMultiGetBytesMax) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat("store: ", bytes, " bytes in one read"));
}

}  // namespace escapement::kv
