// Describes a cron expression in English: "At 03:00, 06:00 and 09:00, every day", "Every 15
// minutes", "At 10:00, on the second Tuesday of the month, in March and June".
//
// The text is true for every expression; of a long list it gives the count ("At 27 different
// minutes of every hour"). "Weekday" without a name is Monday to Friday. Pure.

#ifndef COMMON_CRON_DESCRIPTION_H_
#define COMMON_CRON_DESCRIPTION_H_

#include <string>

#include "common/cron/cron_expression.h"

namespace escapement::cron {

// Never empty.
std::string Describe(const CronExpression& expression);

}  // namespace escapement::cron

#endif  // COMMON_CRON_DESCRIPTION_H_
