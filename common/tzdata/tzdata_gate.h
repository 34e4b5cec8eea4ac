// TzdataGate: lets a process take part only while its time zone database is the one in force.
//
// The gate reads `tz_rev`. If it is absent, this machine's revision is adopted. If it is this
// machine's, the gate opens. If this machine's is newer, one commit switches the store to it.
// Otherwise the gate stays closed until `tz_rev` is this machine's. The gate watches `tz_rev`. If
// it changes while the gate is open, the gate closes for good: this process must not continue with
// the former rules. It can take part again after a restart with other files.
//
// Adoption and switch are each one group, under the condition that tz_rev is as it was read. So
// exactly one of many processes does it. A process that dies before the commit has changed nothing.
//
// Threads: everything except Open() and Start() runs on the gate's executor; the destructor stops
// it.

#ifndef COMMON_TZDATA_TZDATA_GATE_H_
#define COMMON_TZDATA_TZDATA_GATE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/cron/zone.h"
#include "common/kv/kv_store.h"
#include "common/metrics/metrics.h"
#include "common/runtime/runtime.h"
#include "common/tzdata/tzdata_table.h"

namespace escapement::tzdata {

class TzdataGate {
 public:
  struct Options {
    Database database;
    std::string instance;        // for logs and traces
    Metrics* metrics = nullptr;  // null: no metrics. Must outlive the gate
    // False: it leaves it to other processes to switch the store to a newer database.
    bool switches = true;
  };

  // The gate calls `on_open` and `on_close` on its executor, each at most once, in this order.
  // `store` and `runtime` must outlive the gate.
  TzdataGate(Options options, kv::KvStore& store, Runtime& runtime, Closure on_open,
             Closure on_close);
  ~TzdataGate();
  TzdataGate(const TzdataGate&) = delete;
  TzdataGate& operator=(const TzdataGate&) = delete;

  void Start();
  // True if this machine's revision is in force as far as this process knows. Any thread.
  bool Open() const;

  const std::string& revision() const;
  const std::shared_ptr<Executor>& executor() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

// The commits by which a revision of the time zone database comes into force.
//
// Pure.

// The first revision of a store: puts tz_rev and the rules of all zones, if tz_rev is absent.
kv::Group Adopt(absl::string_view revision, const std::vector<cron::Zone>& zones, absl::Time now);

struct SwitchPlan {
  kv::Group group;
  std::vector<std::string> moved;  // the zones whose former rules the switch keeps
};
// The switch from `old_revision` to `revision`. If tz_rev is the old one, puts tz_rev, tz_switch,
// and the rules of zones that differ from `kept` (the store's). A zone that this machine does not
// have stays as it is.
SwitchPlan PlanSwitch(absl::string_view old_revision, absl::string_view revision,
                      const RulesByName& kept, const std::vector<cron::Zone>& zones,
                      absl::Time now);

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_TZDATA_GATE_H_
