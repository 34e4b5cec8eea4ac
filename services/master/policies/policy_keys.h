// ReadPolicyKeys: one page of the keys of a throttling policy. KeyTally: counts events by key.

#ifndef SERVICES_MASTER_POLICIES_POLICY_KEYS_H_
#define SERVICES_MASTER_POLICIES_POLICY_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/policy_service.pb.h"
#include "services/master/base/master_context.h"
#include "services/master/policies/policy_usage.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

// KeyTally: counts the events of a policy that hold tokens or wait, key by key, from its grants and
// its rows in `waiting`. Pure.
class KeyTally {
 public:
  struct Use {
    uint64_t held = 0;
    uint64_t waiting = 0;                        // due
    uint64_t later = 0;                          // not due yet
    absl::Time oldest = absl::InfiniteFuture();  // since when the first of `waiting` is due
  };
  using Key = std::pair<std::string, Use>;

  // Keeps the smallest `keys_max` keys of those that are added, and all counts of these.
  explicit KeyTally(size_t keys_max) : keys_max_(keys_max) {}

  void AddHeld(const std::string& key, uint64_t count);
  // `due`: DueOf the row.
  void AddWaiting(const storage::v1::EventRecord& row, const DueEvents& due);

  const std::map<std::string, Use>& keys() const { return keys_; }
  // At most `limit` that wait, those that wait longest first, and then at most `limit` others,
  // those that hold most first.
  std::vector<Key> Busiest(size_t limit) const;

 private:
  // Null: the key is not kept.
  Use* Of(const std::string& key);

  const size_t keys_max_;
  std::map<std::string, Use> keys_;
};

// With the override of the key in force at `now`.
v1::PolicyKeyUsage ShowKey(const std::string& key, const KeyTally::Use& use,
                           const storage::v1::PolicyRecord& policy, absl::Time now);

// ReadPolicyKeys: reads the keys of which events wait or hold tokens, in the order of the keys.
//
// Each page reads all grants and all waiting rows of the policy, up to kPolicyKeyRowsMax of each,
// and keeps the counts of one page's keys. They are read one after the other, not in one snapshot.
//
// Threads: runs on the context's executor.

struct PolicyKeyQuery {
  PolicyName name;
  std::string prefix;
  std::optional<std::string> after = {};  // the last key of the page before; unset: the first page
  size_t page_size = 0;                   // at least 1
};

struct PolicyKeyPage {
  v1::ListPolicyKeysResponse response;  // without next_page_token
  bool more = false;                    // true: there are keys behind the last one
};

// NOT_FOUND if there is no such policy.
void ReadPolicyKeys(MasterContext& context, PolicyKeyQuery query,
                    absl::AnyInvocable<void(absl::StatusOr<PolicyKeyPage>)> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_POLICIES_POLICY_KEYS_H_
