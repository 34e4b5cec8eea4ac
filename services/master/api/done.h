// The callbacks of the master's APIs.

#ifndef SERVICES_MASTER_API_DONE_H_
#define SERVICES_MASTER_API_DONE_H_

#include "common/rpc/done.h"

namespace escapement::master {

using ::escapement::Done;

}  // namespace escapement::master

#endif  // SERVICES_MASTER_API_DONE_H_
