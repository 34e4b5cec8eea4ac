#include "services/master/operations/cancel_page.h"

#include <memory>
#include <optional>
#include <utility>

#include "common/base/key_codec.h"
#include "services/master/base/limits.h"
#include "services/master/events/event_filter.h"
#include "services/master/events/event_query.h"
#include "services/master/requests/resource_name.h"

namespace escapement::master {
namespace {

class CancelReading : public std::enable_shared_from_this<CancelReading> {
 public:
  using Read = absl::AnyInvocable<void(absl::StatusOr<CancelPage>)>;

  CancelReading(MasterContext& context, const storage::v1::OperationRecord& operation, Read done)
      : context_(context), operation_(operation), done_(std::move(done)) {}

  void Start() {
    if (!operation_.filter().empty()) return List();
    for (const std::string& id : operation_.event_ids()) page_.events.push_back({.event_id = id});
    LookUp();
  }

 private:
  void List() {
    absl::StatusOr<ListFilter> filter = ReadEventFilter(operation_.filter(), operation_.tenant());
    if (!filter.ok()) return done_(filter.status());
    EventQuery query;
    query.tenant = operation_.tenant();
    query.page_size = kOperationEventsMax;
    query.filter = *std::move(filter);
    KeyReader cursor(operation_.cursor());
    shard_ = operation_.cursor().empty() ? uint16_t{0} : cursor.U16();
    query.shard = shard_;
    query.position = std::string(cursor.Rest());
    ListPendingEvents(context_, std::move(query),
                      [self = shared_from_this()](absl::StatusOr<ShownEvents> listed) {
                        if (!listed.ok()) return self->done_(listed.status());
                        self->OnListed(*listed);
                      });
  }

  void OnListed(const ShownEvents& listed) {
    const bool shard_ended = listed.next.empty();
    const auto next_shard = static_cast<uint16_t>(*shard_ + 1);
    page_.ended = shard_ended && next_shard >= context_.layout.queue_shards;
    page_.cursor = KeyWriter().U16(shard_ended ? next_shard : *shard_).Raw(listed.next).Take();
    for (const v1::Event& event : listed.events)
      page_.events.push_back({.event_id = event.event_id(), .etag = event.etag()});
    LookUp();
  }

  void LookUp() {
    std::vector<EventName> names;
    for (const EventToCancel& event : page_.events)
      names.push_back({operation_.tenant(), event.event_id});
    LookUpEvents(context_, names,
                 [self = shared_from_this()](absl::StatusOr<std::vector<EventSighting>> found) {
                   if (!found.ok()) return self->done_(found.status());
                   self->OnFound(*std::move(found));
                 });
  }

  // Leaves the events whose claims are those of another shard to later steps. With a filter they
  // have moved there since they were listed, so they are other revisions.
  void OnFound(std::vector<EventSighting> found) {
    std::vector<EventToCancel> listed = std::exchange(page_.events, {});
    absl::flat_hash_set<std::string> row_keys;
    for (size_t i = 0; i < listed.size(); ++i) {
      EventToCancel& event = listed[i];
      event.sighting = std::move(found[i]);
      if (NeedsClaims(event.sighting)) {
        const uint16_t shard = event.sighting.key.shard;
        if (shard_.value_or(shard) != shard) {
          if (operation_.filter().empty()) page_.left.push_back(std::move(event.event_id));
          continue;
        }
        shard_ = shard;
        row_keys.insert(event.sighting.row_key);
      }
      page_.events.push_back(std::move(event));
    }
    if (operation_.filter().empty()) page_.ended = page_.left.empty();
    if (row_keys.empty()) return done_(std::move(page_));
    FindClaims(context_, *shard_, std::move(row_keys),
               [self = shared_from_this()](const absl::StatusOr<ClaimedRows>& claimed) {
                 if (!claimed.ok()) return self->done_(claimed.status());
                 self->OnClaims(*claimed);
               });
  }

  // A row in `waiting` tells all about the claims of an event under a policy.
  static bool NeedsClaims(const EventSighting& sighting) {
    return sighting.row.has_value() && sighting.waiting_key.empty() && !sighting.claimed;
  }

  void OnClaims(const ClaimedRows& claimed) {
    for (EventToCancel& event : page_.events) {
      if (!NeedsClaims(event.sighting)) continue;
      event.sighting.claimed = claimed.keys.contains(event.sighting.row_key);
      event.sighting.claims_seq = claimed.seq;
    }
    done_(std::move(page_));
  }

  MasterContext& context_;
  const storage::v1::OperationRecord operation_;
  Read done_;
  std::optional<uint16_t> shard_;  // the shard whose claims are read
  CancelPage page_;
};

}  // namespace

void ReadCancelPage(MasterContext& context, const storage::v1::OperationRecord& operation,
                    absl::AnyInvocable<void(absl::StatusOr<CancelPage>)> done) {
  std::make_shared<CancelReading>(context, operation, std::move(done))->Start();
}

}  // namespace escapement::master
