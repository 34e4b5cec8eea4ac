#include "services/master/schedules/changes/calendar_reader.h"

#include <memory>
#include <utility>

#include "common/base/key_codec.h"
#include "common/storage/schedule_table.h"
#include "services/master/base/errors.h"
#include "services/master/base/limits.h"
#include "services/master/requests/range_reader.h"

namespace escapement::master {

void ReadCalendars(MasterContext& context, const std::string& tenant,
                   absl::AnyInvocable<void(absl::StatusOr<Calendars>)> done) {
  const std::string prefix = CalendarPrefix(tenant);
  auto calendars = std::make_shared<Calendars>();
  ReadRanges(
      context, {{ColumnFamily::kPolicies, prefix, PrefixEnd(prefix)}}, kCalendarsMax,
      [calendars](const KeyRange&, kv::Entry& row) -> absl::StatusOr<bool> {
        StoredCalendar stored{.bytes = std::move(row.value)};
        if (!stored.record.ParseFromString(stored.bytes)) return BrokenRecord("a calendar");
        const std::string id = stored.record.calendar_id();
        calendars->emplace(id, std::move(stored));
        return true;
      },
      [calendars, done = std::move(done)](const absl::Status& status) mutable {
        if (!status.ok()) return done(status);
        done(std::move(*calendars));
      });
}

}  // namespace escapement::master
