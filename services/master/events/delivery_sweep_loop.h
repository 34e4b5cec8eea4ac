// DeliverySweepLoop: deletes the deliveries of one-off events (event_table.h) of the periods
// before the first one that is in use. Every master does it; deleting twice does nothing.
//
// New events never use a period that is over. Others may, and a sweep looks through them:
//
//   1. events that wait for their first attempt. The first of each lane is enough, because they are
//      in the order of their launch times.
//   2. all events of the retry lanes
//   3. all dead letters
//
// An event moves through these in this order only, and within a retry lane only forward. So none is
// missed because it moves at the same time. A redrive would move it back: it stores the delivery
// again, for the period of the new due time.
//
// Deliveries of the present period and of the kDeliveryPeriodsKept periods before it are never
// deleted. So an event that is prepared in one period and committed in the next still finds its
// delivery. A sweep reads the tables above only if an older delivery is stored. A row that cannot
// be read may use any delivery: then nothing is deleted.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_EVENTS_DELIVERY_SWEEP_LOOP_H_
#define SERVICES_MASTER_EVENTS_DELIVERY_SWEEP_LOOP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/kv/kv_store.h"
#include "common/runtime/runtime.h"
#include "common/storage/event_table.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class DeliverySweepLoop {
 public:
  // `context` outlives it; the context's executor is stopped before the loop is destroyed.
  explicit DeliverySweepLoop(MasterContext& context) : context_(context) {}

  // Begins again a while after the end.
  void Start();
  // Ends the present sweep: the store may be another one than before.
  void GiveUp() { first_used_ = 0; }

 private:
  // Returns false to stop.
  using OnPage = std::function<bool(const kv::ScanResult& page)>;

  void StartLater();
  // Scans page by page, with pauses, until there is no more or `on_page` stops it. Then it calls
  // `next`. If a page cannot be read, the sweep ends.
  void ScanPages(kv::ScanRequest scan, OnPage on_page, Closure next);
  void ScanNext(std::shared_ptr<kv::ScanRequest> scan, OnPage on_page, Closure next);
  // The deliveries of periods before first_used_, with the definitions between them.
  kv::ScanRequest OldDeliveries() const;
  // Lowers first_used_.
  void Use(DeliveryPeriod period);
  // For an event of the retry lanes or of a dead letter; null: it cannot be read, and may use any.
  // If its delivery has the earlier form, its period is any number, which at worst keeps more than
  // necessary.
  void UseDeliveryOf(const storage::v1::EventRecord* event);
  // True if no period that can be deleted is left.
  bool AllUsed() const { return first_used_ <= first_stored_; }

  void FindFirstStored();
  // The lanes of a queue shard follow those of the one before it.
  void LookAtLane(uint32_t lane);
  void LookAtRetries(uint32_t shard);
  void LookAtDeadLetters();
  void DeleteOld(std::string position);

  MasterContext& context_;
  // Periods from this on are in use, or may be.
  DeliveryPeriod first_used_ = 0;
  DeliveryPeriod first_stored_ = 0;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_EVENTS_DELIVERY_SWEEP_LOOP_H_
