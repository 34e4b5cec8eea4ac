#include "common/storage/done_record.h"

#include <algorithm>

namespace escapement {

storage::v1::DoneRecord DoneRecordOf(const storage::v1::EventRecord& row) {
  storage::v1::DoneRecord done;
  done.set_tenant(row.tenant());
  done.set_event_id(row.event_id());
  done.set_version(row.version());
  done.set_attempts(row.attempts());
  done.set_nominal_time_micros(row.nominal_time_micros());
  done.set_launch_time_micros(row.launch_time_micros());
  done.set_run_count(std::max<uint64_t>(row.run_count(), 1));
  done.set_run_kept(row.run_kept());
  *done.mutable_tried() = row.tried();
  done.set_redrives(row.redrives());
  return done;
}

}  // namespace escapement
