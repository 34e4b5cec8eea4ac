#include "tests/simulation/actors/event_user.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
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
  request.set_parent(calls_.parent());
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
      [this, due, called, payload = request.event().payload()](absl::StatusOr<v1::Event> event) {
        --open_;
        if (PoliciesGone(event.status())) return;
        if (!event.ok()) return Complain("CreateEvent", event.status());
        Created(event->event_id(), due, payload, called);
      });
}

void EventUser::CreateBatch() {
  v1::BatchCreateEventsRequest request;
  request.set_parent(calls_.parent());
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
      [this, dues, called, request](absl::StatusOr<v1::BatchCreateEventsResponse> answer) {
        --open_;
        if (PoliciesGone(answer.status())) return;
        if (!answer.ok()) return Complain("BatchCreateEvents", answer.status());
        if (answer->events_size() != static_cast<int>(dues.size())) {
          return Complain("BatchCreateEvents", absl::InternalError("another number of events"));
        }
        for (int i = 0; i < answer->events_size(); ++i) {
          Created(answer->events(i).event_id(), dues[static_cast<size_t>(i)],
                  request.requests(i).event().payload(), called);
        }
      });
}

// A stream has no request_id, so a user who resends chooses event ids.
void EventUser::Ingest() {
  auto request = std::make_shared<v1::IngestRequest>();
  request->set_parent(calls_.parent());
  SetDelivery(request->mutable_defaults(), kDeliveryTimeout, last_id_);
  std::vector<absl::Time> dues;
  const int size = 1 + static_cast<int>(calls_.random().Below(options_.batch_max));
  // A repeated UPSERT replaces. It may come late, so nothing else is done with these events.
  const bool upsert = calls_.random().Below(3) == 0;
  for (int i = 0; i < size; ++i) {
    absl::Time due;
    const v1::Event event = DrawEvent(&due);
    v1::IngestEvent& one = *request->add_events();
    one.set_event_id(absl::StrCat(options_.name, upsert ? "-u-" : "-", last_id_));
    one.set_mode(upsert ? v1::Event::UPSERT : v1::Event::CREATE);
    one.set_due_time_micros(ToMicros(due));
    one.set_payload(event.payload());
    dues.push_back(due);
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
      [this, dues, called, request](absl::StatusOr<v1::IngestResponse> answer) {
        --open_;
        if (PoliciesGone(answer.status())) return;
        if (!answer.ok()) return Complain("IngestBatch", answer.status());
        // One that is ignored has been claimed since the first try.
        if (answer->created_count() + answer->existing_count() + answer->replaced_positions_size() +
                answer->ignored_size() !=
            request->events_size()) {
          return Complain("IngestBatch", absl::InternalError(answer->ShortDebugString()));
        }
        for (int i = 0; i < request->events_size(); ++i) {
          Created(request->events(i).event_id(), dues[static_cast<size_t>(i)],
                  request->events(i).payload(), called);
        }
      });
}

void EventUser::Created(std::string event_id, absl::Time due, const std::string& payload,
                        absl::Time called) {
  OneOff event;
  event.event_id = std::move(event_id);
  event.called = called;
  event.created = true;
  events_.push_back(std::move(event));
  const std::string& id = events_.back().event_id;
  revisions_[id][0] = {.due = due, .body_hash = StableHash64(payload)};
  if (absl::StartsWith(id, absl::StrCat(options_.name, "-u-"))) return;
  const bool chosen = absl::StartsWith(id, absl::StrCat(options_.name, "-"));
  // Several calls for one event may be under way at once.
  for (uint64_t n = chosen ? calls_.random().Below(4) : 0; n > 0; --n) MayReplace(id);
  if (calls_.random().Below(5) == 0) MayCancel(events_.size() - 1);
}

void EventUser::MayReplace(const std::string& event_id) {
  ++open_;
  calls_.After(calls_.Between(absl::ZeroDuration(), options_.ahead_max), [this, event_id] {
    Revision revision;
    v1::Event event = DrawEvent(&revision.due);
    event.set_name(absl::StrCat(calls_.parent(), "/events/", event_id));
    const absl::Time called = calls_.Now();
    const bool whole = calls_.random().Below(3) > 0;
    if (whole) revision.body_hash = StableHash64(event.payload());
    const auto done = [this, revision, called, event_id](absl::StatusOr<v1::Event> answer) {
      --open_;
      if (PoliciesGone(answer.status())) return;
      if (answer.ok()) return Replaced(*answer, revision, called);
      // It is being sent, or has ended. Another copy of the request may arrive later, and take
      // effect on the next generation.
      if (!absl::IsFailedPrecondition(answer.status()))
        return Complain("UpsertEvent", answer.status());
      refused_[event_id].push_back(revision);
    };
    const std::string request_id = calls_.NewRequestId();
    if (whole) {
      v1::UpsertEventRequest request;
      *request.mutable_event() = std::move(event);
      request.set_replace_ended(calls_.random().Below(4) == 0);
      request.set_request_id(request_id);
      return calls_.UntilKnown<v1::Event>(
          [request](MasterApis& master, auto then) {
            master.events->UpsertEvent(request, std::move(then));
          },
          done);
    }
    v1::UpdateEventRequest request;
    request.mutable_event()->set_name(event.name());
    *request.mutable_event()->mutable_due_time() = event.due_time();
    request.set_request_id(request_id);
    calls_.UntilKnown<v1::Event>(
        [request](MasterApis& master, auto then) {
          master.events->UpdateEvent(request, std::move(then));
        },
        done);
  });
}

std::string EventUser::DeliveredIdOf(const v1::Event& event) {
  if (event.generation() == 0) return event.event_id();
  return absl::StrCat(event.event_id(), "#", event.generation());
}

OneOff* EventUser::Find(const std::string& event_id) {
  const auto found = std::find_if(events_.begin(), events_.end(),
                                  [&](const OneOff& event) { return event.event_id == event_id; });
  return found == events_.end() ? nullptr : &*found;
}

void EventUser::Replaced(const v1::Event& answer, Revision revision, absl::Time called) {
  const std::string id = DeliveredIdOf(answer);
  calls_.Note(absl::StrCat(id, " revision ", answer.revision(), " due ",
                           absl::FormatTime(revision.due, absl::UTCTimeZone())));
  OneOff* event = Find(id);
  if (event == nullptr) {
    event = &events_.emplace_back();
    event->event_id = id;
    event->generation = static_cast<uint64_t>(answer.generation());
    event->called = called;
    event->created = true;
    // A cancel of the former generation may be under way.
    event->cancel_called = true;
  }
  event->revision = std::max(event->revision, static_cast<uint64_t>(answer.revision()));
  revisions_[id][static_cast<uint64_t>(answer.revision())] = revision;
}

std::vector<OneOff> EventUser::Events() const {
  std::vector<OneOff> events = events_;
  // Copies of refused requests may have made further generations, one each.
  for (const auto& [id, refused] : refused_) {
    for (uint64_t i = 0; i < refused.size(); ++i) {
      OneOff next;
      next.generation = 1;
      do {
        next.event_id = absl::StrCat(id, "#", next.generation++);
      } while (absl::c_any_of(
          events, [&](const OneOff& event) { return event.event_id == next.event_id; }));
      next.cancel_called = true;
      next.due = absl::InfiniteFuture();
      events.push_back(std::move(next));
    }
  }
  for (OneOff& event : events) {
    const auto known = revisions_.find(event.event_id);
    if (known != revisions_.end()) {
      event.due = known->second.rbegin()->second.due;
      for (const auto& [number, each] : known->second) {
        if (each.body_hash.has_value()) event.bodies = {*each.body_hash};
      }
      if (event.bodies.empty()) continue;
    }
    const auto refused = refused_.find(event.event_id.substr(0, event.event_id.find('#')));
    if (refused == refused_.end()) continue;
    for (const Revision& each : refused->second) {
      event.due = std::min(event.due, each.due);
      if (each.body_hash.has_value()) event.bodies.insert(*each.body_hash);
    }
  }
  return events;
}

void EventUser::MayCancel(size_t event) {
  ++open_;
  calls_.After(calls_.Between(absl::ZeroDuration(), options_.ahead_max), [this, event] {
    v1::CancelEventRequest request;
    request.set_name(absl::StrCat(calls_.parent(), "/events/", events_[event].event_id));
    request.set_request_id(calls_.NewRequestId());
    events_[event].cancel_called = true;
    calls_.UntilKnown<v1::Event>(
        [request](MasterApis& master, auto done) {
          master.events->CancelEvent(request, std::move(done));
        },
        [this, event](absl::StatusOr<v1::Event> answer) {
          --open_;
          if (answer.ok()) {
            OneOff* const cancelled = Find(DeliveredIdOf(*answer));
            if (cancelled == nullptr) return;  // the answer of the call that made it is under way
            cancelled->cancelled = true;
            cancelled->cancel_answered = calls_.Now();
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
