#include "tests/simulation/actors/event_owner.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/hash.h"
#include "common/base/proto_time.h"
#include "escapement/v1/event_service.pb.h"
#include "tests/simulation/actors/message_parts.h"

namespace escapement::simulation {
namespace {

// Handlers claim an event so long before it is due at the earliest, as masters know it.
constexpr absl::Duration kClaimedEarly = absl::Minutes(1);

}  // namespace

void EventOwner::Start() {
  for (int i = 0; i < options_.sets; ++i) {
    auto set = std::make_shared<Set>();
    set->far = i % 2 == 1;
    set->batches =
        1 + static_cast<int>(calls_.random().Below(static_cast<uint64_t>(options_.batches_of_set)));
    const uint64_t size = 1 + calls_.random().Below(static_cast<uint64_t>(options_.events_of_set));
    for (uint64_t n = 0; n < size; ++n)
      set->owned.push_back({.id = absl::StrCat(options_.name, "-", i, "-", n)});
    ++open_;
    After(options_.begin_max, std::move(set));
  }
}

void EventOwner::After(absl::Duration most, std::shared_ptr<Set> set) {
  calls_.After(calls_.Between(absl::ZeroDuration(), most),
               [this, set = std::move(set)] { Send(set); });
}

void EventOwner::Send(std::shared_ptr<Set> set) {
  auto request = std::make_shared<v1::IngestRequest>();
  request->set_parent(calls_.parent());
  SetDelivery(request->mutable_defaults());
  std::vector<Change> changes;
  for (const Owned& owned : set->owned) {
    v1::IngestEvent& one = *request->add_events();
    one.set_event_id(owned.id);
    Change& change = changes.emplace_back();
    if (calls_.random().Below(3) == 0) {
      change.mode = v1::Event::CANCEL;
      if (OneOff* const event = Waiting(owned); event != nullptr) event->cancel_called = true;
    } else {
      change.due =
          calls_.Now() + (set->far ? calls_.Between(options_.far_min, options_.far_max)
                                   : calls_.Between(absl::ZeroDuration(), options_.near_max));
      const int64_t micros = ToMicros(change.due);
      change.due = FromMicros(micros);
      one.set_due_time_micros(micros);
      one.set_payload(absl::StrCat("event ", options_.name, " ", ++last_payload_));
      change.body_hash = StableHash64(one.payload());
    }
    one.set_mode(change.mode);
  }
  const absl::Time called = calls_.Now();
  calls_.UntilKnown<v1::IngestResponse>(
      [request = std::shared_ptr<const v1::IngestRequest>(request)](MasterApis& master, auto done) {
        master.events->IngestBatch(request, {}, std::move(done));
      },
      [this, set, changes = std::move(changes), called](absl::StatusOr<v1::IngestResponse> answer) {
        const bool once = calls_.tries() == 1;
        if (answer.ok()) {
          Heard(*set, changes, *answer, once, called);
        } else {
          complaints_.push_back(
              absl::StrCat("ingestion of ", options_.name, ": ", answer.status().ToString()));
        }
        // A former try may take effect later, on what a further batch makes of the events.
        if (!answer.ok() || !once || --set->batches == 0) {
          --open_;
          return;
        }
        After(options_.rest_max, set);
      });
}

void EventOwner::Heard(Set& set, std::vector<Change> changes, const v1::IngestResponse& answer,
                       bool once, absl::Time called) {
  for (const int position : answer.replaced_positions())
    changes.at(static_cast<size_t>(position)).fate = Fate::kReplaced;
  for (const v1::IgnoredEvent& ignored : answer.ignored()) {
    Change& change = changes.at(static_cast<size_t>(ignored.position()));
    const auto code = static_cast<absl::StatusCode>(ignored.code());
    change.fate = code == absl::StatusCode::kResourceExhausted || code == absl::StatusCode::kAborted
                      ? Fate::kNotNow
                      : Fate::kIgnored;
    change.why = ignored.message();
  }
  int created = 0, ended = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    const Change& change = changes[i];
    if (change.mode == v1::Event::CANCEL) {
      Cancelled(set.owned[i], change, once);
      ended += change.fate == Fate::kDone ? 1 : 0;
    } else {
      Upserted(set.owned[i], change, once, called);
      created += change.fate == Fate::kDone ? 1 : 0;
    }
  }
  if (answer.created_count() != created || answer.ended_count() != ended)
    Complain(set.owned[0], absl::StrCat("and others: the answer's counts are wrong: ",
                                        answer.ShortDebugString()));
}

void EventOwner::Upserted(Owned& owned, const Change& change, bool once, absl::Time called) {
  OneOff* const event = Waiting(owned);
  switch (change.fate) {
    case Fate::kDone:
      if (event != nullptr) Complain(owned, "was created a second time");
      return Add(owned, change, called);
    case Fate::kReplaced:
      if (event == nullptr) {
        if (once) Complain(owned, "was replaced, and did not wait");
        return Add(owned, change, called);
      }
      event->due = change.due;
      event->bodies = {change.body_hash};
      return;
    case Fate::kIgnored:
      if (event == nullptr) {
        if (once) Complain(owned, absl::StrCat("was not created: ", change.why));
        return Add(owned, change, called);  // by the former try, and has been claimed since
      }
      if (Unclaimed(*event)) Complain(owned, absl::StrCat("was not replaced: ", change.why));
      if (once) return;
      event->due = std::min(event->due, change.due);
      event->bodies.insert(change.body_hash);
      return;
    case Fate::kNotNow:
      if (once) return;
      if (event == nullptr) {  // a former try may have created it
        Add(owned, change, called);
        events_.back().created = false;
        return;
      }
      event->due = std::min(event->due, change.due);
      event->bodies.insert(change.body_hash);
  }
}

void EventOwner::Cancelled(Owned& owned, const Change& change, bool once) {
  OneOff* const event = Waiting(owned);
  if (change.fate == Fate::kDone) {
    if (event == nullptr) return Complain(owned, "was cancelled, and did not wait");
    event->cancelled = true;
    event->cancel_answered = calls_.Now();
  } else if (change.fate == Fate::kIgnored && event != nullptr && once && Unclaimed(*event)) {
    Complain(owned, absl::StrCat("was not cancelled: ", change.why));
  }
}

void EventOwner::Add(Owned& owned, const Change& change, absl::Time called) {
  OneOff event;
  event.generation = owned.present.has_value() ? events_[*owned.present].generation + 1 : 0;
  event.event_id = event.generation == 0 ? owned.id : absl::StrCat(owned.id, "#", event.generation);
  event.due = change.due;
  event.bodies = {change.body_hash};
  event.called = called;
  event.created = true;
  owned.present = events_.size();
  events_.push_back(std::move(event));
}

OneOff* EventOwner::Waiting(const Owned& owned) {
  if (!owned.present.has_value()) return nullptr;
  OneOff& event = events_[*owned.present];
  return event.cancelled ? nullptr : &event;
}

bool EventOwner::Unclaimed(const OneOff& event) const {
  return calls_.Now() < event.due - kClaimedEarly;
}

void EventOwner::Complain(const Owned& owned, absl::string_view what) {
  complaints_.push_back(absl::StrCat(
      "event ", owned.id, " at ", absl::FormatTime(calls_.Now(), absl::UTCTimeZone()), " ", what));
}

}  // namespace escapement::simulation
