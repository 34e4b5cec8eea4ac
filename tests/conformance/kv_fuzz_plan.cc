#include "tests/conformance/kv_fuzz_plan.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"

namespace escapement::kv {
namespace {

constexpr ColumnFamily kFamilies[] = {
    ColumnFamily::kEvents, ColumnFamily::kInflight, ColumnFamily::kStates,  ColumnFamily::kDone,
    ColumnFamily::kLeases, ColumnFamily::kMeta,     ColumnFamily::kChildren};

std::string Day(uint64_t day) { return absl::StrCat("s0day", day); }

}  // namespace

ColumnFamily KvFuzzPlan::Family() { return kFamilies[Below(std::size(kFamilies))]; }

std::string KvFuzzPlan::KeyIn(ColumnFamily cf) {
  if (cf == ColumnFamily::kDone)
    return absl::StrCat(Day(Below(3)), absl::Dec(Below(40), absl::kZeroPad3));
  if (cf == ColumnFamily::kChildren) {
    std::string key = ChildPrefix() + static_cast<char>('a' + Below(4));
    if (Below(8) == 0) key.resize(Below(key.size()) + 1);
    return key;
  }
  return absl::StrCat("0123456789", Below(40));
}

std::string KvFuzzPlan::ChildPrefix() {
  return KeyWriter()
      .U16(static_cast<uint16_t>(Below(2)))
      .Text(Below(2) == 0 ? "" : "Z")
      .U8(0)
      .U16(0)
      .U8(Below(2) == 0 ? 3 : 255)
      .U8(Below(2) == 0 ? 7 : 255)
      .Take();
}

std::string KvFuzzPlan::Value(absl::Time now) {
  switch (Below(8)) {
    case 0:
      return "";
    case 1:  // around the largest value that watches deliver
      return std::string(kWatchValueBytesMax - 1 + Below(3), 'x');
    case 2: {
      std::string value;
      const absl::Time stamp = now + absl::Milliseconds(Below(400)) - absl::Milliseconds(200);
      AppendBigEndian<uint64_t>(&value, static_cast<uint64_t>(ToMicros(stamp)));
      return value + "tail";
    }
    default:
      return std::string(1 + Below(3), static_cast<char>('a' + Below(3)));
  }
}

CommitSeq KvFuzzPlan::Back(CommitSeq seq) {
  const CommitSeq back = Below(Below(4) == 0 ? 300 : 12);
  return seq > back ? seq - back : 0;
}

Condition KvFuzzPlan::SomeCondition(CommitSeq seq, absl::Time now) {
  Condition condition;
  condition.kind = static_cast<Condition::Kind>(Below(8));
  condition.cf = Family();
  condition.key = KeyIn(condition.cf);
  if (Below(3) == 0) condition.since = Back(seq + 2);
  switch (condition.kind) {
    case Condition::Kind::kValueEquals:
    case Condition::Kind::kValuePrefix:
      condition.value = Value(now);
      break;
    case Condition::Kind::kUnchangedSince:
      condition.since = Back(seq);
      break;
    case Condition::Kind::kStampPassed:
      condition.number = Below(8) == 0 ? Below(20) : 0;
      break;
    case Condition::Kind::kTimeBefore:
      condition.number = static_cast<uint64_t>(absl::ToUnixMicros(now) + Below(3)) - 1;
      break;
    case Condition::Kind::kRangeCount:
      condition.value =
          Below(4) == 0 ? KeyIn(condition.cf) : condition.key + (Below(8) == 0 ? "" : "9");
      condition.number = Below(3);
      break;
    default:
      break;
  }
  return condition;
}

Mutation KvFuzzPlan::SomeRange(Group& group) {
  Mutation range;
  range.kind = Mutation::Kind::kDeleteRange;
  switch (Below(4)) {
    case 0:  // the range of a claim
      range.cf = ColumnFamily::kInflight;
      range.key = KeyIn(range.cf);
      range.value = range.key + "9";
      return range;
    case 1:  // the range of a day
      range.cf = ColumnFamily::kDone;
      range.key = Day(Below(3));
      range.value = PrefixEnd(range.key);
      return range;
    default:  // a range whose rows are counted, or that is refused
      range.cf = Family();
      range.key = KeyIn(range.cf);
      range.value = range.key + "5";
      if (Below(5) == 0) return range;
      group.conditions.push_back({.cf = range.cf,
                                  .key = range.key,
                                  .kind = Condition::Kind::kRangeCount,
                                  .value = range.value,
                                  .number = Below(3)});
      return range;
  }
}

Mutation KvFuzzPlan::SomeStamp(absl::Time now) {
  Mutation stamp;
  stamp.kind = Mutation::Kind::kPutStamped;
  stamp.cf = Family();
  stamp.key = KeyIn(stamp.cf);
  stamp.value = std::string(8 + Below(6), 's');
  stamp.stamp_offset = static_cast<uint32_t>(Below(Below(10) == 0 ? 9 : 3));
  stamp.stamp_add = absl::Milliseconds(Below(400)) - absl::Milliseconds(200);
  return stamp;
}

Mutation KvFuzzPlan::SomeMutation(Group& group, absl::Time now) {
  const uint64_t kind = Below(12);
  if (kind < 2) return SomeRange(group);
  if (kind < 4) return SomeStamp(now);
  Mutation mutation;
  mutation.cf = Family();
  mutation.key = KeyIn(mutation.cf);
  if (mutation.cf == ColumnFamily::kMeta && Below(40) == 0) mutation.key = std::string("\0q", 2);
  mutation.kind = kind < 7 ? Mutation::Kind::kDelete : Mutation::Kind::kPut;
  if (mutation.kind == Mutation::Kind::kPut) mutation.value = Value(now);
  return mutation;
}

Group KvFuzzPlan::ManyRows(absl::Time now) {
  Group group;
  const std::string day = Day(Below(3));
  const std::string value = Value(now);
  for (uint64_t i = 100 + Below(80); i > 0; --i) {
    Mutation put;
    put.cf = ColumnFamily::kDone;
    put.key = absl::StrCat(day, absl::Dec(i, absl::kZeroPad3));
    put.value = value;
    group.mutations.push_back(std::move(put));
  }
  return group;
}

CommitRequest KvFuzzPlan::Commit(CommitSeq seq, absl::Time now) {
  CommitRequest request;
  if (Below(10) == 0) request.fence.push_back(SomeCondition(seq, now));
  request.groups.resize(Below(5));
  for (Group& group : request.groups) {
    if (Below(40) == 0) {
      group = ManyRows(now);
      continue;
    }
    for (uint64_t i = Below(3); i > 1; --i) group.conditions.push_back(SomeCondition(seq, now));
    for (uint64_t i = Below(4); i > 0; --i) group.mutations.push_back(SomeMutation(group, now));
  }
  return request;
}

ScanRequest KvFuzzPlan::Scan() {
  ScanRequest scan;
  scan.cf = Family();
  if (Below(4) != 0) scan.begin = KeyIn(scan.cf);
  if (Below(2) == 0) scan.end = KeyIn(scan.cf);
  scan.limit = static_cast<uint32_t>(Below(3) == 0 ? 1000 : Below(20));
  scan.bytes_max = static_cast<uint32_t>(Below(2) == 0 ? 1 << 20 : Below(400));
  scan.reverse = Below(2) == 0;
  scan.keys_only = Below(4) == 0;
  if (scan.cf == ColumnFamily::kChildren && Below(3) != 0) {
    ReadPrefixes(scan);
    return scan;
  }
  if (Below(3) != 0 || scan.reverse || scan.end.empty()) return scan;
  std::vector<std::string> keys = {scan.end};
  for (uint64_t i = 2 * Below(4); i > 0; --i) keys.push_back(KeyIn(scan.cf));
  std::sort(keys.begin() + 1, keys.end());
  for (size_t i = 1; i < keys.size(); i += 2) {
    if (keys[i] >= scan.end) scan.then.push_back({keys[i], keys[i + 1]});
  }
  return scan;
}

void KvFuzzPlan::ReadPrefixes(ScanRequest& scan) {
  std::set<std::string> prefixes;
  for (uint64_t i = 1 + Below(6); i > 0; --i) prefixes.insert(ChildPrefix());
  for (const std::string& prefix : prefixes) {
    KeyRange range{prefix, PrefixEnd(prefix)};
    if (Below(4) == 0) range.begin += static_cast<char>('a' + Below(4));
    if (Below(4) == 0) range.end = prefix + static_cast<char>('a' + Below(5));
    if (prefix == *prefixes.begin()) {
      scan.begin = range.begin;
      scan.end = range.end;
      if (scan.reverse) return;
    } else {
      scan.then.push_back(std::move(range));
    }
  }
}

std::vector<Key> KvFuzzPlan::Keys() {
  std::vector<Key> keys(Below(6));
  for (Key& key : keys) {
    key.cf = Family();
    key.key = KeyIn(key.cf);
  }
  return keys;
}

WatchRequest KvFuzzPlan::Watch(CommitSeq seq) {
  WatchRequest watch;
  watch.cf = Family();
  if (Below(2) == 0) watch.begin = KeyIn(watch.cf);
  if (Below(2) == 0) watch.end = KeyIn(watch.cf);
  watch.from_seq = Below(2) == 0 ? kWatchFromNow : Back(seq);
  std::set<std::string> begins;
  for (uint64_t i = Below(4); i > 0; --i) begins.insert(KeyIn(watch.cf));
  begins.erase(begins.begin(), begins.upper_bound(watch.begin));
  for (const std::string& begin : begins)
    watch.then.push_back({begin, Below(3) == 0 ? "" : KeyIn(watch.cf)});
  return watch;
}

}  // namespace escapement::kv
