#include "services/master/policies/policy_service.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/policies/policy_codec.h"
#include "services/master/policies/policy_decisions.h"
#include "services/master/policies/policy_keys.h"
#include "services/master/policies/policy_usage.h"
#include "services/master/policies/policy_users.h"
#include "services/master/requests/range_reader.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {

namespace {

// Completes a change whose name and mark are set.
template <typename Response>
RecordChange ChangeOfPolicy(
    const MasterContext& context, PolicyName name, RequestMark mark,
    absl::AnyInvocable<absl::StatusOr<PolicyDecision>(const PolicyInput&)> decide) {
  RecordChange change{.key = {kv::ColumnFamily::kPolicies, PolicyKey(name.tenant, name.policy)},
                      .resource = name.ToString(),
                      .mark = std::move(mark)};
  change.decide = [&context, name = std::move(name), decide = std::move(decide)](
                      const std::optional<std::string>& bytes,
                      absl::Time now) mutable -> absl::StatusOr<RecordDecision> {
    std::optional<storage::v1::PolicyRecord> current;
    if (bytes.has_value() && !current.emplace().ParseFromString(*bytes))
      return BrokenRecord(name.ToString());
    return decide({current, bytes.value_or(std::string()), name, context.layout, now});
  };
  change.response = std::make_unique<Response>();
  change.committed = &context.metrics.policy_changes;
  return change;
}

// A change of the policy `name`; the request is given to `decide`. INVALID_ARGUMENT for what is in
// `violations` already, too; NOT_FOUND for another tenant.
template <typename Response, typename Request>
absl::StatusOr<RecordChange> ChangeOf(const MasterContext& context, absl::string_view method,
                                      absl::string_view name, absl::string_view field,
                                      const Request& request, const Done<Response>& done,
                                      FieldViolations violations,
                                      absl::StatusOr<PolicyDecision> (*decide)(const PolicyInput&,
                                                                               const Request&)) {
  CheckRequestId(request.request_id(), violations);
  absl::StatusOr<PolicyName> parsed = ParsePolicyName(name, field);
  if (!parsed.ok() && parsed.status().code() != absl::StatusCode::kInvalidArgument)
    return parsed.status();
  violations.AddStatus("", parsed.status());
  if (!violations.empty()) return violations.ToStatus();
  RecordChange change = ChangeOfPolicy<Response>(
      context, *parsed, MarkOf(parsed->tenant, method, request, done),
      [request, decide](const PolicyInput& input) { return decide(input, request); });
  change.validate_only = request.validate_only();
  return change;
}

absl::StatusOr<v1::ThrottlePolicy> Show(absl::string_view name, const std::string& bytes,
                                        absl::Time now) {
  storage::v1::PolicyRecord record;
  if (!record.ParseFromString(bytes)) return BrokenRecord(name);
  return ShowPolicy(record, now);
}

}  // namespace

void PolicyService::CreatePolicy(v1::CreatePolicyRequest request, Done<v1::ThrottlePolicy> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  CheckNewId("policy_id", request.policy_id(), violations);
  absl::StatusOr<storage::v1::PolicyRecord> draft = InvalidField("policy", "is required");
  if (request.has_policy()) draft = ReadPolicy(request.policy());
  violations.AddStatus("", draft.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  const std::string id =
      request.policy_id().empty() ? context_.NewUid().ToHex() : request.policy_id();
  RecordChange change = ChangeOfPolicy<v1::ThrottlePolicy>(
      context_, {*tenant, id}, MarkOf(*tenant, "CreatePolicy", request, done),
      [draft = *std::move(draft)](const PolicyInput& input) {
        return DecideCreatePolicy(input, draft);
      });
  change.validate_only = request.validate_only();
  ChangeRecord(context_, std::move(change), AsAnswer(std::move(done)));
}

void PolicyService::GetPolicy(v1::GetPolicyRequest request, Done<v1::ThrottlePolicy> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<PolicyName> name = ParsePolicyName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  context_.client.MultiGet({{kv::ColumnFamily::kPolicies, PolicyKey(name->tenant, name->policy)}},
                           context_.executor,
                           [this, name = name->ToString(),
                            done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
                             if (!result.ok()) return done(StoreFailed(result.status()));
                             if (!result->values[0].has_value()) return done(NotFound(name));
                             done(Show(name, *result->values[0], context_.client.NowLow()));
                           });
}

void PolicyService::ListPolicies(v1::ListPoliciesRequest request,
                                 Done<v1::ListPoliciesResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  // A token is good for the same list only.
  std::string list =
      absl::StrCat("ListPolicies ", *tenant, " ", request.order_by(), " ", request.filter());
  const absl::StatusOr<int32_t> size = ReadPageSize(request.page_size());
  absl::StatusOr<std::string> begin = DecodePageToken(list, request.page_token());
  absl::StatusOr<ListFilter> filter = ReadPolicyFilter(request.filter(), *tenant);
  const bool descending = request.order_by() == "name desc";
  FieldViolations violations;
  violations.AddStatus("", size.status());
  violations.AddStatus("", begin.status());
  violations.AddStatus("", filter.status());
  if (!descending && !request.order_by().empty() && request.order_by() != "name")
    violations.Add("order_by", "must be \"name\" or \"name desc\"");
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  SearchPolicies(
      context_,
      {.tenant = *tenant,
       .begin = *std::move(begin),
       .descending = descending,
       .page_size = static_cast<size_t>(*size),
       .filter = *std::move(filter)},
      [list = std::move(list), done = std::move(done)](absl::StatusOr<ShownPolicies> page) mutable {
        if (!page.ok()) return done(page.status());
        v1::ListPoliciesResponse response;
        for (v1::ThrottlePolicy& policy : page->policies)
          *response.add_policies() = std::move(policy);
        if (!page->next.empty()) response.set_next_page_token(EncodePageToken(list, page->next));
        done(std::move(response));
      });
}

void PolicyService::UpdatePolicy(v1::UpdatePolicyRequest request, Done<v1::ThrottlePolicy> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  if (!request.has_policy())
    return context_.Refuse(InvalidField("policy", "is required"), std::move(done));
  absl::StatusOr<RecordChange> change =
      ChangeOf<v1::ThrottlePolicy>(context_, "UpdatePolicy", request.policy().name(), "policy.name",
                                   request, done, {}, &DecideUpdatePolicy);
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  ChangeRecord(context_, *std::move(change), AsAnswer(std::move(done)));
}

void PolicyService::DeletePolicy(v1::DeletePolicyRequest request,
                                 Done<google::protobuf::Empty> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<RecordChange> change = ChangeOf<google::protobuf::Empty>(
      context_, "DeletePolicy", request.name(), "name", request, done, {}, &DecideDeletePolicy);
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  CheckUnused(context_, *ParsePolicyName(request.name(), "name"),
              [&context = context_, change = *std::move(change),
               done = std::move(done)](absl::Status unused) mutable {
                if (!unused.ok()) return done(std::move(unused));
                ChangeRecord(context, std::move(change), AsAnswer(std::move(done)));
              });
}

void PolicyService::PausePolicy(v1::PausePolicyRequest request, Done<v1::ThrottlePolicy> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  FieldViolations violations;
  CheckShownText("reason", request.reason(), kPauseReasonCharsMax, violations);
  absl::StatusOr<RecordChange> change =
      ChangeOf<v1::ThrottlePolicy>(context_, "PausePolicy", request.name(), "name", request, done,
                                   std::move(violations), &DecidePausePolicy);
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  ChangeRecord(context_, *std::move(change), AsAnswer(std::move(done)));
}

void PolicyService::ResumePolicy(v1::ResumePolicyRequest request, Done<v1::ThrottlePolicy> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<RecordChange> change = ChangeOf<v1::ThrottlePolicy>(
      context_, "ResumePolicy", request.name(), "name", request, done, {}, &DecideResumePolicy);
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  ChangeRecord(context_, *std::move(change), AsAnswer(std::move(done)));
}

void PolicyService::OverridePolicy(v1::OverridePolicyRequest request,
                                   Done<v1::ThrottlePolicy> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  FieldViolations violations;
  if (request.has_override()) {
    ReadOverride(request.override(), violations);
  } else {
    violations.Add("override", "is required");
  }
  absl::StatusOr<RecordChange> change =
      ChangeOf<v1::ThrottlePolicy>(context_, "OverridePolicy", request.name(), "name", request,
                                   done, std::move(violations), &DecideOverridePolicy);
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  ChangeRecord(context_, *std::move(change), AsAnswer(std::move(done)));
}

void PolicyService::ClearOverride(v1::ClearOverrideRequest request, Done<v1::ThrottlePolicy> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<RecordChange> change = ChangeOf<v1::ThrottlePolicy>(
      context_, "ClearOverride", request.name(), "name", request, done, {}, &DecideClearOverride);
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  ChangeRecord(context_, *std::move(change), AsAnswer(std::move(done)));
}

void PolicyService::ListPolicyKeys(v1::ListPolicyKeysRequest request,
                                   Done<v1::ListPolicyKeysResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<PolicyName> name = ParsePolicyName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  // A token is good for the same list only.
  std::string list = absl::StrCat("ListPolicyKeys ", request.name(), " ", request.prefix());
  const absl::StatusOr<PageRequest> wanted = ReadPage(list, request);
  if (!wanted.ok()) return context_.Refuse(wanted.status(), std::move(done));
  PolicyKeyQuery query{.name = *std::move(name),
                       .prefix = std::move(*request.mutable_prefix()),
                       .page_size = wanted->size};
  if (!wanted->position.empty()) query.after = KeyReader(wanted->position).Text();
  ReadPolicyKeys(
      context_, std::move(query),
      [list = std::move(list), done = std::move(done)](absl::StatusOr<PolicyKeyPage> page) mutable {
        if (!page.ok()) return done(page.status());
        if (page->more) {
          const auto& keys = page->response.keys();
          page->response.set_next_page_token(
              EncodePageToken(list, KeyWriter().Text(keys.rbegin()->policy_key()).Take()));
        }
        done(std::move(page->response));
      });
}

void PolicyService::GetPolicyUsage(v1::GetPolicyUsageRequest request, Done<v1::PolicyUsage> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<PolicyName> name = ParsePolicyName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  std::string list = absl::StrCat("GetPolicyUsage ", request.name());
  const absl::StatusOr<PageRequest> wanted = ReadPage(list, request);
  if (!wanted.ok()) return context_.Refuse(wanted.status(), std::move(done));
  PolicyUsageQuery query{.name = *std::move(name), .holders_max = wanted->size};
  if (!wanted->position.empty()) {
    KeyReader reader(wanted->position);
    query.begin.epoch = reader.U64();
    query.begin.number = reader.U64();
    query.begin.index = reader.U64();
    if (!reader.done())
      return context_.Refuse(InvalidField("page_token", "is malformed"), std::move(done));
  }
  ReadPolicyUsage(
      context_, std::move(query),
      [list = std::move(list),
       done = std::move(done)](absl::StatusOr<PolicyUsagePage> page) mutable {
        if (!page.ok()) return done(page.status());
        const HolderPosition& next = page->next;
        if (page->more) {
          page->usage.set_next_page_token(EncodePageToken(
              list, KeyWriter().U64(next.epoch).U64(next.number).U64(next.index).Take()));
        }
        done(std::move(page->usage));
      });
}

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
    const absl::Time now = context_.client.NowLow();
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
      v1::ThrottlePolicy policy = ShowPolicy(record, now);
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
