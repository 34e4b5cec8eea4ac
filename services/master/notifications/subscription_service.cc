#include "services/master/notifications/subscription_service.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/kv/group_parts.h"
#include "common/status/errors.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/codec/schedule_codec.h"
#include "services/master/notifications/subscription_codec.h"
#include "services/master/requests/record_transaction.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"
#include "services/master/requests/row_listing.h"

namespace escapement::master {
namespace {

using kv::ColumnFamily;
using storage::v1::SubscriptionRecord;
using storage::v1::SubscriptionStateRecord;
using v1::Subscription;

std::string KeyOf(const SubscriptionName& name) {
  return SubscriptionKey(name.tenant, name.subscription);
}

// A change whose `decide` gets the present record.
template <typename Response, typename Request>
absl::StatusOr<RecordChange> ChangeOf(
    absl::string_view method, absl::string_view name, absl::string_view field,
    const Request& request, const Done<Response>& done,
    absl::AnyInvocable<absl::StatusOr<RecordDecision>(
        const SubscriptionName& name, const SubscriptionRecord& current, absl::Time now)>
        decide) {
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  absl::StatusOr<SubscriptionName> parsed = ParseSubscriptionName(name, field);
  violations.AddStatus("", parsed.status());
  if (!violations.empty()) return violations.ToStatus();
  RecordChange change{.key = {ColumnFamily::kPolicies, KeyOf(*parsed)},
                      .resource = parsed->ToString(),
                      .mark = MarkOf(parsed->tenant, method, request, done)};
  change.decide = [name = *std::move(parsed), decide = std::move(decide)](
                      const std::optional<std::string>& bytes,
                      absl::Time now) mutable -> absl::StatusOr<RecordDecision> {
    if (!bytes.has_value()) return NotFound(name.ToString());
    SubscriptionRecord current;
    if (!current.ParseFromString(*bytes)) return BrokenRecord(name.ToString());
    ASSIGN_OR_RETURN(RecordDecision decision, decide(name, current, now));
    decision.version_before = current.version();
    // In front of what the decision itself requires.
    decision.group.conditions.insert(decision.group.conditions.begin(),
                                     kv::ValueIs(ColumnFamily::kPolicies, KeyOf(name), *bytes));
    return decision;
  };
  change.response = std::make_unique<Response>();
  change.validate_only = request.validate_only();
  return change;
}

// Stores `next` and shows it. `current`: null for a new one.
void Put(const SubscriptionName& name, SubscriptionRecord next, const SubscriptionRecord* current,
         absl::Time now, RecordDecision& decision) {
  next.set_tenant(name.tenant);
  next.set_subscription_id(name.subscription);
  if (current != nullptr) next.set_uid(current->uid());
  next.set_version(current == nullptr ? 1 : current->version() + 1);
  next.set_create_time_micros(current == nullptr ? ToMicros(now) : current->create_time_micros());
  next.set_update_time_micros(ToMicros(now));
  decision.group.mutations.push_back(
      kv::Put(ColumnFamily::kPolicies, KeyOf(name), next.SerializeAsString()));
  decision.response = std::make_unique<Subscription>(ShowSubscription(next));
}

kv::Key StateKeyOf(const SubscriptionRecord& record) {
  return {ColumnFamily::kPolicies, SubscriptionStateKey(record.tenant(), record.subscription_id())};
}

// Sets what checks have found. The state may be that of a former subscription of this name.
void ShowStored(const std::optional<std::string>& bytes, const SubscriptionRecord& record,
                int problems_max, Subscription& subscription) {
  SubscriptionStateRecord state;
  if (bytes.has_value() && state.ParseFromString(*bytes) && state.uid() == record.uid())
    ShowChecks(state, record.tenant(), problems_max, subscription);
}

}  // namespace

void SubscriptionService::CreateSubscription(v1::CreateSubscriptionRequest request,
                                             Done<Subscription> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  CheckNewId("subscription_id", request.subscription_id(), violations);
  absl::StatusOr<SubscriptionRecord> draft = InvalidField("subscription", "is required");
  if (request.has_subscription())
    draft = ReadSubscription(request.subscription(), *tenant, context_.secrets, nullptr);
  violations.AddStatus("", draft.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  draft->set_uid(std::string(context_.NewUid().bytes()));
  SubscriptionName name = {*tenant, request.subscription_id().empty() ? context_.NewUid().ToHex()
                                                                      : request.subscription_id()};
  RecordChange change{.key = {ColumnFamily::kPolicies, KeyOf(name)},
                      .resource = name.ToString(),
                      .mark = MarkOf(*tenant, "CreateSubscription", request, done)};
  const std::string prefix = SubscriptionPrefix(*tenant);
  auto count = std::make_shared<uint64_t>(0);
  change.read_more = [this, prefix, count](const std::optional<std::string>& /*bytes*/,
                                           absl::AnyInvocable<void(absl::Status)> read) {
    context_.client.Scan(
        {.cf = ColumnFamily::kPolicies,
         .begin = prefix,
         .end = PrefixEnd(prefix),
         .limit = kSubscriptionsMax,
         .keys_only = true},
        context_.executor,
        [count, read = std::move(read)](absl::StatusOr<kv::ScanResult> page) mutable {
          if (!page.ok()) return read(StoreFailed(page.status()));
          *count = page->entries.size();
          read(absl::OkStatus());
        });
  };
  change.decide = [name = std::move(name), draft = *std::move(draft), prefix, count](
                      const std::optional<std::string>& bytes,
                      absl::Time now) -> absl::StatusOr<RecordDecision> {
    if (bytes.has_value()) return AlreadyExists(name.ToString());
    if (*count >= kSubscriptionsMax)
      return TooManySubscriptions(absl::StrCat("tenants/", name.tenant));
    RecordDecision decision;
    // A race with another creation: read again, since it may have been this very request.
    decision.group.conditions = {kv::Absent(ColumnFamily::kPolicies, KeyOf(name)),
                                 {.cf = ColumnFamily::kPolicies,
                                  .key = prefix,
                                  .kind = kv::Condition::Kind::kRangeCount,
                                  .value = PrefixEnd(prefix),
                                  .number = *count}};
    Put(name, draft, nullptr, now, decision);
    return decision;
  };
  change.response = std::make_unique<Subscription>();
  change.validate_only = request.validate_only();
  ChangeRecord(context_, std::move(change), AsAnswer(std::move(done)));
}

void SubscriptionService::GetSubscription(v1::GetSubscriptionRequest request,
                                          Done<Subscription> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<SubscriptionName> name = ParseSubscriptionName(request.name(), "name");
  if (!name.ok()) return context_.Refuse(name.status(), std::move(done));
  context_.client.MultiGet(
      {{ColumnFamily::kPolicies, KeyOf(*name)},
       {ColumnFamily::kPolicies, SubscriptionStateKey(name->tenant, name->subscription)}},
      context_.executor,
      [name = *name, done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
        if (!result.ok()) return done(StoreFailed(result.status()));
        if (!result->values[0].has_value()) return done(NotFound(name.ToString()));
        SubscriptionRecord record;
        if (!record.ParseFromString(*result->values[0])) return done(BrokenRecord(name.ToString()));
        Subscription subscription = ShowSubscription(record);
        ShowStored(result->values[1], record, kProblemsShown, subscription);
        done(std::move(subscription));
      });
}

void SubscriptionService::ListSubscriptions(v1::ListSubscriptionsRequest request,
                                            Done<v1::ListSubscriptionsResponse> done) {
  const auto records = std::make_shared<std::vector<SubscriptionRecord>>();
  ListRecords<SubscriptionRecord>(
      context_, "ListSubscriptions", request, ColumnFamily::kPolicies, SubscriptionPrefix,
      &v1::ListSubscriptionsResponse::mutable_subscriptions,
      [records](const SubscriptionRecord& record) {
        records->push_back(record);
        return ShowSubscription(record);
      },
      [this, records,
       done = std::move(done)](absl::StatusOr<v1::ListSubscriptionsResponse> response) mutable {
        if (!response.ok() || response->subscriptions().empty()) return done(std::move(response));
        std::vector<kv::Key> states;
        // The last record may have had no room on the page.
        for (int i = 0; i < response->subscriptions_size(); ++i)
          states.push_back(StateKeyOf((*records)[i]));
        context_.client.MultiGet(
            states, context_.executor,
            [records, response = *std::move(response),
             done = std::move(done)](absl::StatusOr<kv::GetResult> result) mutable {
              if (!result.ok()) return done(StoreFailed(result.status()));
              for (int i = 0; i < response.subscriptions_size(); ++i)
                ShowStored(result->values[i], (*records)[i], 0, *response.mutable_subscriptions(i));
              done(std::move(response));
            });
      });
}

void SubscriptionService::UpdateSubscription(v1::UpdateSubscriptionRequest request,
                                             Done<Subscription> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  if (!request.has_subscription())
    return context_.Refuse(InvalidField("subscription", "is required"), std::move(done));
  absl::StatusOr<RecordChange> change = ChangeOf<Subscription>(
      "UpdateSubscription", request.subscription().name(), "subscription.name", request, done,
      [this, request](const SubscriptionName& name, const SubscriptionRecord& current,
                      absl::Time now) -> absl::StatusOr<RecordDecision> {
        RETURN_IF_ERROR(
            CheckEtag(request.subscription().etag(), SubscriptionEtag(current), name.ToString()));
        ASSIGN_OR_RETURN(const Subscription wanted,
                         ApplyUpdateMask(ShowSubscription(current), request.subscription(),
                                         request.update_mask()));
        ASSIGN_OR_RETURN(SubscriptionRecord next,
                         ReadSubscription(wanted, name.tenant, context_.secrets, &current));
        RecordDecision decision;
        Put(name, std::move(next), &current, now, decision);
        return decision;
      });
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  ChangeRecord(context_, *std::move(change), AsAnswer(std::move(done)));
}

void SubscriptionService::DeleteSubscription(v1::DeleteSubscriptionRequest request,
                                             Done<google::protobuf::Empty> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  absl::StatusOr<RecordChange> change = ChangeOf<google::protobuf::Empty>(
      "DeleteSubscription", request.name(), "name", request, done,
      [etag = request.etag()](const SubscriptionName& name, const SubscriptionRecord& current,
                              absl::Time) -> absl::StatusOr<RecordDecision> {
        RETURN_IF_ERROR(CheckEtag(etag, SubscriptionEtag(current), name.ToString()));
        RecordDecision decision;
        decision.group.mutations = {
            kv::Delete(ColumnFamily::kPolicies, KeyOf(name)),
            kv::Delete(ColumnFamily::kPolicies,
                       SubscriptionStateKey(name.tenant, name.subscription))};
        decision.response = std::make_unique<google::protobuf::Empty>();
        return decision;
      });
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  ChangeRecord(context_, *std::move(change), AsAnswer(std::move(done)));
}

void SubscriptionService::TestSubscription(v1::TestSubscriptionRequest request,
                                           Done<v1::TestSubscriptionResponse> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  // Apart from the messages of checks, whose numbers are small.
  const uint64_t number = context_.runtime.random().Next() | (uint64_t{1} << 63);
  absl::StatusOr<RecordChange> change = ChangeOf<v1::TestSubscriptionResponse>(
      "TestSubscription", request.name(), "name", request, done,
      [this, number](const SubscriptionName& name, const SubscriptionRecord& current,
                     absl::Time now) -> absl::StatusOr<RecordDecision> {
        const std::string id = NoticeEventId(current.uid(), number);
        RecordDecision decision;
        // Its delivery is stored here and not by a group of its own. The bytes under a hash are
        // always the same.
        const InternedDelivery interned = Intern(current.delivery(), now);
        decision.group.mutations.push_back(
            kv::Put(ColumnFamily::kDefinitions, InternKey(interned.hash), interned.definition));
        AddNoticeEvent(current, id, NoticeOf(current, News(), now), interned,
                       context_.layout.queue_shards, now, decision.group);
        auto response = std::make_unique<v1::TestSubscriptionResponse>();
        response->set_event(EventName{name.tenant, id}.ToString());
        decision.response = std::move(response);
        return decision;
      });
  if (!change.ok()) return context_.Refuse(change.status(), std::move(done));
  ChangeRecord(context_, *std::move(change), AsAnswer(std::move(done)));
}

}  // namespace escapement::master
