// RedriveDeadLetter: reads the dead letter, decides and commits, again while races are lost.
//
// Threads: the callback runs on the context's executor.

#ifndef SERVICES_MASTER_OPERATIONS_DEAD_LETTER_REDRIVE_H_
#define SERVICES_MASTER_OPERATIONS_DEAD_LETTER_REDRIVE_H_

#include "common/storage/dead_letter_table.h"
#include "escapement/v1/resources.pb.h"
#include "services/master/api/done.h"
#include "services/master/base/master_context.h"
#include "services/master/requests/request_table.h"

namespace escapement::master {

// Errors: those of the RPC. `validate_only`: decides and answers, writes nothing.
void RedriveOne(MasterContext& context, DeadLetterName name, RequestMark mark, bool validate_only,
                Done<v1::Event> done);

}  // namespace escapement::master

#endif  // SERVICES_MASTER_OPERATIONS_DEAD_LETTER_REDRIVE_H_
