#include "tests/e2e/chaos/check_order.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace escapement::chaos {
namespace {

constexpr size_t kViolationsMax = 100;

class OrderCheck {
 public:
  OrderCheck(const std::vector<OrderFault>& faults, size_t keys, size_t events_of_key)
      : faults_(faults), keys_(keys, KeySeen{.events = std::vector<EventSeen>(events_of_key)}) {}

  OrderVerdict Judge(const std::vector<OrderNote>& notes) {
    for (const OrderNote& note : notes) {
      if (note.key >= keys_.size() || note.index >= keys_[note.key].events.size()) {
        Complain("order", note.key, note.index, "was not created");
      } else if (note.kind == OrderNote::Kind::kArrived) {
        Arrive(note);
      } else {
        Answer(note);
      }
    }
    for (size_t key = 0; key < keys_.size(); ++key) {
      for (size_t index = 0; index < keys_[key].events.size(); ++index) {
        if (!keys_[key].events[index].accepted) Complain("lost", key, index, "was never accepted");
      }
    }
    return std::move(verdict_);
  }

 private:
  struct EventSeen {
    int out = 0;  // attempts without an answer
    bool accepted = false;
    absl::Time arrived;  // the last time
  };
  struct KeySeen {
    size_t next = 0;      // the first event that has not been accepted
    size_t furthest = 0;  // the last event that has arrived
    int out = 0;          // attempts without an answer
    std::vector<EventSeen> events;
  };

  void Arrive(const OrderNote& note) {
    KeySeen& key = keys_[note.key];
    EventSeen& event = key.events[note.index];
    const auto complain = [&](const std::string& rule, const std::string& what) {
      Complain(rule, note.key, note.index,
               absl::StrCat("arrived at ",
                            absl::FormatTime("%H:%M:%E6S", note.time, absl::UTCTimeZone()), what));
    };
    ++verdict_.arrivals;
    if (note.index > key.next) {
      complain("order", absl::StrCat(" before ", key.next, " was accepted"));
    } else if (note.index < key.furthest) {
      complain("order", absl::StrCat(" after ", key.furthest));
    }
    if (key.out > event.out) complain("together", " while another was out");
    if (event.out > 0 || event.accepted) {
      ++verdict_.repeats;
      if (!HasFault(event.arrived, note.time))
        complain("repeat", event.out > 0 ? " while it was out" : " although it was accepted");
    }
    if (key.out == 0) verdict_.out_max = std::max(verdict_.out_max, ++keys_out_);
    ++key.out;
    ++event.out;
    event.arrived = note.time;
    key.furthest = std::max(key.furthest, note.index);
  }

  void Answer(const OrderNote& note) {
    KeySeen& key = keys_[note.key];
    EventSeen& event = key.events[note.index];
    --event.out;
    if (--key.out == 0) --keys_out_;
    if (note.kind == OrderNote::Kind::kRefused) {
      ++verdict_.refused;
      return;
    }
    if (!event.accepted) ++verdict_.accepted;
    event.accepted = true;
    while (key.next < key.events.size() && key.events[key.next].accepted) ++key.next;
  }

  bool HasFault(absl::Time begin, absl::Time end) const {
    return std::any_of(faults_.begin(), faults_.end(), [&](const OrderFault& fault) {
      return fault.begin <= end && fault.end >= begin;
    });
  }

  void Complain(const std::string& rule, size_t key, size_t index, const std::string& what) {
    if (verdict_.violations.size() == kViolationsMax) return;
    verdict_.violations.push_back({rule, absl::StrCat("key ", key, ": event ", index, " ", what)});
  }

  const std::vector<OrderFault>& faults_;
  std::vector<KeySeen> keys_;
  uint64_t keys_out_ = 0;
  OrderVerdict verdict_;
};

}  // namespace

OrderVerdict CheckOrder(const std::vector<OrderNote>& notes, const std::vector<OrderFault>& faults,
                        size_t keys, size_t events_of_key) {
  return OrderCheck(faults, keys, events_of_key).Judge(notes);
}

}  // namespace escapement::chaos
