#include "services/master/operations/event_cancel_service.h"

#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status/errors.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/codec/delivery_codec.h"
#include "services/master/events/event_filter.h"
#include "services/master/events/event_query.h"
#include "services/master/operations/operation_service.h"
#include "services/master/requests/request_reader.h"
#include "services/master/requests/request_table.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

// The ids of the names, each once.
std::vector<std::string> ReadNames(const v1::BatchCancelEventsRequest& request,
                                   const std::string& tenant, FieldViolations& violations) {
  if (request.names_size() > kBatchCancelEventsMax)
    violations.Add("names", absl::StrCat("must hold at most ", kBatchCancelEventsMax, " names"));
  std::set<std::string> ids;
  for (int i = 0; i < request.names_size(); ++i) {
    const std::string field = absl::StrCat("names[", i, "]");
    const absl::StatusOr<EventName> name = ParseEventName(request.names(i), field);
    violations.AddStatus("", name.status());
    if (!name.ok()) continue;
    if (name->tenant != tenant) violations.Add(field, "must be of the parent of the call");
    ids.insert(name->event);
  }
  return {ids.begin(), ids.end()};
}

absl::StatusOr<ListFilter> ReadPendingFilter(const std::string& text, const std::string& tenant) {
  absl::StatusOr<ListFilter> filter = ReadEventFilter(text, tenant);
  if (filter.ok() && !text.empty() && filter->always())
    return InvalidField("filter", "has no condition; state = PENDING means all events that wait");
  if (filter.ok() && StateOfMatches(*filter) == v1::ENDED)
    return InvalidField("filter", "needs events that have ended, which cannot be cancelled");
  return filter;
}

// Counts the events, and begins the operation.
class CancelBeginning : public std::enable_shared_from_this<CancelBeginning> {
 public:
  CancelBeginning(MasterContext& context, const OperationLoop& loop, ListFilter filter,
                  OperationRequest request, Done<v1::Operation> done)
      : context_(context),
        loop_(loop),
        filter_(std::move(filter)),
        request_(std::move(request)),
        done_(std::move(done)) {}

  void Start() {
    AnswerOr(context_, request_.mark, done_, [self = shared_from_this()] {
      if (self->request_.operation.filter.empty()) return self->Begin();
      self->Count("");
    });
  }

 private:
  void Count(std::string position) {
    EventQuery query;
    query.tenant = request_.operation.tenant;
    query.page_size = kPageSizeMax;
    query.position = std::move(position);
    query.filter = filter_;
    ListPendingEvents(context_, std::move(query),
                      [self = shared_from_this()](absl::StatusOr<ShownEvents> page) {
                        if (!page.ok()) return self->done_(page.status());
                        self->OnPage(*std::move(page));
                      });
  }

  void OnPage(ShownEvents page) {
    request_.operation.found += page.events.size();
    if (page.next.empty() || ++pages_ == kCancelCountPagesMax) return Begin();
    Count(std::move(page.next));
  }

  void Begin() {
    request_.operation.time = context_.client.NowLow();
    BeginOperation(context_, loop_, std::move(request_), AsAnswer(std::move(done_)));
  }

  MasterContext& context_;
  const OperationLoop& loop_;
  const ListFilter filter_;
  OperationRequest request_;
  Done<v1::Operation> done_;
  int pages_ = 0;
};

}  // namespace

void EventCancelService::BatchCancelEvents(v1::BatchCancelEventsRequest request,
                                           Done<v1::Operation> done) {
  if (!context_.ready) return context_.Refuse(NotReady(), std::move(done));
  const absl::StatusOr<std::string> tenant = ParseTenantName(request.parent(), "parent");
  if (!tenant.ok()) return context_.Refuse(tenant.status(), std::move(done));
  FieldViolations violations;
  CheckRequestId(request.request_id(), violations);
  if (request.names().empty() == request.filter().empty())
    violations.Add("names", "set either names or filter");
  OperationRequest operation;
  operation.operation = {.tenant = *tenant,
                         .kind = storage::v1::OperationRecord::CANCEL_EVENTS,
                         .filter = request.filter(),
                         .event_ids = ReadNames(request, *tenant, violations)};
  operation.operation.found = operation.operation.event_ids.size();
  absl::StatusOr<ListFilter> filter = ReadPendingFilter(request.filter(), *tenant);
  violations.AddStatus("", filter.status());
  if (!violations.empty()) return context_.Refuse(violations.ToStatus(), std::move(done));
  operation.mark = MarkOf(*tenant, "BatchCancelEvents", request, done);
  operation.validate_only = request.validate_only();
  std::make_shared<CancelBeginning>(context_, loop_, *std::move(filter), std::move(operation),
                                    std::move(done))
      ->Start();
}

}  // namespace escapement::master
