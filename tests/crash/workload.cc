#include "tests/crash/workload.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/key_codec.h"

namespace escapement::crash {
namespace {

using kv::ColumnFamily;
using kv::Condition;
using kv::Group;
using kv::Mutation;

constexpr ColumnFamily kRowFamilies[] = {ColumnFamily::kEvents, ColumnFamily::kStates,
                                         ColumnFamily::kWaiting, ColumnFamily::kLeases,
                                         ColumnFamily::kMeta};

}  // namespace

ColumnFamily Workload::RowFamily() { return kRowFamilies[Below(std::size(kRowFamilies))]; }
std::string Workload::RowKey() { return absl::StrFormat("row/%03d", Below(400)); }
std::string Workload::DayPrefix() { return absl::StrFormat("day%03d", Below(4)); }
std::string Workload::ClaimPrefix() { return absl::StrFormat("claim/%04d", Below(6)); }

std::string Workload::Bytes(size_t size) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random_());
  return bytes;
}

namespace {

// No group may write a key again after putting it.
void AddOnce(Mutation mutation, Group* group) {
  const bool put_before =
      std::any_of(group->mutations.begin(), group->mutations.end(), [&](const Mutation& other) {
        return other.cf == mutation.cf && other.key == mutation.key &&
               (other.kind == Mutation::Kind::kPut || other.kind == Mutation::Kind::kPutStamped);
      });
  if (!put_before) group->mutations.push_back(std::move(mutation));
}

}  // namespace

void Workload::AddRows(Group* group) {
  for (uint64_t i = 1 + Below(5); i > 0; --i) {
    Mutation mutation{.cf = RowFamily(), .key = RowKey()};
    switch (Below(20)) {
      case 0:
        mutation.value = Bytes(4'000 + Below(40'000));
        break;
      case 1:
      case 2:
      case 3:
      case 4:
        mutation.kind = Mutation::Kind::kDelete;
        break;
      case 5:
        mutation.kind = Mutation::Kind::kPutStamped;
        mutation.value = Bytes(20);
        mutation.stamp_offset = static_cast<uint32_t>(Below(12));
        mutation.stamp_add = absl::Milliseconds(Below(10'000));
        break;
      default:
        mutation.value = Bytes(Below(600));
        break;
    }
    AddOnce(std::move(mutation), group);
  }
}

void Workload::AddManyRows(Group* group) {
  const bool day = Below(2) == 0;
  const std::string prefix = day ? DayPrefix() : ClaimPrefix();
  for (uint64_t i = Below(2) == 0 ? 3 + Below(20) : 140 + Below(120); i > 0; --i) {
    AddOnce({.cf = day ? ColumnFamily::kDone : ColumnFamily::kInflight,
             .key = absl::StrCat(prefix, absl::StrFormat("/%04d", Below(500))),
             .value = Bytes(Below(60))},
            group);
  }
}

void Workload::AddRangeDelete(const State& state, Group* group) {
  Mutation mutation{.kind = Mutation::Kind::kDeleteRange};
  switch (Below(3)) {
    case 0:
      mutation.cf = ColumnFamily::kDone;
      mutation.key = DayPrefix();
      mutation.value = PrefixEnd(mutation.key);
      break;
    case 1:
      mutation.cf = ColumnFamily::kInflight;
      mutation.key = ClaimPrefix();
      mutation.value = PrefixEnd(mutation.key);
      if (Below(2) == 0) mutation.value = absl::StrCat(mutation.key, "/02");
      break;
    default: {
      mutation.cf = RowFamily();
      mutation.key = RowKey();
      mutation.value = absl::StrFormat("row/%03d", Below(400));
      if (mutation.value <= mutation.key) std::swap(mutation.value, mutation.key);
      if (mutation.value == mutation.key) mutation.value += "0";
      const Family& family = state[static_cast<size_t>(mutation.cf)];
      const auto count = static_cast<uint64_t>(
          std::distance(family.lower_bound(mutation.key), family.lower_bound(mutation.value)));
      group->conditions.push_back({.cf = mutation.cf,
                                   .key = mutation.key,
                                   .kind = Condition::Kind::kRangeCount,
                                   .value = mutation.value,
                                   .number = count + (Below(4) == 0 ? 1 : 0)});
      break;
    }
  }
  group->mutations.push_back(std::move(mutation));
}

void Workload::AddCondition(const State& state, Group* group) {
  Condition condition{.cf = RowFamily(), .key = RowKey()};
  const Family& family = state[static_cast<size_t>(condition.cf)];
  const auto it = family.find(condition.key);
  const std::string value = it == family.end() ? "none" : *it->second;
  switch (Below(4)) {
    case 0:
      condition.kind = Condition::Kind::kAbsent;
      break;
    case 1:
      condition.kind = Condition::Kind::kPresent;
      break;
    case 2:
      condition.kind = Condition::Kind::kValueEquals;
      condition.value = value;
      break;
    default:
      condition.kind = Condition::Kind::kValuePrefix;
      condition.value = value.substr(0, 4);
      break;
  }
  group->conditions.push_back(std::move(condition));
}

void Workload::AddGroup(const State& state, Group* group) {
  if (Below(4) == 0) AddCondition(state, group);
  switch (Below(12)) {
    case 0:
      AddManyRows(group);
      break;
    case 1:
    case 2:
      AddRangeDelete(state, group);
      break;
    default:
      AddRows(group);
      break;
  }
}

kv::CommitRequest Workload::Commit(const State& state, uint64_t session, uint64_t number) {
  kv::CommitRequest request{.session = session, .number = number};
  if (Below(16) == 0) {
    Group fence;
    AddCondition(state, &fence);
    request.fence = std::move(fence.conditions);
  }
  request.groups.resize(1 + Below(4));
  for (Group& group : request.groups) AddGroup(state, &group);
  return request;
}

}  // namespace escapement::crash
