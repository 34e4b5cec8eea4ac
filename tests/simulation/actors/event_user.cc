#include "tests/simulation/actors/event_user.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "escapement/v1/event_service.pb.h"
#include "tests/simulation/actors/message_parts.h"

namespace escapement::simulation {

void EventUser::Next() {
  if (made_ >= options_.calls) return;
  calls_.After(calls_.Between(absl::ZeroDuration(), options_.rest_max), [this] {
    ++made_;
    ++open_;
    switch (calls_.random().Below(3)) {
      case 0:
        CreateOne();
        break;
      case 1:
        CreateBatch();
        break;
      default:
        Ingest();
    }
    Next();
  });
}

v1::Event EventUser::DrawEvent(absl::Time* due) {
  // Sometimes in the past; such an event is due at once.
  *due = calls_.Now() + calls_.Between(-absl::Seconds(2), options_.ahead_max);
  const int64_t micros = ToMicros(*due);
  *due = FromMicros(micros);
  v1::Event event;
  event.mutable_due_time()->set_seconds(micros / 1'000'000);
  event.mutable_due_time()->set_nanos(static_cast<int32_t>(micros % 1'000'000) * 1000);
  event.set_priority(static_cast<int32_t>(calls_.random().Below(10)));
  event.set_payload(absl::StrCat("event ", options_.name, " ", ++last_id_));
  SetDelivery(&event, DeliveryTimeoutOf(last_id_), last_id_);
  const std::vector<std::string> policies =
      options_.policies == nullptr ? std::vector<std::string>() : options_.policies();
  if (!policies.empty() && calls_.random().Below(2) == 0)
    SetLimits(policies, options_.several, calls_.random().Next(), &event);
  return event;
}

bool EventUser::PoliciesGone(const absl::Status& status) const {
  return absl::IsInvalidArgument(status) && options_.policies != nullptr &&
         options_.policies().empty();
}

void EventUser::CreateOne() {
  v1::CreateEventRequest request;
  request.set_parent("tenants/default");
  absl::Time due;
  *request.mutable_event() = DrawEvent(&due);
  if (calls_.random().Below(2) == 0)
    request.set_event_id(absl::StrCat(options_.name, "-", last_id_));
  request.set_request_id(calls_.NewRequestId());
  const absl::Time called = calls_.Now();
  calls_.UntilKnown<v1::Event>(
      [request](MasterApis& master, auto done) {
        master.events->CreateEvent(request, std::move(done));
      },
      [this, due, called](absl::StatusOr<v1::Event> event) {
        --open_;
        if (PoliciesGone(event.status())) return;
        if (!event.ok()) return Complain("CreateEvent", event.status());
        Created(event->event_id(), due, called);
      });
}

void EventUser::CreateBatch() {
  v1::BatchCreateEventsRequest request;
  request.set_parent("tenants/default");
  std::vector<absl::Time> dues;
  const int size = 1 + static_cast<int>(calls_.random().Below(options_.batch_max));
  for (int i = 0; i < size; ++i) {
    v1::CreateEventRequest& one = *request.add_requests();
    *one.mutable_event() = DrawEvent(&dues.emplace_back());
    if (calls_.random().Below(2) == 0) one.set_event_id(absl::StrCat(options_.name, "-", last_id_));
  }
  request.set_request_id(calls_.NewRequestId());
  const absl::Time called = calls_.Now();
  calls_.UntilKnown<v1::BatchCreateEventsResponse>(
      [request](MasterApis& master, auto done) {
        master.events->BatchCreateEvents(request, std::move(done));
      },
      [this, dues, called](absl::StatusOr<v1::BatchCreateEventsResponse> answer) {
        --open_;
        if (PoliciesGone(answer.status())) return;
        if (!answer.ok()) return Complain("BatchCreateEvents", answer.status());
        if (answer->events_size() != static_cast<int>(dues.size())) {
          return Complain("BatchCreateEvents", absl::InternalError("another number of events"));
        }
        for (size_t i = 0; i < dues.size(); ++i)
          Created(answer->events(static_cast<int>(i)).event_id(), dues[i], called);
      });
}

// A stream has no request_id, so a user who resends chooses event ids.
void EventUser::Ingest() {
  auto request = std::make_shared<v1::IngestRequest>();
  request->set_parent("tenants/default");
  SetDelivery(request->mutable_defaults(), kDeliveryTimeout, last_id_);
  std::vector<std::pair<std::string, absl::Time>> made;
  const int size = 1 + static_cast<int>(calls_.random().Below(options_.batch_max));
  for (int i = 0; i < size; ++i) {
    absl::Time due;
    const v1::Event event = DrawEvent(&due);
    v1::IngestEvent& one = *request->add_events();
    one.set_event_id(absl::StrCat(options_.name, "-", last_id_));
    one.set_due_time_micros(ToMicros(due));
    one.set_payload(event.payload());
    made.emplace_back(one.event_id(), due);
    if (event.policy().empty() && event.limits().empty()) continue;
    one.mutable_overrides()->set_policy(event.policy());
    one.mutable_overrides()->set_policy_key(event.policy_key());
    *one.mutable_overrides()->mutable_limits() = event.limits();
  }
  const absl::Time called = calls_.Now();
  calls_.UntilKnown<v1::IngestResponse>(
      [request = std::shared_ptr<const v1::IngestRequest>(request)](MasterApis& master, auto done) {
        master.events->IngestBatch(request, {}, std::move(done));
      },
      [this, made, called](absl::StatusOr<v1::IngestResponse> answer) {
        --open_;
        if (PoliciesGone(answer.status())) return;
        if (!answer.ok()) return Complain("IngestBatch", answer.status());
        if (answer->created_count() + answer->existing_count() != static_cast<int>(made.size())) {
          return Complain("IngestBatch", absl::InternalError(answer->ShortDebugString()));
        }
        for (const auto& [event_id, due] : made) Created(event_id, due, called);
      });
}

void EventUser::Created(std::string event_id, absl::Time due, absl::Time called) {
  OneOff event;
  event.event_id = std::move(event_id);
  event.due = due;
  event.called = called;
  event.created = true;
  events_.push_back(std::move(event));
  if (calls_.random().Below(5) == 0) MayCancel(events_.size() - 1);
}

void EventUser::MayCancel(size_t event) {
  ++open_;
  calls_.After(calls_.Between(absl::ZeroDuration(), options_.ahead_max), [this, event] {
    v1::CancelEventRequest request;
    request.set_name(absl::StrCat("tenants/default/events/", events_[event].event_id));
    request.set_request_id(calls_.NewRequestId());
    events_[event].cancel_called = true;
    calls_.UntilKnown<v1::Event>(
        [request](MasterApis& master, auto done) {
          master.events->CancelEvent(request, std::move(done));
        },
        [this, event](absl::StatusOr<v1::Event> answer) {
          --open_;
          if (answer.ok()) {
            events_[event].cancelled = true;
            events_[event].cancel_answered = calls_.Now();
          } else if (!absl::IsFailedPrecondition(
                         answer.status())) {  // the event is being sent, or has ended
            Complain("CancelEvent", answer.status());
          }
        });
  });
}

void EventUser::Complain(absl::string_view call, const absl::Status& status) {
  complaints_.push_back(absl::StrCat(call, " of ", options_.name, " at ",
                                     absl::FormatTime(calls_.Now(), absl::UTCTimeZone()), ": ",
                                     status.ToString()));
}

}  // namespace escapement::simulation
