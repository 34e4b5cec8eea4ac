// TzdataGate: lets a process take part only while its time zone database is the one in force.
//
// It reads `tz_rev`. Absent: this machine's revision is adopted. The same: the gate opens. This
// machine's is newer: the store is switched to it in one commit. Any other: the gate stays closed
// until `tz_rev` is this machine's. `tz_rev` is watched; when it becomes another one while the gate
// is open, the gate closes for good: what was made from the former rules is not worked on by this
// process any more, until it starts again with other files.
//
// Adoption and switch are each one group under the condition that tz_rev is as it was read, so of
// many processes one does it. A process that dies before the commit has done nothing.
//
// Threads: all but Open() and Start() on the gate's executor; the destructor stops it.

#ifndef COMMON_TZDATA_TZDATA_GATE_H_
#define COMMON_TZDATA_TZDATA_GATE_H_

#include <memory>
#include <string>

#include "common/kv/kv_store.h"
#include "common/metrics/metrics.h"
#include "common/runtime/runtime.h"
#include "common/tzdata/database.h"

namespace escapement::tzdata {

class TzdataGate {
 public:
  struct Options {
    Database database;
    std::string instance;        // for logs and traces
    Metrics* metrics = nullptr;  // null: not shown. Outlives the gate
  };

  // `on_open` and `on_close` are called on the gate's executor, each at most once, in this order.
  // `store` and `runtime` outlive the gate.
  TzdataGate(Options options, kv::KvStore& store, Runtime& runtime, Closure on_open,
             Closure on_close);
  ~TzdataGate();
  TzdataGate(const TzdataGate&) = delete;
  TzdataGate& operator=(const TzdataGate&) = delete;

  void Start();
  // Any thread: is this machine's revision in force, as far as is known?
  bool Open() const;

  const std::string& revision() const;
  const std::shared_ptr<Executor>& executor() const;

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace escapement::tzdata

#endif  // COMMON_TZDATA_TZDATA_GATE_H_
