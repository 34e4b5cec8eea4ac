// PauseRequestLoop: pauses the schedules whose targets are gone for good. Handlers ask for it in
// `pause_requests`, in the commit that ends the event which the target refused.
//
// A request has no effect if its schedule has a newer version, is not enabled any more, or was
// deleted. The commit that acts on a request also deletes it. Every master does it; the first one's
// commit applies.
//
// Threads: the context's executor.

#ifndef SERVICES_MASTER_SCHEDULES_CHANGES_PAUSE_REQUEST_LOOP_H_
#define SERVICES_MASTER_SCHEDULES_CHANGES_PAUSE_REQUEST_LOOP_H_

#include <memory>
#include <set>
#include <string>

#include "common/kv/client/range_mirror.h"
#include "services/master/base/master_context.h"

namespace escapement::master {

class PauseRequestLoop {
 public:
  // `context` outlives it; its executor is stopped before the loop is destroyed.
  explicit PauseRequestLoop(MasterContext& context);

  // Call it once the layout is known.
  void Start() { mirror_.Start(); }

 private:
  void Take(const kv::RangeMirror::Rows& rows);
  // Begins with further requests, up to a bound.
  void Step();
  void Act(const std::string& key, const std::string& value);
  void OnDone(const std::string& key);

  MasterContext& context_;
  std::shared_ptr<const kv::RangeMirror::Rows> rows_;  // as the mirror has them
  std::set<std::string> acting_;  // keys of requests under way, or to be retried
  kv::RangeMirror mirror_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_SCHEDULES_CHANGES_PAUSE_REQUEST_LOOP_H_
