#include "services/master/policies/policy_search.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "common/base/key_codec.h"
#include "common/storage/policy_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/policies/policy_codec.h"
#include "services/master/requests/page_budget.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;

// Policies that are read together, if the filter may refuse some.
constexpr size_t kPoliciesAtOnce = 1000;

class PolicySearch : public std::enable_shared_from_this<PolicySearch> {
 public:
  using Shown = absl::AnyInvocable<void(absl::StatusOr<ShownPolicies>)>;
  PolicySearch(MasterContext& context, PolicyQuery query, Shown done)
      : context_(context), query_(std::move(query)), done_(std::move(done)), next_(query_.begin) {}

  void Step() {
    kv::ScanRequest scan;
    scan.cf = ColumnFamily::kPolicies;
    scan.begin = PolicyPrefix(query_.tenant);
    scan.end = PrefixEnd(scan.begin);
    // The encodings of ids with a common prefix end differently: the range ends at the first id
    // beyond them.
    if (const std::string& prefix = query_.filter.id_prefix(); !prefix.empty()) {
      scan.begin = PolicyKey(query_.tenant, prefix);
      if (const std::string beyond = PrefixEnd(prefix); !beyond.empty())
        scan.end = PolicyKey(query_.tenant, beyond);
    }
    scan.reverse = query_.descending;
    if (!next_.empty() && query_.descending) {
      scan.end = std::min(scan.end, KeyAfter(PolicyKey(query_.tenant, next_)));
    } else if (!next_.empty()) {
      scan.begin = std::max(scan.begin, PolicyKey(query_.tenant, next_));
    }
    if (scan.begin >= scan.end) return done_(std::move(page_));
    const size_t rows = query_.filter.always()
                            ? query_.page_size
                            : std::min(kPoliciesAtOnce, kListExaminedMax - examined_);
    scan.limit = static_cast<uint32_t>(rows) + 1;  // the last one is where the search goes on
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> result) {
                           if (!result.ok()) return self->done_(StoreFailed(result.status()));
                           self->OnRows(*result);
                         });
  }

 private:
  void OnRows(const kv::ScanResult& result) {
    next_.clear();
    for (const kv::Entry& entry : result.entries) {
      const auto key = DecodePolicyKey(entry.key);
      storage::v1::PolicyRecord record;
      if (!key.has_value() || !record.ParseFromString(entry.value))
        return done_(BrokenRecord("a policy"));
      if (result.more && &entry == &result.entries.back()) {
        next_ = key->policy_id;
        break;
      }
      ++examined_;
      v1::ThrottlePolicy policy = ShowPolicy(record);
      if (!query_.filter.Matches(policy)) continue;
      if (page_.policies.size() == query_.page_size || !budget_.Take(policy))
        return EndPage(key->policy_id);
      page_.policies.push_back(std::move(policy));
    }
    const bool full = page_.policies.size() == query_.page_size;
    if (next_.empty() || full || examined_ >= kListExaminedMax) return EndPage(next_);
    Step();
  }

  void EndPage(std::string next) {
    page_.next = std::move(next);
    done_(std::move(page_));
  }

  MasterContext& context_;
  const PolicyQuery query_;
  Shown done_;
  std::string next_;  // id at which the search goes on; empty: at the begin, or nothing more
  size_t examined_ = 0;
  ShownPolicies page_;
  PageBudget budget_;
};

}  // namespace

void SearchPolicies(MasterContext& context, PolicyQuery query,
                    absl::AnyInvocable<void(absl::StatusOr<ShownPolicies>)> done) {
  std::make_shared<PolicySearch>(context, std::move(query), std::move(done))->Step();
}

}  // namespace escapement::master
