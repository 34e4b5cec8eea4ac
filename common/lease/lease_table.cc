#include "common/lease/lease_table.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/key_codec.h"

namespace escapement::lease {

namespace {

struct Member {
  absl::string_view name;
  size_t held = 0;
};

}  // namespace

LeasePlan PlanLeases(const LeasePlanInput& input) {
  std::map<absl::string_view, size_t> held_by;
  for (const std::string& member : input.members) held_by[member] = 0;
  held_by[input.self] = 0;
  for (const SeenLease& lease : input.leases) {
    // All members must compute the same ranking. So an expired lease counts for nobody, and a lease
    // of ours counts for us even if we dropped it (a lost session).
    const auto found = lease.expired ? held_by.end() : held_by.find(lease.owner);
    if (found != held_by.end()) ++found->second;
  }
  held_by[input.self] = std::max(held_by[input.self], input.held.size());

  std::vector<Member> ranked;
  for (const auto& [name, held] : held_by) ranked.push_back({name, held});
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Member& a, const Member& b) { return a.held > b.held; });
  const size_t rank = std::find_if(ranked.begin(), ranked.end(),
                                   [&](const Member& m) { return m.name == input.self; }) -
                      ranked.begin();
  const size_t share =
      input.leases.size() / ranked.size() + (rank < input.leases.size() % ranked.size() ? 1 : 0);

  LeasePlan plan;
  if (input.held.size() > share) {
    plan.release.assign(input.held.begin() + share, input.held.end());
    return plan;
  }
  std::vector<uint32_t> free;
  for (uint32_t i = 0; i < input.leases.size(); ++i) {
    const SeenLease& lease = input.leases[i];
    if (std::binary_search(input.held.begin(), input.held.end(), i)) continue;
    // We can take a lease that the store says is ours although we do not hold it (the session was
    // lost). It gets the next epoch.
    if (lease.owner.empty() || lease.expired || lease.owner == input.self) free.push_back(i);
  }
  // Each member starts at another index, so that members that acquire at once rarely collide.
  const size_t want = std::min(share - input.held.size(), free.size());
  const size_t start = free.empty() ? 0 : rank * free.size() / ranked.size();
  for (size_t i = 0; i < want; ++i) plan.acquire.push_back(free[(start + i) % free.size()]);
  return plan;
}

std::string KindPrefix(absl::string_view kind) { return absl::StrCat(kind, "/"); }

std::string LeaseKey(absl::string_view kind, uint32_t index) {
  return absl::StrFormat("%s/%05d", kind, index);
}

std::optional<uint32_t> LeaseIndexOf(absl::string_view kind, absl::string_view key) {
  uint32_t index = 0;
  if (key.size() <= kind.size() || !absl::StartsWith(key, KindPrefix(kind))) return std::nullopt;
  if (!absl::SimpleAtoi(key.substr(kind.size() + 1), &index)) return std::nullopt;
  return index;
}

std::string EncodeLeaseValue(uint64_t epoch, absl::string_view owner) {
  std::string value = EpochPrefix(epoch);
  value.append(8, '\0');
  value.append(owner.data(), owner.size());
  return value;
}

std::optional<LeaseRow> DecodeLeaseValue(absl::string_view value) {
  if (value.size() < 16) return std::nullopt;
  LeaseRow row;
  row.epoch = ReadBigEndian<uint64_t>(value);
  row.end = absl::FromUnixMicros(
      static_cast<int64_t>(ReadBigEndian<uint64_t>(value.substr(kLeaseStampOffset))));
  row.owner = std::string(value.substr(16));
  return row;
}

std::string EpochPrefix(uint64_t epoch) {
  std::string prefix;
  AppendBigEndian<uint64_t>(&prefix, epoch);
  return prefix;
}

std::string MemberKey(absl::string_view kind, absl::string_view instance) {
  return absl::StrCat(kind, "/", instance);
}

std::string EncodeMemberValue() { return std::string(8, '\0'); }

std::optional<absl::Time> DecodeMemberValue(absl::string_view value) {
  if (value.size() != 8) return std::nullopt;
  return absl::FromUnixMicros(static_cast<int64_t>(ReadBigEndian<uint64_t>(value)));
}

}  // namespace escapement::lease
