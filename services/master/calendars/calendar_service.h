// CalendarService: the calendars of tenants. Check → decide → write → answer.
//
// Every change of a calendar reads all calendars of the tenant and is one commit, on condition that
// none of them has changed since (CalendarMarkKey). So no circle and no missing calendar can come
// to be. Schedules that name a changed calendar follow (retiming_loop.h).
//
// Threads: as master_apis.h. No state.

#ifndef SERVICES_MASTER_CALENDARS_CALENDAR_SERVICE_H_
#define SERVICES_MASTER_CALENDARS_CALENDAR_SERVICE_H_

#include "escapement/v1/calendar_service.pb.h"
#include "services/master/api/master_apis.h"
#include "services/master/base/master_context.h"
#include "services/master/calendars/retiming_loop.h"

namespace escapement::master {

class CalendarService {
 public:
  // Both outlive the service.
  CalendarService(MasterContext& context, RetimingLoop& retiming)
      : context_(context), retiming_(retiming) {}

  void CreateCalendar(v1::CreateCalendarRequest request, Done<v1::Calendar> done);
  void GetCalendar(v1::GetCalendarRequest request, Done<v1::Calendar> done);
  void ListCalendars(v1::ListCalendarsRequest request, Done<v1::ListCalendarsResponse> done);
  void UpdateCalendar(v1::UpdateCalendarRequest request, Done<v1::UpdateCalendarResponse> done);
  void DeleteCalendar(v1::DeleteCalendarRequest request, Done<google::protobuf::Empty> done);

 private:
  MasterContext& context_;
  RetimingLoop& retiming_;
};

}  // namespace escapement::master

#endif  // SERVICES_MASTER_CALENDARS_CALENDAR_SERVICE_H_
